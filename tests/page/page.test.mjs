// The page in a real browser, on real agents.  Run by tests/page/run.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LIMIT, TOKEN, World, closeBrowser, open, openBrowser } from './world.mjs';
import { faultsOf } from './access.mjs';

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
  const bad = evil(honest), twice = structuredClone(bad);
  twice.elections[0].name = '__proto__';
  bad.elections.push(twice.elections[0]);
  await page.route('**/_ha/status', (route) => route.fulfill({ json: bad }));
  await page.route('**/v1/leadership', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(bad)}\n\n` }));
  await page.reload();
  await page.locator('.election').nth(1).waitFor();
  await page.locator('.leader', { hasText: '\\u202e' }).first().waitFor();
  const made = await page.evaluate(() => [window.pwned, document.images.length, document.scripts.length, document.querySelectorAll('i, b, iframe, [onerror]').length]);
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
