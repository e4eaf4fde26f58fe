/* ---- All elections: a summary, what needs attention, and the rest -------------- */

const DENSE = 5;       /* more elections than this: a list, and a card for the one that is opened */
const ROOMY = 12;      /* more in trouble than this: one line each */
const TIGHT = 60;      /* more healthy ones than this: smaller */
let view = { name: null, query: '', show: 'all' };
let listScroll = 0;

/* An address for each view, which can be shared: #/NAME is an election, #?q=…&show=… a filtered list. */
const addressOf = (name) => '#/' + encodeURIComponent(name);
function readAddress() {
  const hash = location.hash;
  if (hash.startsWith('#/') && hash.length > 2) {
    let name = hash.slice(2);
    try { name = decodeURIComponent(name); } catch { /* as it is written, then */ }
    return { name, query: view.query, show: view.show };
  }
  const given = new URLSearchParams(hash.startsWith('#?') ? hash.slice(2) : ''), show = given.get('show');
  return { name: null, query: given.get('q') || '', show: ['trouble', 'here'].includes(show) ? show : 'all' };
}
function listAddress() {
  const given = new URLSearchParams();
  if (view.query) given.set('q', view.query);
  if (view.show !== 'all') given.set('show', view.show);
  return given.size ? '#?' + given : location.pathname;
}
function setFilter(change) { /* the address follows what is typed, without a step in the history for each letter */
  Object.assign(view, change);
  history.replaceState(null, '', listAddress());
  render();
  const { shown, all } = chosenElections();
  announce(`${shown.length} of ${all.length} elections.`);
}
function followAddress() {
  const before = view.name;
  if (before === null) listScroll = scrollY;
  view = readAddress();
  if ($('search').value !== view.query) $('search').value = view.query;
  render();
  if (view.name === before) return;
  if (view.name !== null) {
    scrollTo(0, 0);
    $('main').focus({ preventScroll: true });
  } else {
    scrollTo(0, listScroll);
    const row = rowOf(before);
    if (row) row.link.focus({ preventScroll: true });
  }
}
const rowOf = (name) => [$('trouble'), $('healthy')].map((part) => part.kept && part.kept.get(String(name))).find(Boolean);

/* Worst first, then by name. */
function sorted(all) {
  const rank = new Map(all.map((e) => [e, (mood(e) === 'bad' ? 0 : 10) + KINDS.indexOf(kindOf(e))]));
  return [...all].sort((a, b) => rank.get(a) - rank.get(b) || String(a.name).localeCompare(String(b.name), 'en', { numeric: true }));
}
function matchesQuery(e) {
  const words = view.query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const text = [e.name, e.id, e.reason, e.leader && e.leader.id, e.leader && e.leader.address, ...troublesOf(e).map((t) => t.word + ' ' + t.text),
    ...list(e.candidates).map((c) => c.id)].join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}
function chosenElections() {
  const all = known ? sorted(known.elections) : [];
  const shown = all.filter((e) => (view.show === 'all' || (view.show === 'here' ? e.leading : kindOf(e) !== 'good')) && matchesQuery(e));
  return { all, shown };
}

function render() {
  if (!known) return;
  const { all, shown } = chosenElections(), dense = all.length > DENSE;
  const one = view.name === null ? null : all.find((e) => String(e.name) === view.name);
  const alone = view.name !== null && (all.length > 1 || !one);
  renderAgent();
  renderEmpty(all, alone && !one);
  const cards = alone ? (one ? [one] : []) : dense ? [] : all;
  $('elections').classList.toggle('several', cards.length > 1);
  keyed($('elections'), cards, (e) => String(e.name), (e) => new Election(e.name));
  $('crumb').hidden = !alone;
  $('overview').hidden = alone || all.length < 2;
  renderSummary(all);
  $('find').hidden = !dense;
  if (!$('overview').hidden) renderLists(all, dense ? shown : all);
  renderTitle(all, one || (all.length === 1 ? all[0] : null));
}

