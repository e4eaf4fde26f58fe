// The page in a real browser, on real agents.  Run by tests/page/run.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LIMIT, TOKEN, World, closeBrowser, open, openBrowser } from './world.mjs';
import { faultsOf } from './access.mjs';
import { many } from './many.mjs';

before(openBrowser);
after(closeBrowser);

// Each test has a world of its own, and no page may leave its agent or break its policy.
function on(name, body) {
  test(name, { timeout: 3 * LIMIT }, async () => {
    const world = new World(), pages = [];
    const visit = async (agent, options) => { const page = await open(agent.url, options); pages.push(page); return page; };
    try {
      await body(world, visit);
      for (const page of pages) assert.deepEqual(page.faults, []);
    } finally {
      await Promise.all(pages.map((page) => page.context().close()));
      await world.end();
    }
  });
}

const leader = (page, id) => page.locator('.leader', { hasText: id }).waitFor();
const live = (page) => page.locator('body[data-link=live]').waitFor();
const epochOf = async (page) => Number(await page.locator('.facts div', { hasText: 'Epoch' }).locator('dd').textContent());
async function giveToken(page, token) {
  await page.getByLabel('Token', { exact: true }).fill(token);
  await page.getByRole('button', { name: 'Use this token' }).click();
}

on('a fail-over is shown as it happens', async (world, visit) => {
  const [a, b] = await world.pair();
  const page = await visit(b);
  await live(page);
  await leader(page, 'ship-a');
  const before = await epochOf(page);
  await a.end('SIGKILL');
  await leader(page, 'ship-b');
  assert.ok(await epochOf(page) > before);
  await page.locator('.hero .chip', { hasText: 'this agent: leader' }).waitFor();
  await page.locator('#live', { hasText: 'ship-b leads now' }).waitFor();
  await page.locator('.terms tbody tr', { hasText: 'ship-b' }).waitFor();
  await page.locator('.line .term').nth(1).waitFor({ state: 'attached' });
  assert.equal(await page.title(), 'ship-b leads shipper');
});

on('a hand-over is clicked through; a wrong token is refused', async (world, visit) => {
  const [a, b] = await world.pair();
  const page = await visit(a);
  await page.locator('.candidates tr', { hasText: 'ship-b' }).getByRole('button', { name: 'Hand over to ship-b' }).click();
  await giveToken(page, 'not-the-token-of-this-agent');
  await page.getByRole('button', { name: 'Hand over', exact: true }).click();
  await page.locator('#ask-wrong', { hasText: 'refused the token' }).waitFor();
  assert.equal((await a.status()).leader.id, 'ship-a');
  await giveToken(page, TOKEN);
  assert.equal(await page.getByLabel('To', { exact: true }).inputValue(), 'ship-b');
  await page.getByRole('button', { name: 'Hand over', exact: true }).click();
  await page.locator('[data-toast=good]', { hasText: 'Handed over to ship-b' }).waitFor();
  await leader(page, 'ship-b');
  await b.sees((e) => e.leading, 'ship-b leads');
  const kept = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));
  assert.ok(!kept.includes(TOKEN), kept);
});

