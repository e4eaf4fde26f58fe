/* ---- One election --------------------------------------------------------- */

class Election {
  constructor(name) {
    this.name = name;
    this.range = null;
    this.all = false;
    this.full = 0;       /* the most time left that was seen in this term: the ring's whole turn */
    this.fullEpoch = -1;
    this.last = undefined;
    this.build();
  }

  build() {
    const part = (tag, cls, props) => (this[cls] = el(tag, { class: cls, ...props }));
    const title = 'election-' + Election.made++;
    this.button = (text, fn, cls) => el('button', { type: 'button', class: cls || null, text, on: { click: fn } });
    this.role = el('span', { class: 'chip' });
    this.old = el('span', { class: 'chip', 'data-mood': 'warn', text: 'last known', hidden: true });
    this.factList = part('dl', 'facts');
    this.handover = this.button('Hand over …', () => askHandover(this.data, ''));
    this.stepdown = this.button('Step down …', () => askStepDown(this.data));
    this.pausing = this.button('Pause …', () => this.data.paused ? askResume(this.data) : askPause(this.data));
    this.hero = el('section', { class: 'panel hero', 'aria-labelledby': title },
      el('div', {},
        el('div', { class: 'title' }, el('h2', { id: title }, id(this.name, false)), this.role, this.old),
        part('p', 'leader'), part('p', 'why'), part('ul', 'troubles', { hidden: true }), part('p', 'paused', { hidden: true }), this.factList,
        el('div', { class: 'acts' }, this.handover, this.stepdown, this.pausing)),
      this.buildLease());
    this.lineBox = el('figure', {});
    this.termBody = el('tbody');
    this.ranges = el('div', { class: 'ranges', role: 'group', 'aria-label': 'Time shown' });
    this.moreTerms = this.button('', () => { this.all = !this.all; this.drawHistory(); }, 'small plain more');
    this.history = el('section', { class: 'panel history' },
      el('header', {}, el('h3', { text: 'Terms' }), this.ranges), this.lineBox,
      this.termTable = table('terms', 'The last terms', ['Leader', 'Began', 'Lasted', 'Reason', 'Gap before'], this.termBody), this.moreTerms);
    this.candidateBody = el('tbody');
    this.noCandidate = el('p', { class: 'none-yet', text: 'No candidate has registered.', hidden: true });
    this.candidates = el('section', { class: 'panel candidates' }, el('h3', { text: 'Candidates' }),
      this.candidateTable = table('', 'Candidates', ['Candidate', 'Health', 'Priority', 'Version', 'Since', 'Change'], this.candidateBody), this.noCandidate);
    this.renewals = el('section', { class: 'panel renewals' }, el('h3', { text: 'Renewals' }),
      this.renewFigures = el('dl', { class: 'figures' }), this.sparkBox = el('figure', {}), this.fails = el('div', { class: 'fails' }));
    this.state = el('section', { class: 'panel state' }, el('h3', { text: 'State' }),
      this.stateFigures = el('dl', { class: 'figures' }), this.commits = el('ul', { class: 'commits' }));
    this.board = el('div', { class: 'board' }, this.hero, this.candidates, this.history, this.side = el('div', { class: 'side' }, this.renewals, this.state));
    this.node = el('article', { class: 'election', id: title + '-card', 'aria-labelledby': title }, this.board);
    new ResizeObserver(() => { this.drawHistory(); this.drawRenewals(); }).observe(this.lineBox);
  }

  buildLease() {
    const R = 44, turn = 2 * Math.PI * R;
    this.turn = turn;
    const svg = shape('svg', { viewBox: '0 0 100 100', 'aria-hidden': 'true' });
    this.arc = shape('circle', { class: 'left', cx: 50, cy: 50, r: R, 'stroke-dasharray': turn, 'stroke-dashoffset': turn });
    this.due = shape('circle', { class: 'due', cx: 50, cy: 50, r: R, 'stroke-dasharray': `0.7 ${turn}`, visibility: 'hidden' });
    svg.append(shape('circle', { class: 'track', cx: 50, cy: 50, r: R }), this.arc, this.due);
    this.count = el('span', { class: 'count' });
    this.unit = el('span', { class: 'unit' });
    this.note = el('p', { class: 'note' });
    return (this.lease = el('div', { class: 'lease' },
      el('div', { class: 'ring', role: 'timer', 'aria-live': 'off', 'aria-label': 'Time left on the lease' }, svg,
        el('div', { class: 'middle' }, this.count, this.unit)), this.note));
  }

