/* The conformance script in Node; tests/fault/test_clients.py says what it must print. */
import { leadership, State } from './tenure.mjs';

const say = (...words) => console.log(words.join(' '));

process.on('SIGTERM', () => {}); // what is to be noticed is pushed
const term = await leadership();
say('epoch', term.epoch);
say('leads', term.left() > 0);
if (process.argv[2] === 'state') {
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
}
say('waiting');
if (!term.lost.aborted) await new Promise((resolve) => { term.lost.addEventListener('abort', resolve); });
say('lost');
if (process.argv[2] === 'state') {
  await term.state.put('conform/last', 'x');
  say('last', term.left() > 0);
}
term.close();