on('one page shows two elections: a fail-over of one, a hand-over of the other', async (world, visit) => {
  const [a, b] = await world.fleets('orders', 'billing');
  const page = await visit(b), card = (name) => page.locator('.election', { has: page.locator('h2', { hasText: name }) });
  await live(page);
  const leads = (name, id) => card(name).locator('.leader', { hasText: id }).waitFor();
  assert.equal(await page.locator('.election').count(), 2);
  for (const name of ['orders', 'billing']) {
    await leads(name, 'ship-a');
    await page.locator('#overview a', { hasText: name }).locator('small', { hasText: 'ship-a leads' }).waitFor();
  }
  const victim = a.child('orders');
  a.process.kill('SIGSTOP'); // or it might be started again, and win again
  process.kill(victim, 'SIGKILL');
  await leads('orders', 'ship-b');
  a.process.kill('SIGCONT');
  await page.locator('#live', { hasText: 'orders: ship-b leads now' }).waitFor();
  await card('orders').locator('.terms tbody tr', { hasText: 'ship-b' }).waitFor();
  await page.locator('#overview a', { hasText: 'orders' }).getByText('leads here').waitFor();
  await leads('billing', 'ship-a'); // which did not notice
  await card('billing').getByRole('button', { name: 'Hand over to ship-b' }).click();
  await giveToken(page, TOKEN);
  await page.getByRole('button', { name: 'Hand over', exact: true }).click();
  await page.locator('[data-toast=good]', { hasText: 'Handed over to ship-b' }).waitFor();
  await leads('billing', 'ship-b');
  await b.everySees((e) => e.leading, 'ship-b leads them all');
  await page.locator('#overview a', { hasText: 'billing' }).click();
  assert.ok(await card('billing').locator('.hero').isVisible());
  assert.equal(await card('orders').count(), 0); // its own address, alone
  await page.goBack();
  await card('orders').waitFor();
  // A process that tells nothing is told as that, whatever its last words were.
  const status = await (await fetch(b.url + '/_ha/status')).json();
  Object.assign(status.elections[0], { role: 'silent', leading: false, left_ms: 0, reason: 'its process does not answer' });
  await page.route('**/_ha/status', (route) => route.fulfill({ json: status }));
  await page.route('**/v1/leadership', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(status)}\n\n` }));
  await page.reload();
  await card('orders').locator('.chip', { hasText: 'last known' }).waitFor();
  await page.locator('#overview a', { hasText: 'orders' }).locator('small', { hasText: 'its process here is silent' }).waitFor();
  assert.ok(await card('orders').getByRole('button', { name: 'Pause …' }).isDisabled());
});

on('pause, resume and step-down', async (world, visit) => {
  const [a] = await world.pair();
  const page = await visit(a);
  await page.getByRole('button', { name: 'Enter token' }).click();
  await page.getByLabel('Remember it until this tab is closed').check();
  await giveToken(page, TOKEN);
  await page.reload();
  await page.getByRole('button', { name: 'Forget token' }).waitFor();
  await page.getByRole('button', { name: 'Pause …' }).click();
  await page.getByLabel('Why, for the others').fill('<i>disks</i>');
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await page.locator('.paused', { hasText: '<i>disks</i>' }).waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Resume' }).click();
  await page.locator('.paused').waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Step down …' }).click();
  await page.getByRole('button', { name: 'Step down', exact: true }).click();
  await leader(page, 'ship-b');
  await page.getByRole('button', { name: 'Forget token' }).click();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

on('a status behind the token is asked for', async (world, visit) => {
  const a = await world.add('ship-a', '--listen-reads', 'token');
  const page = await visit(a, { closed: true });
  await page.locator('#ask-wrong', { hasText: 'only to those who know its token' }).waitFor();
  assert.equal(await page.locator('.election').count(), 0);
  await giveToken(page, 'not-the-token-of-this-agent');
  await page.locator('#ask-wrong', { hasText: 'refused this token' }).waitFor();
  await giveToken(page, TOKEN);
  await leader(page, 'ship-a');
  await live(page);
});

on('an agent that is gone is said to be gone, and found again', async (world, visit) => {
  const a = await world.add('ship-a');
  await a.sees((e) => e.leading, 'ship-a leads');
  const page = await visit(a);
  await live(page);
  await a.end('SIGKILL');
  await page.locator('#banner', { hasText: 'The agent is gone' }).waitFor();
  await page.locator('#banner', { hasText: 'it may no longer be true' }).waitFor();
  await page.locator('body.stale').waitFor();
  await page.locator('.chip', { hasText: 'last known' }).waitFor();
  assert.ok(await page.getByRole('button', { name: 'Hand over …' }).isDisabled());
  await page.locator('.lease .note', { hasText: 'Who leads now is not known here' }).waitFor();
  assert.match(await page.locator('.ring .count').textContent(), /^0(\.0)?$/);
  assert.match(await page.title(), /^\(gone\)/);
  assert.deepEqual(await page.evaluate(faultsOf), []);
  a.start();
  await live(page);
  await page.locator('#banner').waitFor({ state: 'hidden' });
  await leader(page, 'ship-a');
});

on('a connection that is open and says nothing is not believed', async (world, visit) => {
  const [, b] = await world.pair();
  const page = await visit(b);
  await live(page);
  b.process.kill('SIGSTOP'); // its guard may end it: gone, then, instead of silent
  await page.locator('body:is([data-link=silent], [data-link=lost])').waitFor();
  await page.locator('#banner', { hasText: 'it may no longer be true' }).waitFor();
  assert.ok(await page.getByRole('button', { name: 'Pause …' }).isDisabled());
  await b.end('SIGKILL');
});

const EVIL = ['<img/src=x/onerror=alert(1)>', '"><script>window.pwned=1</script>', "');alert(1)//", '{{7*7}}${7*7}'];

on('hostile words stay words', async (world, visit) => {
  const a = await world.add(EVIL[0], '--address', EVIL[1], '--build', EVIL[2].slice(0, 30));
  await a.sees((e) => e.leading, 'it leads');
  const page = await visit(a);
  await page.locator('.leader', { hasText: '<img' }).waitFor();
  await page.locator('.facts', { hasText: EVIL[1] }).waitFor();
  const honest = await (await fetch(a.url + '/_ha/status')).json();
  const evil = (value) => Array.isArray(value) ? value.map(evil)
    : value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, evil(v)]))
      : typeof value === 'string' ? EVIL[1] + '\u202e' + EVIL[0] : value;
  const e = honest.elections[0];
  Object.assign(e, { paused: { by: 'x', at: 'x', reason: 'x' }, state: { collections: ['x'], commits: 1, fenced: 1, last: [{ collection: 'x', id: 'x', seq: 1, at_ms: 1 }] } });
  e.renewals.failed = { '__proto__<b>': 3, constructor: 2 };
  e.warnings = [{ kind: 'x', text: 'x' }, null, 'x'];
  const bad = evil(honest), twice = structuredClone(bad);
  twice.elections[0].name = '__proto__';
  bad.elections.push(twice.elections[0]);
  for (const page of ['javascript:window.pwned=1', 'data:text/html,x', 'not an address']) bad.elections[0].candidates.push({ id: page, healthy: true, page });
  await page.route('**/_ha/status', (route) => route.fulfill({ json: bad }));
  await page.route('**/v1/leadership', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(bad)}\n\n` }));
  await page.reload();
  await page.locator('.election').nth(1).waitFor();
  await page.locator('.leader', { hasText: '\\u202e' }).first().waitFor();
  const made = await page.evaluate(() => [window.pwned, document.images.length, document.scripts.length, document.querySelectorAll('i, b, iframe, [onerror], a.page[href]').length]);
  assert.deepEqual(made, [undefined, 0, 1, 0]);
  assert.ok(!(await page.locator('body').innerText()).includes('\u202e'));
  page.faults.length = 0; // the answers above end at once, which is no fault of the page
});