function renderAgent() {
  const agent = known.agent || {};
  const up = number(agent.started_ms) ? ' · up ' + duration(agentNow() - number(agent.started_ms)) : '';
  put($('agent'), [clean(agent.host), agent.version ? 'tenure ' + clean(agent.version) : '', agent.pid ? 'process ' + clean(agent.pid) : ''].filter(Boolean).join(' · ') + up);
  put($('zone'), zone(Date.now()));
}
function renderEmpty(all, missing) {
  put($('empty'), missing ? `This agent has no election named ${clean(view.name)}.` : 'This agent takes part in no election.');
  $('empty').hidden = all.length > 0 && !missing;
}

/* "28 healthy, 2 without a leader" */
function summaryParts(all) {
  const counts = new Map(KINDS.map((kind) => [kind, 0]));
  for (const e of all) counts.set(kindOf(e), counts.get(kindOf(e)) + 1);
  if (counts.get('good') === all.length) return [['good', `All ${all.length} elections healthy`]];
  return ['good', 'none', 'unknown', 'off', 'trouble', 'paused'].filter((kind) => counts.get(kind)).map((kind) => [kind, `${counts.get(kind)} ${KIND_WORDS[kind]}`]);
}
function renderSummary(all) {
  const parts = summaryParts(all), worst = all.some((e) => mood(e) === 'bad') ? 'bad' : parts[0][0] === 'good' && parts.length === 1 ? 'good' : 'warn';
  const old = link === 'lost' || link === 'silent';
  const text = parts.map(([, words]) => words).join(', ');
  attributes($('summary'), { 'data-mood': old ? 'none' : worst });
  drawSign($('summary-sign'), worst);
  if ($('summary-text').said !== text + old) {
    $('summary-text').said = text + old;
    $('summary-text').replaceChildren(...(old ? ['Last known: '] : []), ...parts.flatMap(([kind, words], i) => [i ? ', ' : '', el('span', { 'data-kind': kind, text: words })]));
  }
  put($('crumb-text'), all.length > 1 ? `All ${all.length} elections` : 'All elections');
  put($('crumb-summary'), text);
  attributes($('crumb'), { 'data-mood': worst });
  attributes($('crumb-link'), { href: view.query || view.show !== 'all' ? listAddress() : '#' });
}

function renderLists(all, shown) {
  const held = document.activeElement && document.activeElement.dataset.name;
  const bad = shown.filter((e) => kindOf(e) !== 'good'), good = shown.filter((e) => kindOf(e) === 'good');
  $('trouble-part').hidden = !bad.length;
  $('healthy-part').hidden = !good.length;
  put($('trouble-count'), String(bad.length));
  put($('healthy-count'), String(good.length));
  $('overview').classList.toggle('above-cards', all.length <= DENSE);
  $('healthy').classList.toggle('tight', good.length > TIGHT);
  $('trouble').classList.toggle('brief', bad.length > ROOMY || all.length <= DENSE);
  put($('trouble-shared'), sharedReason(bad));
  $('trouble-shared').hidden = !$('trouble-shared').textContent;
  keyed($('trouble'), bad, (e) => String(e.name), (e) => new Row(e, true));
  keyed($('healthy'), good, (e) => String(e.name), (e) => new Row(e, false));
  if (held && !(document.activeElement && document.activeElement.dataset.name)) { /* it moved to the other part */
    const row = rowOf(held);
    if (row) row.link.focus({ preventScroll: true });
  }
  const trouble = all.filter((e) => kindOf(e) !== 'good').length;
  for (const [which, n] of [['all', all.length], ['trouble', trouble], ['here', all.filter((e) => e.leading).length]]) {
    put($('show-' + which + '-count'), String(n));
    attributes($('show-' + which), { 'aria-pressed': String(view.show === which) });
  }
  $('no-match').hidden = shown.length > 0;
  put($('no-match-text'), view.query ? `No election matches “${clean(view.query)}”${view.show === 'all' ? '' : ' with this filter'}.` : view.show === 'trouble' ? 'No election is in trouble.' : 'This agent leads no election.');
}
/* One cause for many is said once: most often the store. */
function sharedReason(bad) {
  if (bad.length < 3) return '';
  const counts = new Map();
  for (const e of bad) counts.set(reasonOf(e), (counts.get(reasonOf(e)) || 0) + 1);
  const [text, n] = [...counts].sort((a, b) => b[1] - a[1])[0];
  return text && n > bad.length / 2 ? `${n} of these have the same reason: ${text}` : '';
}
function reasonOf(e) {
  const worst = troublesOf(e)[0];
  return worst && worst.text || sentence(e.reason, e);
}