  update(e) {
    const before = this.data;
    this.data = e;
    const left = number(e.left_ms);
    if (this.fullEpoch !== e.epoch) { this.full = 0; this.fullEpoch = e.epoch; }
    this.full = Math.max(this.full, left);
    this.drawHero(e);
    if (!before || JSON.stringify([before.history, before.leader]) !== JSON.stringify([e.history, e.leader])) this.drawHistory();
    this.drawCandidates(e);
    this.drawRenewals();
    this.drawState(e);
    this.tell(e);
    this.tick();
  }

  tell(e) { /* the one change that a person must hear of */
    const now = e.leader ? e.leader.id + ' ' + e.leader.epoch : null;
    if (this.last !== undefined && now !== this.last) {
      announce(e.leader ? `${clean(this.name)}: ${clean(e.leader.id)} leads now.` : `${clean(this.name)}: ${unknown(e) ? 'the leader is not known' : 'no leader'}.`);
      this.hero.classList.remove('flash');
      void this.hero.offsetWidth;
      this.hero.classList.add('flash');
    }
    this.last = now;
  }

  drawHero(e) {
    const old = link === 'lost' || link === 'silent' || off(e), leader = e.leader;
    this.node.dataset.mood = mood(e);
    attributes(this.role, { text: 'this agent: ' + clean(e.role), 'data-mood': off(e) ? 'bad' : e.leading ? 'good' : null });
    this.old.hidden = !old;
    this.leader.classList.toggle('none', !leader);
    const head = leader ? [el('span', { class: 'swatch ' + colour(leader.id), 'aria-hidden': 'true' }), id(leader.id, false)] : [old || unknown(e) ? 'Leader not known' : 'No leader'];
    const now = leader ? 'id ' + leader.id : String(old || unknown(e));
    if (this.shown !== now) this.leader.replaceChildren(...head);
    this.shown = now;
    put(this.why, sentence(e.reason, e));
    this.why.hidden = !e.reason;
    this.drawTroubles(e);
    this.drawPaused(e.paused);
    const facts = [];
    if (leader) {
      if (number(leader.since_ms)) facts.push(['Leads since', moment(here(number(leader.since_ms)))]);
      facts.push(['Epoch', clean(leader.epoch)]);
      if (leader.address) facts.push(['Address', clean(leader.address)]);
      if (leader.version) facts.push(['Version', clean(leader.version)]);
    } else {
      const ended = lastEnd(e);
      if (ended && !unknown(e)) facts.push(['Since', moment(here(ended))]);
    }
    facts.push(['This candidate', clean(e.id)]);
    if (e.leading && e.guard && e.guard.containment) facts.push(['Containment', clean(e.guard.containment)]);
    if (e.guard && number(e.guard.kills)) facts.push(['Killed by the guard', count(e.guard.kills) + ' times']);
    keyed(this.factList, facts, (f) => f[0], () => {
      const dd = el('dd', {}), dt = el('dt', {});
      return { node: el('div', {}, dt, dd), update: ([k, v]) => { put(dt, k); put(dd, v); dd.className = k === 'Epoch' || k === 'Address' || k === 'This candidate' ? 'mono' : ''; } };
    });
    put(this.pausing, e.paused ? 'Resume' : 'Pause …');
    attributes(this.handover, { disabled: old || !leader });
    attributes(this.stepdown, { disabled: old || !leader });
    attributes(this.pausing, { disabled: old });
  }

  /* What is wrong, and what helps; a pause has its own place. */
  drawTroubles(e) {
    const all = troublesOf(e).filter((t) => t.kind !== 'paused');
    this.troubles.hidden = !all.length;
    keyed(this.troubles, all, (t) => t.word, () => {
      const sign = el('span', { class: 'sign', 'aria-hidden': 'true' }), word = el('strong', {}), text = el('span', {}), todo = el('span', { class: 'todo' }), time = el('span', { class: 'soft' });
      return { node: el('li', {}, sign, el('div', {}, word, ' ', time, ' ', text, todo)), update: (t) => {
        drawSign(sign, t.mood);
        put(word, t.kind === 'none' || t.kind === 'unknown' ? '' : t.word[0].toUpperCase() + t.word.slice(1)); /* the headline says it */
        put(time, t.since ? (t.kind === 'none' ? 'For ' : 'for ') + duration(agentNow() - t.since).trim() + '.' : '');
        put(text, t.text);
        put(todo, t.todo);
        todo.hidden = !t.todo;
      } };
    });
    for (const [word, row] of this.troubles.kept) attributes(row.node, { 'data-mood': all.find((t) => t.word === word).mood });
  }

