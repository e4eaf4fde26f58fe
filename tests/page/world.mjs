// Real agents and a real browser, in folders and on ports of their own.
import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createRequire } from 'node:module';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../..');
const build = process.env.TENURE_BUILD || path.join(root, 'build');
const require = createRequire(path.join(process.env.TENURE_PAGE_MODULES, 'x.js'));
const { chromium } = require('playwright-core');

export const TOKEN = 'a-token-of-the-tests-0123456789';
export const LIMIT = 90000; // generous: a loaded machine is slow, and nothing here is about speed

// Below those that the kernel gives to whoever connects: one of them could be taken before its agent is
// up, or while it is down.
async function freePort() {
  const low = Number(fs.readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)[0]);
  for (;;) {
    const port = low >= 8192 ? randomInt(low >> 1, low) : 0, server = net.createServer();
    const found = await new Promise((done) => server.once('error', () => done(0)).listen(port, '127.0.0.1', () => done(server.address().port)));
    if (!found) continue;
    await new Promise((done) => server.close(done));
    return found;
  }
}

// A busy disk may take longer for one flush than a lease lasts; memory does not.
function folder() {
  try {
    return fs.mkdtempSync('/dev/shm/tenure-page-');
  } catch {
    return fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-page-'));
  }
}

export async function until(what, why) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const answer = await what();
    if (answer) return answer;
    if (Date.now() > end) throw new Error('still not so: ' + why);
    await new Promise((done) => setTimeout(done, 50));
  }
}

class Agent {
  constructor(world, id, port, more) {
    Object.assign(this, { world, id, port, more, url: `http://127.0.0.1:${port}` });
  }

  start() {
    const log = fs.openSync(path.join(this.world.dir, `log-${this.port}`), 'a');
    this.process = spawn(path.join(build, 'tenure'), ['run', '--name', this.world.name, '--id', this.id,
      '--store', `sqlite:${this.world.dir}/store.db`, '--ttl', '10s', '--renew', '1s', '--grace', '1s',
      '--listen', `127.0.0.1:${this.port}`, '--token-file', this.world.token, ...this.more, '--', ...this.world.program],
    { stdio: ['ignore', log, log] });
    this.ended = new Promise((done) => this.process.on('exit', done));
    fs.closeSync(log);
    return this;
  }

  async status() {
    try {
      const answer = await fetch(this.url + '/_ha/status', { signal: AbortSignal.timeout(10000) });
      return (await answer.json()).elections[0];
    } catch {
      if (this.process.exitCode !== null) throw new Error(`${this.id} ended: ` + fs.readFileSync(path.join(this.world.dir, `log-${this.port}`)));
      return null;
    }
  }

  sees(what, why) { return until(async () => { const e = await this.status(); return e && what(e) && e; }, why); }

  async end(signal) {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    await this.ended;
  }
}

// `tenure agent`: several elections behind one address.
class Fleet extends Agent {
  start() {
    const file = path.join(this.world.dir, `${this.port}.yaml`), log = fs.openSync(path.join(this.world.dir, `log-${this.port}`), 'a');
    fs.writeFileSync(file, JSON.stringify({
      coordinate: { type: 'sqlite', path: `${this.world.dir}/store.db`, ttl: '10s', renew_interval: '1s', holder_id: this.id },
      http: { listen: `127.0.0.1:${this.port}`, token: `file:${this.world.token}` },
      run: { command: this.world.program, grace: '1s' },
      elections: this.more.map((name) => ({ name })),
    }));
    this.process = spawn(path.join(build, 'tenure'), ['agent', '--config', file], { stdio: ['ignore', log, log] });
    this.ended = new Promise((done) => this.process.on('exit', done));
    fs.closeSync(log);
    return this;
  }

  async all() {
    const first = await this.status();
    return first && (await (await fetch(this.url + '/_ha/status')).json()).elections;
  }

  everySees(what, why) { return until(async () => { const all = await this.all(); return all && all.every(what); }, why); }