on('the keyboard is enough', async (world, visit) => {
  const [a] = await world.pair();
  const page = await visit(a);
  await live(page);
  const focused = () => page.evaluate(() => (document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim());
  const tabTo = async (name) => {
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press('Tab');
      if (await focused() === name) return;
    }
    assert.fail(`Tab never reached ${name}`);
  };
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Skip to the elections');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await tabTo('Hand over …');
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'token');
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'hidden' });
  assert.equal(await focused(), 'Hand over …');
  await page.keyboard.press('Enter');
  await page.keyboard.type(TOKEN);
  await page.keyboard.press('Enter');
  await page.locator('#to').waitFor();
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.locator('#to').inputValue(), 'ship-b');
  await tabTo('Hand over');
  await page.keyboard.press('Enter');
  await leader(page, 'ship-b');
});

on('labels, contrast and room, in light and dark, from phone to wall', async (world, visit) => {
  const [a] = await world.pair();
  for (const [width, height, colorScheme] of [[360, 740, 'light'], [1280, 900, 'dark'], [2560, 1440, 'light'], [360, 740, 'dark']]) {
    const page = await visit(a, { viewport: { width, height }, colorScheme, reducedMotion: 'reduce' });
    await live(page);
    await page.locator('.line .term').first().waitFor({ state: 'attached' });
    const where = `${width} ${colorScheme}: `;
    assert.deepEqual(await page.evaluate(faultsOf), [], where);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, where + 'wider than the screen');
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0, where + 'it moves');
    await page.getByRole('button', { name: 'Pause …' }).click();
    assert.deepEqual(await page.evaluate(faultsOf), [], where + 'dialog');
  }
});

