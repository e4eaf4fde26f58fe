// run.mjs PORT TTL_MS COMMAND... - run COMMAND while holding a lock; what tenure run is measured beside.
import { spawn } from 'node:child_process';
import Redis from 'ioredis';
import * as lib from 'redlock';

const [port, ttl, command, ...args] = process.argv.slice(2);
const Redlock = lib.default?.default ?? lib.default;
const client = new Redis(Number(port), '127.0.0.1');
const redlock = new Redlock([client], { retryCount: -1, retryDelay: 200, retryJitter: 100 });
let lock = await redlock.acquire(['bench'], Number(ttl));
const child = spawn(command, args, { stdio: 'inherit' });
const timer = setInterval(async () => { lock = await lock.extend(Number(ttl)); }, Number(ttl) / 3);
let stopping = false;
child.on('exit', async () => {
  if (stopping) return;
  clearInterval(timer);
  await lock.release();
  process.exit(1);
});
process.on('SIGTERM', async () => {
  stopping = true;
  clearInterval(timer);
  child.kill('SIGTERM');
  await new Promise((done) => child.on('exit', done));
  await lock.release();
  process.exit(0);
});
