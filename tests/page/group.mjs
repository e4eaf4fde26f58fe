// A group of jobs as a worker would show it, of any size: for what no machine of the tests could run.
export function group(workers, jobs, { unplaced = 0, moves = 0 } = {}) {
  const each = Math.floor((jobs - unplaced) / workers), now = Date.now();
  const causes = ['rebalanced', 'died', 'left', 'placed', 'drained', 'paused', 'evicted'];
  const name = (i) => 'worker-' + String(i + 1).padStart(String(workers).length, '0');
  return {
    group: 'feeds', worker: name(0), phase: 'member', now_ms: now, left_ms: 60000, trouble: '', waits: '', version: '0.1.0', host: 'host-1',
    plan: { seq: 42, changes: 12, written: 3, cut: moves > 20 },
    jobs: { runnable: jobs, planned_here: each, running_here: each, unplaced, unowned: unplaced, in_doubt: 0, unowned_seconds: unplaced ? 754.5 : 0 },
    members: Array.from({ length: workers }, (_, i) => ({
      id: name(i), state: i === workers - 1 && workers > 20 ? 'draining' : i === 7 ? 'dead' : 'alive', self: i === 0, counts: i !== 7 && !(i === workers - 1 && workers > 20),
      jobs: each - (i % 3), load: each - (i % 3) + (i % 5), fair: each, share: 1, limit: null, labels: i % 2 ? 'zone=b' : 'zone=a', applied: i !== 3 })),
    own: Array.from({ length: Math.min(each, 200) }, (_, i) => ({ id: 'feed-' + i * workers, number: i * workers, state: 'running', epoch: 1794993823833, since_ms: now - 1000 * i * 37 })),
    own_count: each,
    unplaced: unplaced ? [{ reason: 'no active worker has the labels gpu=yes', count: unplaced - 1, jobs: Array.from({ length: Math.min(unplaced - 1, 20) }, (_, i) => 'gpu-' + i) },
      { reason: 'pinned to worker-x, which is not active', count: 1, jobs: ['feed-7'] }] : [],
    moves: Array.from({ length: moves }, (_, i) => ({ at_ms: now - i * 11000, plan: 42 - i, cause: causes[i % causes.length], count: 1 + (i * 317) % Math.max(each, 2),
      from: causes[i % causes.length] === 'placed' ? null : i % 2 ? name(i % workers) : null, to: causes[i % causes.length] === 'paused' ? null : i % 2 ? null : name((i * 7) % workers), several: true,
      jobs: ['feed-' + i, 'feed-' + (i + 1)].slice(0, 1 + (i * 317) % Math.max(each, 2)) })),
  };
}

// Have a page show it, whatever its worker says.
export async function show(page, status) {
  await page.route('**/v1/jobs?limit=*', (route) => route.fulfill({ json: status }));
  await page.route('**/v1/jobs', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(status)}\n\n` }));
  await page.reload();
}