on('two elections: labels, contrast and room, from phone to wall', async (world, visit) => {
  const [a] = await world.fleets('orders', 'billing');
  for (const [width, height, colorScheme] of [[360, 740, 'dark'], [2560, 1440, 'light']]) {
    const page = await visit(a, { viewport: { width, height }, colorScheme, reducedMotion: 'reduce' });
    await live(page);
    await page.locator('.line .term').nth(1).waitFor({ state: 'attached' });
    assert.deepEqual(await page.evaluate(faultsOf), [], `${width} ${colorScheme}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${width}: wider than the screen`);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${width}-${colorScheme}.png`, fullPage: true });
  }
});

// The agent is real, what it says is made up; the stream stays open, as a real one does.
async function pretend(page, status) {
  await page.route('**/_ha/status', (route) => route.fulfill({ json: status() }));
  await page.route('**/v1/leadership', () => {}); // no answer: the page asks for the status meanwhile
  await page.reload();
  await page.locator('#overview').waitFor();
}

on('thirty elections: a summary, trouble first, filter, search, an address for each', async (world, visit) => {
  const a = await world.add('node-a');
  const page = await visit(a, { closed: true });
  const changed = { trouble: 4 };
  await pretend(page, () => {
    const status = many(30, changed.trouble, Date.now());
    Object.assign(status.elections[3], changed.search);
    return status;
  });
  const summary = page.locator('#summary-text'), rows = page.locator('.rows a'), hash = () => page.evaluate(() => location.hash);
  assert.equal(await summary.textContent(), '26 healthy, 1 without a leader, 1 not answering, 1 in trouble, 1 paused');
  assert.equal(await page.locator('.election').count(), 0); // a list, no cards
  assert.equal(await rows.count(), 30);
  assert.deepEqual(await page.locator('#trouble .name').allTextContents(), ['search', 'cleanup-1', 'export-2', 'orders-1']);
  await page.locator('#trouble li', { hasText: 'search' }).getByText('Repair what the candidates’ reasons name.').waitFor();
  await page.locator('#trouble li', { hasText: 'export-2' }).getByText('ended 7 times').waitFor(); // whatever the status warns of
  await page.locator('#trouble li[data-mood=bad]', { hasText: 'export-2' }).getByText('from the future').waitFor();
  assert.match(await page.title(), /^\(1 without leader\) tenure/);
  // Filter and search are part of the address.
  await page.locator('#show-trouble').click();
  assert.equal(await rows.count(), 4);
  await page.keyboard.press('/');
  await page.keyboard.type('NODE-D cle');
  assert.equal(await rows.count(), 1);
  assert.equal(await hash(), '#?q=NODE-D+cle&show=trouble');
  await page.reload();
  await page.locator('#search').waitFor();
  assert.equal(await page.locator('#search').inputValue(), 'NODE-D cle');
  assert.deepEqual(await page.locator('.rows .name').allTextContents(), ['cleanup-1']);
  await page.locator('#search').fill('nothing like it');
  await page.getByText('No election matches').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  assert.equal(await rows.count(), 30);
  assert.equal(await hash(), '');
  // An address for each; back, forward and a shared link work.
  await page.locator('#healthy a', { hasText: 'shipping-2' }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.election h2', { hasText: 'shipping-2' }).waitFor();
  assert.equal(await hash(), '#/shipping-2');
  assert.equal(await page.locator('.election').count(), 1);
  assert.equal(await page.title(), '(1 without leader) node-c leads shipping-2');
  await page.goBack();
  await page.locator('#overview').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.dataset.name), 'shipping-2');
  await page.goForward();
  await page.locator('.election h2', { hasText: 'shipping-2' }).waitFor();
  await page.reload();
  await page.locator('.election h2', { hasText: 'shipping-2' }).waitFor();
  await page.getByRole('link', { name: 'All 30 elections' }).click();
  await page.locator('#overview').waitFor();
  await page.evaluate(() => { location.hash = '#/no%20such'; });
  await page.getByText('This agent has no election named no such.').waitFor();
  await page.goBack();
  // What heals leaves the list of troubles; the one with the focus keeps it.
  await page.locator('#trouble a', { hasText: 'orders-1' }).focus();
  changed.trouble = 0;
  await summary.getByText('All 30 elections healthy').waitFor();
  assert.equal(await page.locator('#trouble-part').isVisible(), false);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.name), 'orders-1');
  // Where the store does not say who leads, the page does not say that nobody does.
  changed.search = { leader: null, leader_known: false, leading: false, role: 'standby', reason: 'who leads is not known; the store: refused' };
  await summary.getByText('29 healthy, 1 with an unknown leader').waitFor();
  assert.doesNotMatch(await page.title(), /without leader/);
  await page.locator('#trouble a', { hasText: 'search' }).click();
  await page.locator('.election').getByText('Leader not known').waitFor();
  page.faults.length = 0; // a request that is never answered ends with the page
});

on('3, 30 and 300 elections: labels, contrast and room, in light and dark, from phone to wall', async (world, visit) => {
  const a = await world.add('node-a');
  for (const [count, trouble, width, height, colorScheme] of [[3, 1, 390, 844, 'light'], [30, 4, 390, 844, 'dark'], [30, 4, 2560, 1440, 'light'],
    [300, 7, 2560, 1440, 'dark'], [300, 120, 1280, 900, 'light'], [300, 0, 390, 844, 'light']]) {
    const page = await visit(a, { viewport: { width, height }, colorScheme, reducedMotion: 'reduce', closed: true });
    await pretend(page, () => many(count, trouble, Date.now()));
    const where = `${count} ${width} ${colorScheme}: `;
    assert.equal(await page.locator('.rows a').count(), count, where);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, where + 'wider than the screen');
    assert.deepEqual(await page.evaluate(faultsOf), [], where);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${count}-${width}-${colorScheme}.png` });
    page.faults.length = 0;
  }
});

