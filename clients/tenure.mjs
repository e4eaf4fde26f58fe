/*
 * Am I the leader?  For a program that `tenure run --state ...` has started.  Node's own modules only; copy the file.
 *
 *     import { leadership } from './tenure.mjs';
 *
 *     const term = await leadership();                 // waits until this program leads
 *     process.on('SIGTERM', term.stop);
 *     let position = Number(await term.state.get('work/position') ?? 0);
 *     while (!term.lost.aborted) await term.state.put('work/position', String(++position));
 *     term.close();
 *
 * term.epoch  carries the fence: pass it to whatever else the work writes to
 * term.lost   an AbortSignal: stop now (the lease is lost, or leadership is being given up); for fetch(), setTimeout() ...
 * term.left() milliseconds until the work must have ended; 0 after that.  What was left is counted from BEFORE each
 *             request, by /proc/uptime: CLOCK_BOOTTIME in hundredths of a second, which goes on while the machine sleeps
 *             (Node's own clocks do not, or can be set).  It is up to 20 ms too short, and never too long
 * term.state  get, put and delete of documents 'COLLECTION/ID', each under this term's epoch, and list of a collection
 */
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const LONGEST_MS = 10000; // of a long poll
const LEAST_MS = 50;
const PAUSE_MS = 200; // after a request that failed

/** An answer that is no success: status (HTTP) and word, which to branch on: 'fenced' (final), 'not-leader' ... */
export class TenureError extends Error {
  constructor(status, word, detail = '') {
    super(`${word} (${status}): ${detail}`);
    this.status = status;
    this.word = word;
  }
}

/* The file is rounded down; the product is not exact. */
const uptimeMs = () => Math.round(Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]) * 1000);

function ask(path, method, target, { body, headers = {}, limitMs = LONGEST_MS, signal } = {}) {
  return new Promise((resolve, reject) => {
    const fail = (error) => { clearTimeout(timer); reject(error); };
    const request = http.request({ socketPath: path, method, path: target, headers, agent: false, signal }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => { clearTimeout(timer); resolve({ status: answer.statusCode, body: Buffer.concat(parts) }); });
      answer.on('error', fail);
    });
    const timer = setTimeout(() => request.destroy(new Error('timeout')), limitMs);
    request.on('error', fail);
    request.end(body);
  });
}

async function askFor(accepted, path, method, target, options) {
  const answer = await ask(path, method, target, options);
  if (accepted.includes(answer.status)) return answer;
  const said = JSON.parse(answer.body.toString() || '{}');
  throw new TenureError(answer.status, said.error ?? '?', said.detail);
}

/** Documents that only the leader can change.  put() has resolved: it is durable. */
export class State {
  #path; #headers;

  constructor(path, epoch) {
    this.#path = path;
    this.#headers = { 'Tenure-Epoch': String(epoch) };
  }

  #call(accepted, method, name, body) {
    const target = '/v1/state/' + name.split('/').map(encodeURIComponent).join('/');
    return askFor(accepted, this.#path, method, target, { body, headers: this.#headers });
  }

  /** A Buffer; undefined if there is no such document. */
  async get(name) {
    const answer = await this.#call([200, 404], 'GET', name);
    return answer.status === 200 ? answer.body : undefined;
  }

  async put(name, data) { await this.#call([200], 'PUT', name, data); }

  /** false: there was none. */
  async delete(name) { return (await this.#call([200, 404], 'DELETE', name)).status === 200; }

  /** The ids of its documents. */
  async list(collection) {
    return JSON.parse((await this.#call([200], 'GET', collection)).body.toString()).documents.map((d) => d.id);
  }
}

/* What is left is counted from before the request.  A refusal says nothing about the term. */
async function read(path, options) {
  const before = uptimeMs();
  const told = JSON.parse((await askFor([200], path, 'GET', '/v1/leadership', options)).body.toString());
  return { ...told, until: before + told.left_ms };
}

const wait = (path, spanMs, version, options) =>
  askFor([200, 304], path, 'GET', `/v1/leadership?wait=${spanMs / 1000}&since=${encodeURIComponent(version)}`, options);

class Term {
  #path; #until; #closed = new AbortController(); #ended = new AbortController();

  constructor(path, told) {
    this.#path = path;
    this.#until = told.until;
    this.epoch = told.epoch;
    this.lost = this.#ended.signal;
    this.state = new State(path, told.epoch);
    this.stop = () => this.#ended.abort();
    this.#watch(told.version);
  }

  /* The next reading of the file may be as late as this. */
  left() { return Math.max(0, this.#until - uptimeMs() - 10); }

  /** Ask right before what only a leader may do. */
  leads() { return this.left() > 0; }

  /** Ends the watch, not the term. */
  close() { this.#closed.abort(); this.stop(); }

  async #watch(version) {
    const { signal } = this.#closed;
    /* Refused, or tenure is gone: time decides. */
    const pause = () => sleep(Math.min(PAUSE_MS, this.left()), undefined, { signal }).catch(() => {});
    while (!signal.aborted && this.leads()) {
      const span = Math.max(LEAST_MS, Math.min(this.left() / 3, LONGEST_MS));
      const limitMs = Math.max(LEAST_MS, Math.min(span + 1000, this.left()));
      await wait(this.#path, span, version, { limitMs, signal }).catch(pause);
      if (!this.leads()) break;
      try {
        const seen = await read(this.#path, { limitMs: Math.max(LEAST_MS, this.left()), signal });
        version = seen.version;
        this.#until = seen.leading && seen.epoch === this.epoch ? seen.until : 0;
        if (seen.draining) this.stop(); // the term goes on for as long as there is time
      } catch {
        await pause();
      }
    }
    this.stop();
  }
}

/** Wait until this program leads.  A program without --warm leads from the start. */
export async function leadership(path = process.env.TENURE_SOCKET) {
  if (!path) throw new Error('TENURE_SOCKET is not set: start the program with `tenure run --state store -- ...`');
  for (;;) {
    const told = await read(path);
    if (told.leading && !told.draining) return new Term(path, told);
    await wait(path, LONGEST_MS, told.version, { limitMs: LONGEST_MS + 5000 }).catch(() => sleep(PAUSE_MS));
  }
}
