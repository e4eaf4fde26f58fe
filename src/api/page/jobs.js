/* ---- A group of jobs, as its worker sees it ---------------------------------- */

const source = {
  status: '/v1/jobs?limit=200',
  stream: '/v1/jobs',
  isStatus: (snapshot) => typeof snapshot.phase === 'string',
  now: (snapshot) => snapshot.now_ms,
  name: 'worker',
  token: {
    title: 'Token for reading',
    text: 'This worker shows its group to those who know its token. It is kept in this page’s memory only.',
  },
};

const DENSE = 12;       /* more workers than that are drawn small */
const FOUND_MAX = 100;  /* jobs that are listed; the rest is counted */
const plural = (n, one, many = one + 's') => count(n) + '\u00a0' + (number(n) === 1 ? one : many);

/* ---- What is wrong, in words ---- */

const PHASES = {
  starting: 'This worker is starting.',
  joining: 'This worker is not a member of the group yet.',
  draining: 'This worker is stopping its programs, in order to leave.',
  lost: 'This worker has lost its membership; its programs are ended, and it joins again.',
  leaving: 'This worker is leaving.',
  left: 'This worker has left the group.',
};
function troublesOf(g) {
  const found = [], jobs = g.jobs || {};
  if (g.phase !== 'member') found.push(['bad', (PHASES[g.phase] || clean(g.phase)) + (g.waits ? ' ' + clean(g.waits) + '.' : '')]);
  if (g.trouble) found.push(['bad', 'The store: ' + clean(g.trouble)]);
  if (number(jobs.unowned) > 0)
    found.push(['warn', `Nobody runs ${plural(jobs.unowned, 'job')}; the first has waited for ${duration(number(jobs.unowned_seconds) * 1000).trim()}.`]);
  if (number(jobs.in_doubt) > 0) found.push(['warn', `The outcome of ${plural(jobs.in_doubt, 'write')} is not known yet.`]);
  return found;
}
const troubleRow = () => {
  const text = el('span'), node = el('li', {}, text);
  return { node, update: ([mood, words]) => { attributes(node, { 'data-mood': mood }); put(text, words); } };
};

/* ---- A column a worker ---- */

function sharedStart(names) {
  let n = names.length ? names[0].length : 0;
  for (const name of names) while (n > 0 && (name.length <= n || !name.startsWith(names[0].slice(0, n)))) n--;
  return n > 2 ? n : 0;
}

const MOODS = { alive: null, standby: null, draining: 'warn', left: 'warn', absent: 'bad', dead: 'bad', damaged: 'bad', evicted: 'bad', placeholder: 'bad' };
let tallest = 1; /* the load that fills a column */
let shared = 0;  /* letters that all names begin with: not repeated where there is no room */

