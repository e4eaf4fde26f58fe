#!/usr/bin/env python3
"""Many jobs in one process; standard library only.

    tenure jobs add --group feeds feed-1 feed-2 feed-3
    tenure work --group feeds --one-program -- examples/many_jobs.py

tenure runs this program once for each worker, and says over TENURE_SOCKET which jobs it has.  Each job counts, and goes
on where its last run stopped, wherever that was.  The rules:

 - assigned: begin, with the checkpoint of the last run
 - revoked:  end by the deadline, then say so with the epoch of the run; a program that does not is killed
 - every checkpoint carries the epoch of the run; 409 or "fenced": that run is over, and nothing was stored
"""

import http.client
import json
import os
import queue
import signal
import socket
import sys
import threading

SLICE = 1000  # commits in a request; tenure takes 10,000, and 16 MiB


class Connection(http.client.HTTPConnection):
    """To TENURE_SOCKET."""

    def __init__(self):
        super().__init__("tenure")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["TENURE_SOCKET"])


def read_events(put):
    """Each event as (name, data).  A stream that fell behind is ended: the next one begins with all jobs."""
    while True:
        connection = Connection()
        connection.request("GET", "/v1/jobs?stream=1")
        name = None
        for line in connection.getresponse():
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                put((name, json.loads(value)))
        connection.close()


def read_results(answer):
    """What became of each commit.  None: the request was refused as a whole."""
    try:
        return json.loads(answer).get("results")
    except ValueError:
        return None


class Job:
    def __init__(self, name, epoch, spec, checkpoint):
        self.name, self.epoch, self.spec = name, epoch, spec
        self.count = int(checkpoint or 0)

    def step(self):
        """The work; what is returned is stored."""
        return str(self.count + 1)

    def stored(self, checkpoint):
        self.count = int(checkpoint)

    def end(self):
        """After this it does nothing any more."""


class Worker:
    def __init__(self, make=Job, pause=0.2):
        self.make, self.pause = make, pause
        self.jobs = {}
        self.events = queue.SimpleQueue()  # put() is safe in a signal handler
        self.connection = Connection()

    def ask(self, method, path, body=None, epoch=None):
        headers = {"Tenure-Epoch": str(epoch)} if epoch else {}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def begin(self, name, epoch, spec):
        status, checkpoint = self.ask("GET", f"/v1/jobs/{name}/checkpoint", epoch=epoch)
        if status in (200, 404):  # 409: it is over already
            self.jobs[name] = self.make(name, epoch, spec, checkpoint if status == 200 else None)

    def end(self, name, epoch):
        job = self.jobs.get(name)
        if job and job.epoch == epoch:
            self.jobs.pop(name).end()
        self.ask("POST", f"/v1/jobs/{name}/stopped", epoch=epoch)

    def see(self, job):
        """A job as the list and the events show it."""
        known = self.jobs.get(job["id"])
        if job["state"] == "revoked":
            self.end(job["id"], job["epoch"])
        elif not known or known.epoch != job["epoch"]:
            self.begin(job["id"], job["epoch"], job.get("spec"))

    def handle(self, event, data):
        if event == "stop":
            for job in list(self.jobs.values()):
                self.end(job.name, job.epoch)
            sys.exit(0)
        for job in data["jobs"] if event == "jobs" else [data] if event in ("assigned", "revoked") else []:
            self.see(job)

    def step(self):
        """All jobs a step further, and their checkpoints in few requests: as few writes as the store allows."""
        commits = [(job, job.step()) for job in self.jobs.values()]
        for i in range(0, len(commits), SLICE):
            self.commit(commits[i:i + SLICE])

    def commit(self, commits):
        body = {"commits": [{"id": job.name, "epoch": job.epoch, "data": data} for job, data in commits]}
        status, answer = self.ask("POST", "/v1/jobs", json.dumps(body))
        results = read_results(answer)
        if results is None:  # none is known to be stored: the next step tries again
            print(f"{len(commits)} checkpoints: answered {status}: {answer[:200]}", file=sys.stderr, flush=True)
            return
        for (job, data), result in zip(commits, results):
            if result["status"] == "ok":
                job.stored(data)
            else:  # it may be another worker's, or what was stored is not known: begin again
                self.end(job.name, job.epoch)

    def run(self):
        def read():
            try:
                read_events(self.events.put)
            except Exception as error:  # without tenure there is nothing to work for
                self.events.put(("stop", {"why": str(error)}))

        signal.signal(signal.SIGTERM, lambda *_: self.events.put(("stop", {})))
        threading.Thread(target=read, daemon=True).start()
        while True:
            try:
                self.handle(*self.events.get(timeout=self.pause))
            except queue.Empty:
                self.step()


if __name__ == "__main__":
    Worker().run()
