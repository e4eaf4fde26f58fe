/* ---- What is known ------------------------------------------------------- */

let known = null;       /* the last snapshot */
let heard = 0;          /* performance.now() when it came; for a request, when it was sent */
let heardAt = 0;        /* the same for people */
let offset = 0;         /* the agent's wall clock less ours */
const age = () => performance.now() - heard;
const agentNow = () => Date.now() + offset;
const here = (ms) => ms - offset;
const still = matchMedia('(prefers-reduced-motion: reduce)');

function learn(snapshot, since) {
  if (!snapshot || typeof snapshot !== 'object' || !source.isStatus(snapshot)) return;
  if (since < heard) return; /* an older answer that came late */
  const now = number(source.now(snapshot));
  known = snapshot;
  heard = since;
  heardAt = Date.now() - (performance.now() - since);
  offset = now ? now - heardAt : 0;
  if (Math.abs(offset) < 1500) offset = 0;
  render();
}

/* ---- The connection ------------------------------------------------------ */

const SILENCE_MS = 8000, ANSWER_MS = 5000;
let link = 'connecting', wait = 500, retryAt = 0, timer = 0, stream = null, asking = false, refusal = '';
const asked = new Set(); /* refusals that the person was told of */

const headers = (more) => ({ ...(token ? { Authorization: 'Bearer ' + token } : {}), ...more });

async function askStatus() {
  if (asking) return;
  asking = true;
  try {
    const since = performance.now();
    const answer = await fetch(source.status, { headers: headers({ Accept: 'application/json' }), cache: 'no-store',
      signal: AbortSignal.timeout(ANSWER_MS) });
    if (answer.ok) learn(await answer.json(), since);
    else throw await problem(answer);
  } finally { asking = false; }
}

async function problem(answer) {
  let text = 'HTTP ' + answer.status;
  try {
    const body = await answer.json();
    text = [body.error, body.detail].filter((part) => typeof part === 'string' && part).join(': ') || text;
  } catch { /* not JSON: the number says enough */ }
  return Object.assign(new Error(text), { status: answer.status });
}

/* fetch instead of EventSource: it can carry the token, and tells why it failed. */
async function listen(abort) {
  const answer = await fetch(source.stream, { headers: headers({ Accept: 'text/event-stream' }), cache: 'no-store',
    signal: abort.signal });
  if (!answer.ok) throw await problem(answer);
  if (!(answer.headers.get('content-type') || '').startsWith('text/event-stream')) throw new Error('no event stream');
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error('the stream was closed');
    rest += value;
    if (rest.length > 8e6) throw new Error('an event without an end');
    const events = rest.split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const text of events) take(text);
  }
}
function take(text) {
  let name = 'message', data = '';
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data += line.slice(5).trimStart();
  }
  if (name !== 'status' || !data) return;
  learn(JSON.parse(data), performance.now());
  connected();
}

async function connect() {
  clearTimeout(timer);
  if (stream) stream.abort();
  const abort = stream = new AbortController();
  try {
    await askStatus();
    connected();
    await listen(abort);
  } catch (error) {
    if (abort !== stream) return; /* another try is under way */
    refusal = error.status ? error.message : '';
    if (error.status === 401) wanted();
    lost();
  }
}
/* This agent shows its status to those with the token only: ask for it, once for each refusal. */
function wanted() {
  const wrong = token ? `The ${source.name} refused this token.` : `The ${source.name} shows its status only to those who know its token.`;
  if (asked.has(token) || $('ask').open) return;
  asked.add(token);
  forget();
  askToken(null, wrong);
}
function connected() {
  const before = link;
  link = 'live';
  wait = 500;
  refusal = '';
  if (before === 'lost' || before === 'silent') announce(`The ${source.name} answers again.`);
  if (before !== 'live') { showLink(); render(); }
}
function lost() {
  const before = link;
  link = 'lost';
  const pause = wait * (0.75 + Math.random() / 2);
  wait = Math.min(wait * 2, 15000);
  retryAt = performance.now() + pause;
  timer = setTimeout(connect, pause);
  if (before !== 'lost') announce(`The ${source.name} is gone. What is shown is the last that was known.`);
  showLink();
  render();
}
function watchLink() { /* a connection that is open and says nothing is not alive */
  if (link === 'live' && age() > SILENCE_MS) {
    link = 'silent';
    announce(`The ${source.name} has fallen silent. What is shown is old.`);
    render();
  }
  if (link === 'silent' && age() > SILENCE_MS + ANSWER_MS) connect();
  showLink();
}
const words = { connecting: 'Connecting', live: 'Live', silent: 'Silent', lost: 'Gone' };
function showLink() {
  const bad = link === 'lost' || link === 'silent';
  document.body.dataset.link = link;
  document.body.classList.toggle('stale', bad && known !== null);
  put($('link'), words[link]);
  $('banner').hidden = !bad;
  if (!bad) return;
  const next = link === 'lost' ? Math.ceil((retryAt - performance.now()) / 1000) : 0;
  put($('banner-what'), refusal ? `The ${source.name} refuses: ` + clean(refusal) + '.'
    : link === 'silent' ? `The ${source.name} does not answer.` : `The ${source.name} is gone, or cannot be reached.`);
  put($('banner-more'), (known ? 'Below is what it said at ' + moment(heardAt) + ', ' + duration(Math.floor(age() / 1000) * 1000) + ' ago; it may no longer be true. ' : '')
    + (next > 0 ? 'Next try in ' + next + ' s.' : 'Trying …'));
}
