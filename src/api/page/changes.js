/* ---- Changes, behind the token ----------------------------------------------- */

let token = '';
try { token = sessionStorage.getItem('tenure-token') || ''; } catch { /* storage is off: memory will do */ }

function showKey() { put($('key'), token ? 'Forget token' : 'Enter token'); }
function forget() {
  token = '';
  try { sessionStorage.removeItem('tenure-token'); } catch { /* as above */ }
  showKey();
}

/* One dialog for all questions.  go() may throw: then its words stay in the dialog. */
let go = null, opener = null;
function ask({ title, text, fields, yes, then }) {
  put($('ask-title'), title);
  put($('ask-text'), text);
  put($('ask-yes'), yes);
  $('ask-fields').replaceChildren(...(fields || []));
  $('ask-wrong').hidden = true;
  busy(false);
  go = then;
  if (!$('ask').open) { opener = document.activeElement; $('ask').showModal(); }
  ($('ask').querySelector('#ask-fields input, #ask-fields select') || $('ask-yes')).focus();
}
function busy(on) {
  attributes($('ask-yes'), { disabled: on, 'data-busy': on });
}
async function answer(event) {
  event.preventDefault();
  const mine = go;
  if (!mine || $('ask-yes').disabled) return;
  busy(true);
  $('ask-wrong').hidden = true;
  try {
    await mine();
    if (go === mine) $('ask').close();
  } catch (error) {
    if (go !== mine) return;
    put($('ask-wrong'), clean(error.message));
    $('ask-wrong').hidden = false;
    busy(false);
  }
}

function askToken(then, wrong) {
  const input = el('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true });
  const keep = el('input', { id: 'token-keep', type: 'checkbox' });
  ask({
    title: 'Token for changes',
    text: 'The agent takes changes from those who know its token. It is kept in this page’s memory only.',
    fields: [el('label', { for: 'token', text: 'Token' }), input, el('label', { class: 'check', for: 'token-keep' }, keep, 'Remember it until this tab is closed')],
    yes: 'Use this token',
    then: async () => {
      token = input.value.trim();
      if (!token) throw new Error('Give the token.');
      if (/[^\x21-\x7e]/.test(token)) { token = ''; throw new Error('A token has no spaces and only plain letters, digits and signs.'); }
      if (keep.checked) try { sessionStorage.setItem('tenure-token', token); } catch { /* memory will do */ }
      showKey();
      if (link === 'lost') connect();
      if (then) then();
    },
  });
  if (wrong) { put($('ask-wrong'), wrong); $('ask-wrong').hidden = false; }
}
/* Run a change once there is a token. */
function withToken(question) { if (token) question(); else askToken(question); }

async function change(path, body, again, what) {
  let answered;
  try {
    answered = await fetch(path + '?name=' + encodeURIComponent(body.name), { method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(body), signal: AbortSignal.timeout(90000) });
  } catch (error) {
    throw new Error(error.name === 'TimeoutError' ? 'No answer within 90 s: look at who leads before you try again.' : 'The agent did not answer: look at who leads before you try again.');
  }
  if (answered.status === 401) {
    const why = (await problem(answered)).message;
    forget();
    askToken(again, 'The agent refused the token (' + clean(why) + '). Nothing was changed.');
    throw new Error('refused');
  }
  if (!answered.ok) throw await problem(answered);
  let facts = {};
  try { facts = await answered.json() || {}; } catch { /* an empty answer is an answer */ }
  toast(what(facts), 'good');
  askStatus().catch(() => {});
}

function choice(name, label, options) {
  return [el('label', { for: name, text: label }), el('select', { id: name }, ...options.map(([value, text]) => el('option', { value, text })))];
}

function askHandover(e, to) {
  const again = () => withToken(() => {
    const others = list(e.candidates).filter((c) => c.healthy !== false && !(e.leader && c.id === e.leader.id));
    const fields = choice('to', 'To', [['', 'the best one that waits'], ...others.map((c) => [c.id, clean(c.id) + ' (priority ' + clean(c.priority) + ')'])]);
    fields[1].value = to;
    ask({
      title: 'Hand over ' + clean(e.name), yes: 'Hand over', fields,
      text: `${e.leader ? clean(e.leader.id) : 'The leader'} ends its work, then the other begins. If nobody answers the call, nothing changes.`,
      then: () => change('/v1/handover', { name: e.name, ...(fields[1].value ? { to: fields[1].value } : {}) }, again,
        (f) => `Handed over${f.to ? ' to ' + f.to : ''}${number(f.gap_ms) > 0 ? ', with a gap of ' + duration(number(f.gap_ms)) : ''}.`),
    });
  });
  again();
}
function askStepDown(e) {
  const again = () => withToken(() => {
    const fields = choice('for', 'And stand aside for', [['30000', '30 seconds'], ['60000', 'a minute'], ['300000', 'five minutes'], ['3600000', 'an hour']]);
    fields[1].value = '60000';
    ask({
      title: 'Step down from ' + clean(e.name), yes: 'Step down', fields,
      text: `${e.leader ? clean(e.leader.id) : 'The leader'} ends its work and releases the lease; ` + (e.paused
        ? 'the election is paused, so nobody takes over: there is no leader until somebody resumes it.' : 'a standby takes over. Without a standby there is no leader until the time is over.'),
      then: () => change('/v1/step-down', { name: e.name, for_ms: Number(fields[1].value), ...(e.paused ? { force: true } : {}) }, again, () => `${e.leader ? e.leader.id : 'The leader'} was asked to step down.`),
    });
  });
  again();
}
function askPause(e) {
  const again = () => withToken(() => {
    const input = el('input', { id: 'reason', type: 'text', maxlength: 150, autocomplete: 'off' });
    ask({
      title: 'Pause ' + clean(e.name), yes: 'Pause', fields: [el('label', { for: 'reason', text: 'Why, for the others' }), input],
      text: 'Who leads goes on leading. If it dies, nobody takes over until somebody resumes.',
      then: () => change('/v1/pause', { name: e.name, reason: input.value }, again, () => `${e.name} is paused.`),
    });
  });
  again();
}
function askResume(e) {
  const again = () => withToken(() => ask({
    title: 'Resume ' + clean(e.name), yes: 'Resume', text: 'Candidates may take over again, as soon as leadership is free.',
    then: () => change('/v1/resume', { name: e.name }, again, () => `${e.name} goes on.`),
  }));
  again();
}
