/* ---- Changes, behind the token ----------------------------------------------- */

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
