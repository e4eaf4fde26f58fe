/* ---- Theme, and the tools in the head --------------------------------------- */

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
addEventListener('online', () => { if (link === 'lost') connect(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden && link === 'lost') { wait = 500; connect(); } });