  // The process of one election.
  child(name) {
    const pids = fs.readFileSync(`/proc/${this.process.pid}/task/${this.process.pid}/children`, 'utf8').trim().split(' ');
    return Number(pids.find((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(name)));
  }
}

// `tenure work`: a worker of a group of jobs.
class Worker extends Agent {
  start() {
    const log = fs.openSync(path.join(this.world.dir, `log-${this.port}`), 'a');
    this.process = spawn(path.join(build, 'tenure'), ['work', '--group', 'feeds', '--id', this.id, '--store', `sqlite:${this.world.dir}/store.db`,
      '--ttl', '5m', '--renew', '1s', '--grace', '1s', '--listen', `127.0.0.1:${this.port}`, ...this.more, '--', ...this.world.program],
    { stdio: ['ignore', log, log] });
    this.ended = new Promise((done) => this.process.on('exit', done));
    fs.closeSync(log);
    return this;
  }

  async status() {
    try {
      return await (await fetch(this.url + '/v1/jobs', { signal: AbortSignal.timeout(10000) })).json();
    } catch {
      if (this.process.exitCode !== null) throw new Error(`${this.id} ended: ` + fs.readFileSync(path.join(this.world.dir, `log-${this.port}`)));
      return null;
    }
  }
}

// One election and its candidates; end() leaves nothing behind.
export class World {
  constructor(name = 'shipper') {
    this.name = name;
    this.dir = folder();
    this.program = ['sleep', '100000'];
    this.word = TOKEN;
    this.token = path.join(this.dir, 'token');
    fs.writeFileSync(this.token, TOKEN + '\n', { mode: 0o600 });
    this.agents = [];
  }

  async add(id, ...more) {
    const agent = new Agent(this, id, await freePort(), more);
    this.agents.push(agent.start());
    return agent;
  }

  // `tenure jobs ARGS`
  jobs(...args) {
    execFileSync(path.join(build, 'tenure'), ['jobs', ...args, '--group', 'feeds', '--store', `sqlite:${this.dir}/store.db`], { timeout: LIMIT });
  }

  // A worker of the group, with this many jobs.
  async worker(id, jobs, ...more) {
    const worker = new Worker(this, id, await freePort(), more);
    this.agents.push(worker.start());
    await worker.sees((g) => g.jobs && g.jobs.running_here === jobs, `${id} runs ${jobs} jobs`);
    return worker;
  }

  // The first leads, and all see it.
  async pair(a = 'ship-a', b = 'ship-b', ...more) {
    const first = await this.add(a, ...more);
    await first.sees((e) => e.leading, a + ' leads');
    const second = await this.add(b, ...more);
    await second.sees((e) => e.leader && e.leader.id === a && e.candidates.length === 2, b + ' stands by');
    await first.sees((e) => e.candidates.length === 2, a + ' sees both');
    return [first, second];
  }

  // Two agents with several elections each; the first leads them all, and both see it.
  async fleets(...names) {
    const made = [];
    for (const id of ['ship-a', 'ship-b']) {
      const fleet = new Fleet(this, id, await freePort(), names);
      this.agents.push(fleet.start());
      made.push(fleet);
      if (id === 'ship-a') await fleet.everySees((e) => e.leading, 'ship-a leads them all');
    }
    for (const fleet of made)
      await fleet.everySees((e) => e.leader && e.leader.id === 'ship-a' && e.candidates.length === 2, 'both are there');
    return made;
  }

  async end() {
    await Promise.all(this.agents.map((agent) => agent.end('SIGTERM')));
    fs.rmSync(this.dir, { recursive: true, force: true });
  }
}

let browser = null;
export async function openBrowser() {
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', timeout: LIMIT,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--disable-background-networking'] });
}
export const closeBrowser = () => browser && browser.close();

// A page that notes whatever it should not do.
export async function open(url, { closed = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage(), faults = [];
  page.setDefaultTimeout(LIMIT);
  page.on('request', (request) => {
    if (!request.url().startsWith(url + '/') && !request.url().startsWith('data:')) faults.push('asked ' + request.url());
  });
  page.on('pageerror', (error) => faults.push('error: ' + error.message));
  page.on('dialog', (dialog) => { faults.push('dialog: ' + dialog.message()); dialog.dismiss(); });
  page.on('console', (message) => { if (/Content Security Policy|Refused to/.test(message.text())) faults.push(message.text()); });
  page.faults = faults;
  await until(() => page.goto(url + '/').catch(() => null), 'the page is served');
  if (!closed) await page.locator('.election').first().waitFor();
  return page;
}
