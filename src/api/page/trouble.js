/* ---- What is wrong with an election, worst first ----------------------------- */

const ENDED_BADLY = /expir|crash|dead|died|lost|kill|unhealthy|fail|fenc|timeout/i, ASKED_FOR = /hand|yield|step|preempt|resign|asked/i;
const causeMood = (cause) => ENDED_BADLY.test(cause) ? 'bad' : ASKED_FOR.test(cause) ? 'good' : 'none';
const off = (e) => e.role === 'silent' || e.role === 'ended'; /* the process of this election does not answer */
const unknown = (e) => !e.leader && (off(e) || e.leader_known === false); /* who leads: the store does not say */
const lastEnd = (e) => list(e.history).reduce((latest, t) => Math.max(latest, number(t.to_ms)), 0);
const standbys = (e) => list(e.candidates).filter((c) => c.healthy !== false && !(e.leader && c.id === e.leader.id) && c.state !== 'stopping');

/* What a warning of the status means for the work, and what helps.  A kind that is not known is shown as it is. */
const WARNINGS = {
  'duplicate-id': ['bad', 'Give each candidate an id of its own (--id), or none.'],
  'crash-loop': ['bad', 'Read the program’s log. A hand-over moves it to another machine.'],
  'program-missing': ['bad', 'Install the program on this machine, or correct its path.'],
  'store-forgot': ['bad', 'Find out who emptied or restored the store. What compares epochs refuses the older leader.'],
  'store-unavailable': ['bad', 'Ask the store from this machine: tenure doctor'],
  'ttl-differs': ['warn', 'Give all candidates of this election the same --ttl.'],
  'store-volatile': ['warn', 'Turn persistence on: after a restart this store has forgotten who leads.'],
};

/* Each: mood, kind (what the summary counts), word (on the chip), text (what is so), todo (what helps). */
function troublesOf(e) {
  const found = [];
  const add = (mood, kind, word, text, todo, since) => found.push({ mood, kind, word, text, todo, since: since || 0 });
  if (unknown(e) && !off(e)) add('bad', 'unknown', 'leader not known', '', 'Ask the store from this machine: tenure doctor');
  if (!e.leader && !unknown(e)) add('bad', 'none', 'no leader', '', withoutLeader(e), lastEnd(e));
  if (e.role === 'silent') add('bad', 'off', 'not answering', 'Its process on this machine does not answer.', 'Find out what it waits for: a store that blocks, or a stopped process. A candidate on another machine can take over meanwhile.');
  if (e.role === 'ended') add('bad', 'off', 'ended here', 'Its process on this machine has ended.', 'The agent’s log has its last error. This machine cannot lead it until it is started again.');
  if (e.role === 'sealing') add('bad', 'trouble', 'cannot seal its state', 'The leader cannot seal its state against the leader before it.', 'Ask the store of the state: tenure state show --name ' + clean(e.name));
  for (const warning of list(e.warnings)) {
    if (!warning || typeof warning !== 'object') continue;
    const [grave, todo] = (Object.hasOwn(WARNINGS, warning.kind) && WARNINGS[warning.kind]) || ['warn', ''];
    add(grave, 'trouble', clean(warning.kind).replaceAll('-', ' ') || 'warning', sentence(warning.text, e), todo);
  }
  if (e.paused) add('warn', 'paused', 'paused', pauseText(e.paused), 'Resume it when the work is done: until then nobody takes over.', pausedSince(e.paused));
  return found.sort((a, b) => (a.mood === 'bad' ? 0 : 1) - (b.mood === 'bad' ? 0 : 1));
}
const mood = (e) => troublesOf(e).reduce((worst, t) => worst === 'bad' ? worst : t.mood, 'good');

/* What helps an election that nobody leads. */
function withoutLeader(e) {
  const all = list(e.candidates), well = all.filter((c) => c.healthy !== false);
  if (e.paused) return 'It is paused, so nobody takes over: resume it.';
  if (!all.length) return 'No candidate has registered: start one.';
  if (!well.length) return 'Repair what the candidates’ reasons name.';
  return `A standby takes over at the latest ${duration(number(e.ttl_ms))} after the last renewal. If none does, ask the store: tenure doctor`;
}
const pausedSince = (paused) => number(paused.at_ms) || Date.parse(paused.at) || 0;
function pauseText(paused) {
  const by = paused.by ? ' by ' + clean(paused.by) : '', why = paused.reason ? ': ' + clean(paused.reason) : '';
  return 'Paused' + by + why + (/[.!?]$/.test(why) ? '' : '.');
}

/* The kind that counts an election in the summary: its worst trouble. */
const KINDS = ['none', 'unknown', 'off', 'trouble', 'paused', 'good'];
function kindOf(e) {
  const kinds = troublesOf(e).map((t) => t.kind);
  return KINDS.find((kind) => kinds.includes(kind)) || 'good';
}
const KIND_WORDS = { none: 'without a leader', unknown: 'with an unknown leader', off: 'not answering', trouble: 'in trouble', paused: 'paused', good: 'healthy' };

/* A shape for each mood, so that no colour has to be told from another. */
const SIGNS = {
  good: ['M3.2 8.6 6.6 12 12.9 4.6'],
  warn: ['M8 1.8 14.6 13.6H1.4Z', 'M8 6.2v3.4M8 11.6v.2'],
  bad: ['M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2L1.5 10.8V5.2Z', 'M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6'],
  paused: ['M5.2 3.2v9.6M10.8 3.2v9.6'],
};
function drawSign(node, which) {
  if (node.dataset.sign === which) return;
  node.dataset.sign = which;
  const svg = shape('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' });
  svg.append(...SIGNS[which].map((d) => shape('path', { d })));
  node.replaceChildren(svg);
}
const signOf = (e) => kindOf(e) === 'paused' ? 'paused' : mood(e);