  drawPaused(paused) {
    this.paused.hidden = !paused;
    if (!paused) return;
    const since = pausedSince(paused), text = pauseText(paused).slice(6) + (since ? ` Since ${moment(here(since))}.` : '')
      + ' The leader goes on leading; nobody takes over until it is resumed.';
    if (this.pausedText !== text) this.paused.replaceChildren(el('strong', { text: 'Paused' }), text);
    this.pausedText = text;
  }

  /* The clock of the lease, ten times a second.  It only counts down from what was last heard: an
   * unheard renewal makes it show too little, never too much. */
  tick() {
    const e = this.data;
    if (!e) return;
    const clockOf = leaseClock(e, this.full), left = Math.max(0, clockOf.left - age());
    const gone = link === 'lost' || link === 'silent', old = gone || off(e), renew = duration(number(e.renew_ms));
    let feel = 'none', note;
    if (!clockOf.runs) note = e.leader ? `Held by another candidate, which renews it. The others wait ${duration(number(e.ttl_ms))} after its last renewal.`
      : unknown(e) ? 'Who leads now is not known here.' : `A candidate takes it at the latest ${duration(number(e.ttl_ms))} after the last renewal.`;
    else if (left > 0) note = e.leading ? `Renewed every ${renew}; without renewal the program is ended by zero.` : `Renewed every ${renew}; without renewal a standby may take over at zero.`;
    else note = e.leading ? `Ran out, counted from ${moment(heardAt)}: the program has ended.` : 'Ran out: a standby may take over.';
    if (clockOf.runs) feel = left <= 0 ? 'bad' : left < clockOf.due - clockOf.slack ? 'warn' : 'good';
    if (old) note = (gone ? `Counted from what was heard at ${moment(heardAt)}. ` : 'Counted from what its process last said. ') + (left > 0 ? '' : 'Who leads now is not known here.');
    this.lease.dataset.mood = old && left > 0 ? 'none' : feel;
    this.count.classList.toggle('word', !clockOf.runs);
    put(this.count, !clockOf.runs ? (e.leader ? 'held' : unknown(e) ? 'not known' : 'free') : left >= 100000 || still.matches ? String(Math.floor(left / 1000)) : (Math.floor(left / 100) / 10).toFixed(1));
    put(this.unit, clockOf.runs ? 'seconds left' : '');
    put(this.note, note);
    attributes(this.arc, { 'stroke-dashoffset': (this.turn * (1 - Math.min(1, clockOf.runs ? left / clockOf.full : 0))).toFixed(2) });
    attributes(this.due, { visibility: clockOf.runs && clockOf.due > 0 ? 'visible' : 'hidden', 'stroke-dashoffset': -this.turn * Math.max(0, clockOf.due / clockOf.full) });
  }

  drawCandidates(e) {
    const all = list(e.candidates);
    this.candidateTable.hidden = !all.length;
    this.noCandidate.hidden = all.length > 0;
    keyed(this.candidateBody, all, (c) => clean(c.id), (c) => new Candidate(this, c));
  }

  drawHistory() {
    const e = this.data;
    if (!e) return;
    const terms = termsOf(e);
    const now = here(agentNow());
    drawRanges(this, terms, now);
    drawLine(this, terms, now);
    const rows = [...terms].reverse();
    this.termTable.hidden = !rows.length;
    keyed(this.termBody, this.all ? rows : rows.slice(0, 5), (t) => t.epoch + ' ' + t.holder, () => new TermRow());
    this.moreTerms.hidden = rows.length <= 5;
    put(this.moreTerms, this.all ? 'Show the last five' : `Show all ${rows.length}`);
    attributes(this.moreTerms, { 'aria-expanded': String(this.all) });
  }

