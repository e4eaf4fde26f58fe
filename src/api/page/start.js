/* ---- Theme, and the start ------------------------------------------------------ */

const THEMES = ['auto', 'light', 'dark'];
function theme(which) {
  document.documentElement.dataset.theme = which;
  put($('theme'), 'Theme: ' + which);
  try { localStorage.setItem('tenure-theme', which); } catch { /* not remembered, then */ }
}
let chosen = 'auto';
try { chosen = localStorage.getItem('tenure-theme') || 'auto'; } catch { /* auto, then */ }
theme(THEMES.includes(chosen) ? chosen : 'auto');
$('theme').addEventListener('click', () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
$('key').addEventListener('click', () => token ? (forget(), toast('The token is forgotten.', 'good')) : askToken(null));
$('retry').addEventListener('click', () => { wait = 500; connect(); });
$('ask-form').addEventListener('submit', answer);
$('ask-no').addEventListener('click', () => $('ask').close());
$('ask').addEventListener('close', () => { go = null; if (opener && opener.isConnected) opener.focus(); opener = null; });
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
addEventListener('online', () => { if (link === 'lost') connect(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden && link === 'lost') { wait = 500; connect(); } });

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
