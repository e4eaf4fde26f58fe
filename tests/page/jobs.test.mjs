// The page of a worker, in a real browser, on real workers; what they could not run is fed to it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LIMIT, World, closeBrowser, open, openBrowser } from './world.mjs';
import { faultsOf } from './access.mjs';
import { group, show } from './group.mjs';

before(openBrowser);
after(closeBrowser);

function on(name, body) {
  test(name, { timeout: 3 * LIMIT }, async () => {
    const world = new World(), pages = [];
    const visit = async (agent, options) => { const page = await open(agent.url, { ...options, closed: true }); pages.push(page); return page; };
    try {
      await body(world, visit);
      for (const page of pages) assert.deepEqual(page.faults, []);
    } finally {
      await Promise.all(pages.map((page) => page.context().close()));
      await world.end();
    }
  });
}

const column = (page, id) => page.locator('.workers li', { has: page.locator('.name', { hasText: id }) });

on('a column a worker, moves as they happen, and what cannot be placed', async (world, visit) => {
  world.jobs('add', 'feed-1', 'feed-2', 'feed-3', 'feed-4');
  const a = await world.worker('work-a', 4), page = await visit(a);
  await page.locator('body[data-link=live]').waitFor();
  await column(page, 'work-a').locator('.count', { hasText: /^4$/ }).waitFor();
  await page.locator('#summary-text', { hasText: /^4\sjobs on 1\sworker$/ }).waitFor();
  const b = await world.worker('work-b', 2, '--label', 'zone=b');
  await column(page, 'work-b').locator('.count', { hasText: /^2$/ }).waitFor();
  await page.locator('.moves li', { hasText: 'from work-a to work-b' }).first().locator('.chip', { hasText: 'rebalanced' }).waitFor();
  world.jobs('add', 'gpu-1', '--require', 'gpu=yes');
  await page.locator('.unplaced li', { hasText: 'no active worker has the labels gpu=yes' }).locator('small', { hasText: 'gpu-1' }).waitFor();
  await page.locator('.troubles li', { hasText: 'Nobody runs 1' }).waitFor();
  await page.locator('#summary-text', { hasText: /^5\sjobs on 2\sworkers, 1 cannot be placed$/ }).waitFor();
  await b.end('SIGTERM');
  const left = page.locator('.moves li', { has: page.locator('.chip', { hasText: 'left' }) });
  await left.locator('p', { hasText: /^2\sjobs from work-b to work-a$/ }).waitFor();
  await column(page, 'work-b').waitFor({ state: 'detached' });
  await page.getByLabel('Search jobs by name').fill('gpu');
  await page.locator('.found li', { hasText: 'gpu-1' }).locator('.reason', { hasText: 'gpu=yes' }).waitFor();
  assert.equal(await page.locator('.found li').count(), 1);
  await page.getByLabel('Search jobs by name').press('Escape');
  await page.locator('.found li').nth(3).waitFor();
});

on('100 workers and 100,000 jobs are counted, not listed', async (world, visit) => {
  world.jobs('add', 'feed-1');
  const a = await world.worker('work-a', 1);
  for (const [width, colorScheme] of [[390, 'dark'], [2560, 'light']]) {
    const page = await visit(a, { viewport: { width, height: 900 }, colorScheme });
    for (const [workers, jobs] of [[3, 20], [100, 100000]]) {
      await show(page, group(workers, jobs, { unplaced: 5, moves: 60 }));
      await page.locator('.workers li').nth(workers - 1).waitFor();
      assert.equal(await page.locator('.workers li').count(), workers);
      assert.equal(await page.locator('.workers.dense').count(), workers > 12 ? 1 : 0);
      assert.ok(await page.locator('.found li').count() <= 100);
      assert.ok(await page.evaluate(() => document.querySelectorAll('*').length) < 3000);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} is wide enough`);
      assert.deepEqual(await page.evaluate(faultsOf), []);
    }
    await page.locator('#summary-text', { hasText: /^100\s000\sjobs on 98\sworkers, 5 cannot be placed$/ }).waitFor();
  }
});

on('whatever a worker tells is shown as text', async (world, visit) => {
  world.jobs('add', 'feed-1');
  const a = await world.worker('work-a', 1), page = await visit(a), status = group(2, 4, { unplaced: 2, moves: 3 });
  const bad = '<img src=x onerror=alert(1)>';
  status.members[0].id = status.unplaced[0].reason = status.moves[0].jobs[0] = status.own[0].id = bad;
  Object.assign(status.members[1], { labels: bad, state: bad });
  status.trouble = bad;
  await show(page, status);
  await page.locator('.workers .name', { hasText: bad }).waitFor();
  await page.locator('.troubles li', { hasText: bad }).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
});
