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

/** An answer that is no success: status (HTTP) and word, which to branch on: 'fenced' (final), 'not-leader' ... */
export class TenureError extends Error {
  constructor(status, word, detail = '') {
    super(`${word} (${status}): ${detail}`);
    this.status = status;
    this.word = word;
  }
}

/* Rounded down, as the file is. */
const uptimeMs = () => Math.floor(Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]) * 1000);

function ask(path, method, target, { body, headers = {}, limitMs = LONGEST_MS } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath: path, method, path: target, headers, agent: false }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => { clearTimeout(timer); resolve({ status: answer.statusCode, body: Buffer.concat(parts) }); });
      answer.on('error', reject);
    });
    const timer = setTimeout(() => request.destroy(new Error('timeout')), limitMs);
    request.on('error', (error) => { clearTimeout(timer); reject(error); });
    request.end(body);
  });
}

/** Documents that only the leader can change.  put() has resolved: it is durable. */
export class State {
  #path; #headers;

  constructor(path, epoch) {
    this.#path = path;
    this.#headers = { 'Tenure-Epoch': String(epoch) };
  }

  async #call(method, name, body) {
    const target = '/v1/state/' + name.split('/').map(encodeURIComponent).join('/');
    const answer = await ask(this.#path, method, target, { body, headers: this.#headers });
    if (answer.status === 200 || answer.status === 404) return answer;
    const said = JSON.parse(answer.body.toString() || '{}');
    throw new TenureError(answer.status, said.error ?? '?', said.detail);
  }

  /** A Buffer; undefined if there is no such document. */
  async get(name) {
    const answer = await this.#call('GET', name);
    return answer.status === 200 ? answer.body : undefined;
  }

  async put(name, data) { await this.#call('PUT', name, data); }

  /** false: there was none. */
  async delete(name) { return (await this.#call('DELETE', name)).status === 200; }

  /** The ids of its documents. */
  async list(collection) {
    return JSON.parse((await this.#call('GET', collection)).body.toString()).documents.map((d) => d.id);
  }
}

/* What is left is counted from before the question. */
async function look(path, limitMs) {
  const before = uptimeMs();
  const told = JSON.parse((await ask(path, 'GET', '/v1/leadership', { limitMs })).body.toString());
  return { ...told, until: before + (told.left_ms ?? 0) };
}

const wait = (path, spanMs, limitMs, version) =>
  ask(path, 'GET', `/v1/leadership?wait=${spanMs / 1000}&since=${encodeURIComponent(version)}`, { limitMs });

class Term {
  #path; #until; #closed = false; #ended = new AbortController();

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
  close() { this.#closed = true; this.stop(); }

  async #watch(version) {
    while (!this.#closed && this.leads()) {
      const span = Math.max(LEAST_MS, Math.min(this.left() / 3, LONGEST_MS));
      try {
        await wait(this.#path, span, Math.max(LEAST_MS, Math.min(span + 1000, this.left())), version);
        const seen = await look(this.#path, Math.max(LEAST_MS, this.left()));
        if (!seen.leading || seen.epoch !== this.epoch) break;
        version = seen.version;
        this.#until = seen.until;
        if (seen.draining) this.stop(); // the term goes on for as long as there is time
      } catch { // tenure may be gone: time decides
        await sleep(Math.min(4 * LEAST_MS, this.left()));
      }
    }
    this.stop();
  }
}

/** Wait until this program leads.  A program without --warm leads from the start. */
export async function leadership(path = process.env.TENURE_SOCKET) {
  if (!path) throw new Error('TENURE_SOCKET is not set: start the program with `tenure run --state store -- ...`');
  for (;;) {
    const told = await look(path, LONGEST_MS);
    if (told.leading && !told.draining) return new Term(path, told);
    await wait(path, LONGEST_MS, LONGEST_MS + 5000, told.version);
  }
}
