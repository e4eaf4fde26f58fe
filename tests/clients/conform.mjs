/* The conformance script in Node; tests/fault/test_clients.py says what it must print. */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { leadership, State } from './tenure.mjs';

const say = (...words) => console.log(words.join(' '));
const mode = process.argv[2];

async function checkClock() {
  let uptime = '8.00 1.00';
  fs.readFileSync = () => uptime;
  syncBuiltinESMExports();
  const term = await leadership();
  uptime = '8.03 1.00'; // 8.03 * 1000 is less than 8030
  say('left', term.left());
  term.close();
  process.exit();
}

if (mode === 'clock') await checkClock();
if (mode === 'close') { // no limit of time ends the process
  const { setTimeout: real } = globalThis;
  globalThis.setTimeout = (call, ms) => real(call, 1000 * ms);
}

process.on('SIGTERM', () => {}); // what is to be noticed is pushed
const term = await leadership();
say('epoch', term.epoch);
say('leads', term.left() > 0);
if (mode === 'state') {
  say('missing', (await term.state.get('conform/a b')) === undefined);
  await term.state.put('conform/a b', 'one');
  say('got', await term.state.get('conform/a b'));
  say('list', (await term.state.list('conform')).join(','));
  say('deleted', await term.state.delete('conform/a b'), await term.state.delete('conform/a b'));
  try {
    await new State(process.env.TENURE_SOCKET, term.epoch + 1).put('conform/x', '');
  } catch (error) {
    if (error.word === 'fenced') say('fenced');
  }
  try {
    await term.state.put('/x', '');
  } catch (error) {
    say('refused', error.status);
  }
}
if (mode === 'close') {
  process.stdin.resume();
  await new Promise((resolve) => { process.stdin.on('end', resolve); });
  term.close();
} else {
  say('waiting');
  if (!term.lost.aborted) await new Promise((resolve) => { term.lost.addEventListener('abort', resolve); });
  say('lost');
  if (mode === 'state') await term.state.put('conform/last', 'x');
  say(mode === 'state' ? 'last' : 'leads', term.left() > 0);
  term.close();
}