  drawRenewals() {
    const r = (this.data && this.data.renewals) || {};
    const failed = Object.entries(r.failed || {}).filter(([, n]) => number(n) > 0);
    const took = (ms) => list(r.recent_ms).length ? [latency(number(ms)), 'ms'] : ['–', ''];
    const lostOnes = failed.reduce((sum, [, n]) => sum + number(n), 0);
    figures(this.renewFigures, [
      ['median', ...took(r.p50_ms)], ['p99', ...took(r.p99_ms)],
      ['renewed', count(r.ok), ''], ['failed', count(lostOnes), '', lostOnes ? 'bad' : null]]);
    drawSpark(this.sparkBox, list(r.recent_ms).map(number), number(r.p99_ms));
    keyed(this.fails, failed, ([word]) => word, () => {
      const node = el('span', { class: 'chip' });
      return { node, update: ([word, n]) => put(node, clean(word) + ' ' + count(n)) };
    });
  }

  drawState(e) {
    const s = e.state;
    this.state.hidden = !s;
    this.side.classList.toggle('alone', !s);
    if (!s) return;
    figures(this.stateFigures, [
      ['commits', count(s.commits), ''], ['fenced', count(s.fenced), '', number(s.fenced) ? 'bad' : null],
      ['collections', String(list(s.collections).length), list(s.collections).map(clean).join(', ')]]);
    keyed(this.commits, [...list(s.last)].sort((a, b) => number(b.at_ms) - number(a.at_ms)).slice(0, 6), (c) => [c.collection, c.id, c.seq].join('\n'), (c) => {
      const when = el('span', {});
      const node = el('li', {}, el('span', {}, id(c.collection + '/' + c.id)), when);
      return { node, update: (d) => put(when, '#' + clean(d.seq) + ' · ' + moment(here(number(d.at_ms)))) };
    });
  }
}
Election.made = 1;

/* A reason as a sentence.  An id at its beginning stays as it is written. */
function sentence(text, e) {
  const t = clean(text), first = t.split(/[\s:;,]/, 1)[0];
  const name = !/^[a-z]+$/.test(first) || list(e.candidates).some((c) => c.id === first) || first === e.id;
  return t && (name ? t : t[0].toUpperCase() + t.slice(1)) + (/[.!?]$/.test(t) ? '' : '.');
}
/* The leader knows its deadline; the others, when they last saw it renew.  due: where the next
 * renewal should make the clock jump back; slack: how late that may be before it is told. */
function leaseClock(e, full) {
  const renew = number(e.renew_ms), ttl = number(e.ttl_ms);
  if (e.leading) return { runs: true, left: number(e.left_ms), full: Math.max(1, full), due: full - renew, slack: 0.35 * renew };
  if (e.leader && Number.isFinite(e.leader.seen_ms) && ttl > 0) return { runs: true, left: ttl - e.leader.seen_ms, full: ttl, due: ttl - renew, slack: 0.6 * renew };
  return { runs: false, left: 0, full: 1, due: 0, slack: 0 };
}

function table(cls, caption, heads, body) {
  return el('table', { class: cls || null }, el('caption', { class: 'quiet', text: caption }),
    el('thead', {}, el('tr', {}, ...heads.map((h) => el('th', { scope: 'col', class: /Priority|Lasted|Gap/.test(h) ? 'num' : null },
      h === 'Change' ? el('span', { class: 'quiet', text: h }) : h, /Began|Since/.test(h) ? el('span', { class: 'zone', text: ' ' + zone(Date.now()) }) : null)))), body);
}
function figures(node, rows) {
  keyed(node, rows, (r) => r[0], () => {
    const dt = el('dt', {}), big = el('span', {}), unit = el('small', {}), box = el('div', {}, dt, el('dd', {}, big, ' ', unit));
    return { node: box, update: ([name, value, of, feel]) => { put(dt, name); put(big, value); put(unit, of); attributes(box, { 'data-mood': feel || null }); } };
  });
}

/* Where another candidate shows this election; what is no web address is no link. */
function pageOf(c, e) {
  try {
    const url = new URL(c.page);
    return /^https?:$/.test(url.protocol) ? url.origin + '/' + addressOf(e.name) : null;
  } catch { return null; }
}

