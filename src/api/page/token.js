/* ---- The token, and questions --------------------------------------------- */

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
    title: source.token.title,
    text: source.token.text,
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
