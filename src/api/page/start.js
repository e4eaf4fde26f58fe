/* ---- The start ----------------------------------------------------------------- */

/* What this page shows, and where it asks. */
const source = {
  status: '/_ha/status',
  stream: '/v1/leadership',
  isStatus: (snapshot) => Array.isArray(snapshot.elections),
  now: (snapshot) => snapshot.agent && snapshot.agent.now_ms,
  name: 'agent',
  token: {
    title: 'Token for changes',
    text: 'The agent takes changes from those who know its token. It is kept in this page’s memory only.',
  },
};

addEventListener('hashchange', followAddress);
addEventListener('popstate', followAddress);
$('skip').addEventListener('click', (event) => { event.preventDefault(); $('main').focus(); }); /* the address names an election */
$('search').addEventListener('input', () => setFilter({ query: $('search').value.trim() }));
$('search').addEventListener('keydown', (event) => { if (event.key === 'Escape') { $('search').value = ''; setFilter({ query: '' }); } });
for (const which of ['all', 'trouble', 'here']) $('show-' + which).addEventListener('click', () => setFilter({ show: which }));
$('show-again').addEventListener('click', () => { $('search').value = ''; setFilter({ query: '', show: 'all' }); $('search').focus(); });
addEventListener('keydown', (event) => { /* "/" searches, as elsewhere */
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || $('find').hidden || $('overview').hidden || $('ask').open || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  $('search').focus();
});

function eachTick() {
  if (document.hidden) return;
  for (const row of ($('elections').kept || new Map()).values()) row.tick();
}
/* A lease that is renewed more often than the stream speaks would seem to run out: ask. */
function refresh() {
  if (!known || link !== 'live' || document.hidden) return;
  const soonest = Math.min(...known.elections.filter((e) => e.leader).map((e) => number(e.renew_ms) || Infinity));
  if (age() > Math.max(900, Math.min(soonest * 1.15, 4000))) askStatus().catch(() => {});
}
function eachSecond() {
  watchLink();
  refresh();
  for (const row of ($('elections').kept || new Map()).values()) row.drawHistory();
  if (known) render();
}
setInterval(eachTick, still.matches ? 1000 : 100);
setInterval(eachSecond, 1000);
view = readAddress();
$('search').value = view.query;
showKey();
connect();