on('each candidate links to the page of the others', async (world, visit) => {
  const [a, b] = await world.fleets('orders', 'team/billing');
  const page = await visit(b), card = page.locator('.election', { has: page.locator('h2', { hasText: 'team/billing' }) });
  const link = card.getByRole('link', { name: 'Page of ship-a' });
  assert.equal(await link.getAttribute('href'), a.url + '/#/team%2Fbilling');
  assert.equal(await card.getByRole('link', { name: 'Page of ship-b' }).count(), 0); // this one
  const other = await visit({ url: await link.getAttribute('href').then((href) => href.split('/#')[0]) });
  await other.evaluate((href) => { location.href = href; }, await link.getAttribute('href'));
  await other.locator('.election .chip', { hasText: 'this agent: leader' }).waitFor();
  assert.deepEqual(await other.locator('.election h2').allTextContents(), ['team/billing']);
});

on('dates name their zone', async (world, visit) => {
  const a = await world.add('ship-a');
  await a.sees((e) => e.leading, 'ship-a leads');
  for (const [timezoneId, zone] of [['Asia/Kolkata', 'UTC+5:30'], ['UTC', 'UTC'], ['America/Phoenix', 'UTC\u22127']]) {
    const page = await visit(a, { timezoneId });
    const since = page.locator('.facts div', { hasText: 'Leads since' }).locator('dd');
    await since.waitFor();
    assert.match(await since.textContent(), new RegExp(`\\d\\d:\\d\\d:\\d\\d ${zone.replace('+', '\\+')}$`));
    await page.locator('.terms th', { hasText: 'Began ' + zone }).waitFor();
    await page.locator('footer', { hasText: `Times are ${zone},` }).waitFor();
  }
});

on('the theme is a choice that stays', async (world, visit) => {
  const a = await world.add('ship-a');
  await a.sees((e) => e.leading, 'ship-a leads');
  const page = await visit(a, { colorScheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  const button = page.locator('#theme');
  await button.click();
  assert.equal(await ground(), light);
  await button.click();
  assert.notEqual(await ground(), light);
  await page.reload();
  assert.equal(await button.textContent(), 'Theme: dark');
  assert.notEqual(await ground(), light);
});
