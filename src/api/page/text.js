/* ---- Text and time ------------------------------------------------------ */

/* Control and direction characters could dress one id up as another: they are shown, not obeyed. */
const ODD = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const clean = (value) => {
  const text = value === null || value === undefined ? '' : String(value);
  const short = text.length > 300 ? text.slice(0, 300) + '…' : text;
  return short.replace(ODD, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
};
const number = (value) => Number.isFinite(Number(value)) ? Number(value) : 0;
const list = (value) => Array.isArray(value) ? value : [];
const count = (value) => number(value).toLocaleString('en').replaceAll(',', '\u202f');

function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 0.001) return '0 s';
  if (s < 1) return Math.round(s * 1000) + ' ms';
  if (s < 10) return String(Number(s.toFixed(1))) + ' s';
  if (s < 60) return Math.floor(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s < 600 ? Math.floor(s % 60) + ' s' : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}
const latency = (ms) => ms < 10 ? ms.toFixed(1) : String(Math.round(ms));
function brief(ms) { /* one unit: for lists */
  const s = Math.max(0, ms) / 1000;
  return s < 60 ? Math.floor(s) + ' s' : s < 3600 ? Math.floor(s / 60) + ' min' : s < 86400 ? Math.floor(s / 3600) + ' h' : Math.floor(s / 86400) + ' d';
}

/* One form for all dates: 2026-11-18 02:15:07 UTC+1.  Today's have no day; the zone is never left to be guessed. */
const two = (n) => String(n).padStart(2, '0');
function zone(ms) {
  const minutes = -new Date(ms).getTimezoneOffset(), h = Math.floor(Math.abs(minutes) / 60), m = Math.abs(minutes) % 60;
  return 'UTC' + (minutes ? (minutes < 0 ? '\u2212' : '+') + h + (m ? ':' + two(m) : '') : '');
}
function clock(ms) {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
const dateOf = (ms) => { const d = new Date(ms); return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`; };
function localTime(ms) { /* for tables, whose headings name the zone; it is repeated where it was another one */
  const today = new Date(ms).toDateString() === new Date().toDateString(), other = zone(ms) !== zone(Date.now());
  return (today ? '' : dateOf(ms) + ' ') + clock(ms) + (other ? ' ' + zone(ms) : '');
}
const moment = (ms) => localTime(ms) + (zone(ms) === zone(Date.now()) ? ' ' + zone(ms) : '');
