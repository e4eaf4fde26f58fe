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
const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
function moment(ms) {
  const day = new Date(ms), same = day.toDateString() === new Date().toDateString();
  return same ? clock(ms) : day.toLocaleDateString([], { day: 'numeric', month: 'short' }) + ' ' + clock(ms);
}