class Candidate {
  constructor(election, c) {
    this.election = election;
    const cell = (head, cls) => el('td', { 'data-head': head, class: cls || null });
    this.note = el('small', {});
    this.health = el('span', { class: 'chip' });
    this.priority = cell('Priority', 'num');
    this.version = cell('Version');
    this.since = cell('Since', 'date');
    this.act = el('button', { type: 'button', class: 'small', text: 'Hand over', 'aria-label': 'Hand over to ' + clean(c.id),
      on: { click: () => askHandover(this.election.data, this.data.id) } });
    this.me = el('span', { class: 'chip', text: 'this agent', hidden: true });
    this.page = el('a', { class: 'page', rel: 'noreferrer', 'aria-label': 'Page of ' + clean(c.id), text: 'its page ↗', hidden: true });
    const who = el('td', {}, el('div', {}, el('span', { class: 'who' }, el('span', { class: 'swatch ' + colour(c.id), 'aria-hidden': 'true' }), id(c.id), this.me, this.page), this.note));
    this.node = el('tr', {}, who, el('td', { 'data-head': 'Health' }, this.health), this.priority, this.version, this.since, el('td', { class: 'act num' }, this.act));
  }
  update(c) {
    this.data = c;
    const e = this.election.data, leads = e.leader && e.leader.id === c.id;
    put(this.note, sentence(c.reason, e));
    this.note.hidden = !c.reason;
    this.me.hidden = c.id !== e.id;
    const page = c.id === e.id ? null : pageOf(c, e);
    this.page.hidden = !page;
    attributes(this.page, { href: page });
    const well = c.healthy !== false, seals = leads && c.state === 'sealing', past = !leads && c.state === 'leading'; /* its last word, and no longer true */
    attributes(this.health, { text: seals ? 'cannot seal its state' : leads ? 'leads' : !well ? 'unhealthy' : past ? 'led, not heard of since' : clean(c.state) || 'healthy',
      'data-mood': seals ? 'bad' : leads ? 'good' : !well ? 'bad' : past ? 'warn' : null });
    put(this.priority, clean(c.priority));
    put(this.version, clean(c.version) || '–');
    put(this.since, number(c.since_ms) ? localTime(here(number(c.since_ms))) : '–');
    this.act.hidden = Boolean(leads);
    attributes(this.act, { disabled: !e.leader || !well || link === 'lost' || link === 'silent' || off(e) });
  }
}

class TermRow {
  constructor() {
    const cell = (head, cls) => el('td', { 'data-head': head, class: cls || null });
    this.who = el('td', {});
    this.began = cell('Began', 'date');
    this.lasted = cell('Lasted', 'num');
    this.chip = el('span', { class: 'chip' });
    this.end = el('small', {});
    this.cause = el('td', { 'data-head': 'Reason' }, this.chip, this.end);
    this.gap = cell('Gap before', 'num');
    this.node = el('tr', {}, this.who, this.began, this.lasted, this.cause, this.gap);
  }
  update(t) {
    this.data = t;
    if (!this.who.firstChild)
      this.who.append(el('div', {}, el('span', { class: 'who' }, el('span', { class: 'swatch ' + colour(t.holder), 'aria-hidden': 'true' }), id(t.holder)),
        el('small', { class: 'mono', text: 'epoch ' + clean(t.epoch) })));
    put(this.began, localTime(t.from));
    put(this.lasted, t.to ? (t.estimated ? 'about ' : '') + duration(t.to - t.from) : t.open ? 'until now' : 'not known');
    attributes(this.chip, { 'data-mood': causeMood(String(t.cause)), text: clean(t.cause) || '–' });
    put(this.end, t.end ? 'ended: ' + clean(t.end) : '');
    this.end.hidden = !t.end;
    put(this.gap, number(t.gap_ms) > 0 ? duration(number(t.gap_ms)) : '–');
  }
}

/* Terms as they are drawn.  One that was followed by another has ended, even if nobody wrote when;
 * who leads now has begun, even if that is not written yet. */
function termsOf(e) {
  const told = [...list(e.history)], now = e.leader;
  if (now && number(now.since_ms) && told.every((t) => number(t.epoch) < number(now.epoch)))
    told.push({ epoch: now.epoch, holder: now.id, from_ms: now.since_ms, to_ms: null, cause: '', gap_ms: null });
  const terms = told.map((t) => ({ ...t, from: here(number(t.from_ms)), to: t.to_ms ? here(number(t.to_ms)) : null }))
    .filter((t) => t.from > 0).sort((a, b) => a.from - b.from);
  terms.forEach((t, i) => {
    const next = terms[i + 1];
    if (t.to === null && next) { t.to = Math.max(t.from, next.from - Math.max(0, number(next.gap_ms))); t.estimated = true; }
    t.open = t.to === null && Boolean(now) && now.epoch === t.epoch;
  });
  return terms;
}
