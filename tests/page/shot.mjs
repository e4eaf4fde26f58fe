// Take docs/reference/page.png anew:  TENURE_PAGE_MODULES=$(tests/page/install) node tests/page/shot.mjs FILE [dark] [WIDTHxHEIGHT]
import { World, closeBrowser, open, openBrowser } from './world.mjs';

const [file, scheme = 'light', size = '1280x1180'] = process.argv.slice(2);
const [width, height] = size.split('x').map(Number);
const ship = 'i=0; while sleep 1; do i=$((i+1)); curl -s -o /dev/null --unix-socket "$TENURE_SOCKET" -X PUT -d $i "http://localhost/v1/state/orders/2026-$TENURE_ID-$i"; done';
const world = new World('order-shipper');
world.program = ['sh', '-c', ship];
try {
  await openBrowser();
  const facts = ['--state', 'store', '--build', '2.4.1', '--address', '10.2.0.11:8080'];
  const [a, b] = await world.pair('ship-a1', 'ship-b2', ...facts);
  const c = await world.add('ship-c3', ...facts, '--priority', '10');
  await c.sees((e) => e.candidates.length === 3, 'all three are there');
  const pause = () => new Promise((done) => setTimeout(done, 9000));
  await pause();
  const order = (path, body) => fetch(a.url + path, { method: 'POST', headers: { Authorization: 'Bearer ' + world.word, 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  await order('/v1/handover', { to: 'ship-b2' });
  await pause();
  await b.end('SIGKILL');
  await c.sees((e) => e.leading, 'ship-c3 leads');
  await pause();
  b.start();
  await b.sees((e) => e.leader && e.leader.id === 'ship-c3', 'ship-b2 is back');
  await pause();
  const page = await open(c.url, { viewport: { width, height }, colorScheme: scheme });
  await page.locator('.commits li').first().waitFor();
  await page.locator('body[data-link=live]').waitFor();
  await pause();
  await page.screenshot({ path: file, fullPage: true });
} finally {
  await closeBrowser();
  await world.end();
}