function workerColumn() {
  const load = shape('rect', { class: 'load', x: 0, width: 10 }), fair = shape('line', { class: 'fair', x1: -1.5, x2: 11.5 });
  const bar = shape('svg', { viewBox: '0 0 10 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  bar.append(shape('rect', { class: 'track', x: 0, y: 0, width: 10, height: 100 }), load, fair);
  const name = el('bdi', { class: 'name mono' }), jobs = el('span', { class: 'count' }), more = el('small'), chip = el('span', { class: 'chip' });
  const node = el('li', {}, bar, name, jobs, more, chip);
  return { node, update: (m) => {
    const full = 100 * number(m.load) / tallest, even = 100 - 100 * number(m.fair) / tallest, mood = MOODS[m.state] === undefined ? 'bad' : MOODS[m.state];
    attributes(load, { y: 100 - full, height: full });
    attributes(fair, { y1: even, y2: even, visibility: m.counts ? null : 'hidden' });
    put(name, (shared ? '…' : '') + clean(m.id.slice(shared)));
    put(jobs, count(m.jobs));
    put(more, (number(m.load) === number(m.jobs) ? '' : 'load ' + count(m.load) + ', ') + (m.counts ? 'fair ' + count(m.fair) : 'gets no jobs'));
    const state = m.state !== 'alive' ? m.state : !m.counts ? 'settling' : !m.applied ? 'catching up' : '';
    put(chip, state);
    attributes(chip, { hidden: !state, 'data-mood': mood });
    attributes(node, { class: m.self ? 'self' : null, 'data-mood': mood, title: describe(m, state) });
  } };
}
const describe = (m, state) => `${clean(m.id)}${m.self ? ' (this worker)' : ''}: ${plural(m.jobs, 'job')}, load ${count(m.load)}, fair ${count(m.fair)}`
  + (m.limit === null ? '' : ', capacity ' + count(m.limit)) + (number(m.share) > 1 ? ', share ' + count(m.share) : '') + (m.labels ? ', ' + clean(m.labels) : '') + (state ? ', ' + state : '');

/* ---- Moves, as they happen ---- */

const CAUSES = { placed: [null, 'placed'], rebalanced: [null, 'rebalanced'], died: ['bad', 'died'], left: [null, 'left'], drained: [null, 'drained'],
  evicted: ['warn', 'evicted'], lost: ['bad', 'record lost'], paused: [null, 'paused'], unplaced: ['warn', 'unplaced'] };
const several = (id, m, which) => id !== null ? clean(id) : m.several ? 'several workers' : which;
function moveText(m) {
  const jobs = plural(m.count, 'job');
  if (m.cause === 'placed') return `${jobs} to ${several(m.to, m, 'nobody')}`;
  if (m.cause === 'paused') return `${jobs} of ${several(m.from, m, 'nobody')} paused or removed`;
  if (m.cause === 'unplaced') return `${jobs} of ${several(m.from, m, 'nobody')} to nobody`;
  return `${jobs} from ${several(m.from, m, 'nobody')} to ${several(m.to, m, 'nobody')}`;
}
let movesSeen = null; /* keys; null: the first snapshot, nothing in it is new */
const moveKey = (m) => [m.at_ms, m.plan, m.cause, m.from, m.to].join(' ');
function moveRow(m) {
  const [mood, word] = CAUSES[m.cause] || ['warn', clean(m.cause)];
  const names = list(m.jobs).map(clean), rest = number(m.count) - names.length;
  const node = el('li', { class: movesSeen && !movesSeen.has(moveKey(m)) ? 'new' : null },
    el('time', { datetime: new Date(number(m.at_ms)).toISOString(), text: localTime(here(number(m.at_ms))), title: 'plan ' + count(m.plan) }),
    el('span', { class: 'chip', 'data-mood': mood, text: word }), el('p', { text: moveText(m) }),
    el('small', { text: names.join(', ') + (rest > 0 ? ' and ' + count(rest) + ' more' : '') }));
  return { node, update: () => {} };
}
function showMoves(moves) {
  const fresh = movesSeen ? moves.filter((m) => !movesSeen.has(moveKey(m))) : [];
  keyed($('moves'), moves, moveKey, moveRow);
  $('no-moves').hidden = moves.length > 0;
  if (fresh.length) announce(fresh.slice(0, 3).map((m) => `${(CAUSES[m.cause] || [0, clean(m.cause)])[1]}: ${moveText(m)}`).join('. '));
  movesSeen = new Set(moves.map(moveKey));
}

/* ---- Jobs that cannot be placed ---- */

function reasonRow() {
  const text = el('span'), jobs = el('small'), node = el('li', {}, text, jobs);
  return { node, update: (r) => {
    const names = list(r.jobs).map(clean), rest = number(r.count) - names.length;
    put(text, `${plural(r.count, 'job')}: ${clean(r.reason)}`);
    put(jobs, names.join(', ') + (rest > 0 ? ' and ' + count(rest) + ' more' : ''));
  } };
}

/* ---- Search ---- */

let query = '', found = null, searching = 0; /* found: what the last search answered */
async function search() {
  const mine = ++searching, text = query;
  if (!text) { found = null; render(); return; }
  try {
    const answer = await fetch(`/v1/jobs?search=${encodeURIComponent(text)}&limit=${FOUND_MAX}`, { headers: headers({ Accept: 'application/json' }), cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) throw await problem(answer);
    const jobs = await answer.json();
    if (mine === searching) { found = jobs; render(); }
  } catch (error) {
    if (mine === searching && known) put($('found-text'), 'The search failed: ' + clean(error.message));
  }
}
function jobRow() {
  const name = id(''), where = el('span'), since = el('small'), reason = el('small', { class: 'reason' });
  const node = el('li', {}, name, where, since, reason);
  return { node, update: (j) => {
    put(name, clean(j.id));
    put(where, j.wanted && j.wanted !== 'running' ? clean(j.wanted) : j.worker === undefined ? clean(j.state) : j.worker === null ? 'nobody' : clean(j.worker) + (j.state ? ', ' + clean(j.state) : ''));
    put(since, j.since_ms ? 'for ' + brief(agentNow() - number(j.since_ms)) : '');
    attributes(node, { title: j.epoch ? 'epoch ' + clean(j.epoch) : null });
    put(reason, j.reason ? clean(j.reason) : '');
    reason.hidden = !j.reason;
  } };
}
function showJobs(g) {
  const own = list(g.own), jobs = found ? list(found.jobs) : own.slice(0, FOUND_MAX);
  const all = number(found ? found.count : g.own_count), what = found ? `${plural(all, 'job')} with “${clean(found.search)}” in the name` : `${plural(all, 'job')} on this worker`;
  put($('found-text'), what + (all > jobs.length ? `, the first ${count(jobs.length)} are shown` : ''));
  keyed($('found'), jobs, (j) => j.id, jobRow);
}

/* ---- The whole ---- */

function summary(g) {
  const jobs = g.jobs || {}, workers = list(g.members).filter((m) => m.counts).length;
  const words = [plural(jobs.runnable || 0, 'job') + ' on ' + plural(workers, 'worker')];
  if (number(jobs.unplaced) > 0) words.push(count(jobs.unplaced) + ' cannot be placed');
  return words.join(', ');
}
function render() {
  if (!known) return;
  const g = known, members = list(g.members).filter((m) => typeof m.id === 'string'), unplaced = list(g.unplaced);
  $('empty').hidden = true;
  $('jobs').hidden = false;
  put($('agent'), `${clean(g.group)}, seen by ${clean(g.worker)} · tenure ${clean(g.version)}${g.plan ? ' · plan ' + count(g.plan.seq) + (g.plan.cut ? ', more moves follow' : '') : ''}`);
  put($('summary-text'), summary(g));
  put($('zone'), zone(Date.now()));
  document.title = `${clean(g.group)}: ${summary(g)}`;
  keyed($('troubles'), troublesOf(g), ([, text]) => text.replace(/[\d\u202f]+/g, '#'), troubleRow);
  tallest = Math.max(1, ...members.map((m) => Math.max(number(m.load), number(m.fair)))) * 1.06;
  shared = members.length > DENSE ? sharedStart(members.map((m) => m.id)) : 0;
  $('workers').classList.toggle('dense', members.length > DENSE);
  keyed($('workers'), members, (m) => m.id, workerColumn);
  showMoves(list(g.moves));
  $('unplaced-part').hidden = unplaced.length === 0;
  keyed($('unplaced'), unplaced, (r) => r.reason, reasonRow);
  showJobs(g);
}

let pause = 0;
$('search').addEventListener('input', () => { query = $('search').value.trim(); clearTimeout(pause); pause = setTimeout(search, 150); });
$('search').addEventListener('keydown', (event) => { if (event.key === 'Escape') { $('search').value = query = ''; search(); } });
$('skip').addEventListener('click', (event) => { event.preventDefault(); $('main').focus(); });
addEventListener('keydown', (event) => { /* "/" searches, as elsewhere */
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || $('ask').open || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  $('search').focus();
});
setInterval(() => { watchLink(); if (!document.hidden) { render(); if (query && link === 'live') search(); } }, 2000);
showKey();
connect();