function renderTitle(all, one) {
  const without = all.filter((e) => !e.leader && !unknown(e)).length, gone = link === 'lost' || link === 'silent';
  const name = one ? (one.leader ? clean(one.leader.id) + ' leads ' : '') + clean(one.name) : 'tenure';
  document.title = (gone ? '(gone) ' : without ? `(${without} without leader) ` : '') + name;
  const worst = gone || all.some((e) => !e.leader) ? '%23c0392b' : all.every((e) => mood(e) === 'good') ? '%230f7a5a' : '%23b36b00';
  const href = $('icon').getAttribute('href').replace(/%23[0-9a-f]{6}/g, worst);
  attributes($('icon'), { href });
}

/* One election, as a link.  In trouble: with its reason and what helps. */
class Row {
  constructor(e, roomy) {
    this.sign = el('span', { class: 'sign', 'aria-hidden': 'true' });
    this.word = el('span', { class: 'quiet' });
    this.who = el('bdi', {});
    this.swatch = el('span', { class: 'swatch', 'aria-hidden': 'true' });
    this.verb = el('span', { class: 'verb' });
    this.place = el('span', { class: 'place' });
    this.more = el('span', {});
    this.small = el('small', {}, this.swatch, this.who, this.verb, this.place, this.more);
    this.time = el('span', { class: 'time' });
    this.link = el('a', { href: addressOf(e.name), 'data-name': e.name }, this.sign, el('span', { class: 'name' }, id(e.name, false), this.word), this.small, this.time);
    if (roomy) {
      this.chips = el('span', { class: 'chips' });
      this.reason = el('span', { class: 'reason' });
      this.todo = el('span', { class: 'todo' });
      this.link.append(this.chips, this.reason, this.todo);
    }
    this.node = el('li', {}, this.link);
  }
  update(e) {
    const troubles = troublesOf(e), leader = e.leader;
    attributes(this.node, { 'data-mood': mood(e), 'data-kind': kindOf(e) });
    drawSign(this.sign, signOf(e));
    put(this.word, troubles.length ? '' : ', healthy, ');
    put(this.who, leader ? clean(leader.id) : '');
    this.swatch.hidden = !leader;
    if (leader) this.swatch.className = 'swatch ' + colour(leader.id);
    put(this.verb, leader ? ' leads' : '');
    put(this.place, e.leading ? ' here' : '');
    put(this.more, leader ? (e.role === 'silent' ? '; its process here is silent' : e.role === 'ended' ? '; its process here has ended' : '')
      + (!troubles.length && !standbys(e).length ? ', no standby' : '') : '');
    this.small.hidden = !leader;
    const since = troubles.length ? troubles[0].since : leader ? number(leader.since_ms) : 0;
    put(this.time, since ? brief(agentNow() - since) : '');
    attributes(this.time, { title: since ? moment(here(since)) : null });
    if (!this.chips) return;
    keyed(this.chips, troubles, (t) => t.word, () => {
      const node = el('span', { class: 'chip' });
      return { node, update: (t) => attributes(node, { text: t.word, 'data-mood': t.mood }) };
    });
    put(this.reason, reasonOf(e));
    put(this.todo, troubles[0] ? troubles[0].todo : '');
    this.todo.hidden = !this.todo.textContent;
  }
}
