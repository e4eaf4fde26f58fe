"""Am I the leader?  For a program that `tenure run --state ...` has started.  Standard library only; copy the file.

    import signal, tenure

    with tenure.leadership() as term:          # waits until this program leads
        signal.signal(signal.SIGTERM, term.stop)
        position = int(term.state.get("work/position") or 0)
        while not term.lost.wait(1):
            position += 1
            term.state.put("work/position", str(position))

term.epoch   carries the fence: pass it to whatever else the work writes to
term.lost    a threading.Event: stop now (the lease is lost, or leadership is being given up)
term.left()  seconds until the work must have ended; 0.0 after that.  What was left is counted from BEFORE each
             request, on CLOCK_BOOTTIME, which goes on while the machine sleeps: it is never too long
term.state   get, put and delete of documents "COLLECTION/ID", each under this term's epoch, and list of a collection
"""

import http.client
import json
import os
import socket
import threading
import time
import urllib.parse

WAIT_S = 10.0  # a long poll lasts so long at most
LEAST_S = 0.05
PAUSE_S = 0.2  # after a request that failed


class Error(Exception):
    """An answer that is no success: status (HTTP) and error, the word to branch on."""

    def __init__(self, status, error, detail=""):
        super().__init__(f"{error} ({status}): {detail}")
        self.status, self.error = status, error


class Fenced(Error):
    """Another term has begun: nothing was changed.  Final; stop."""


class NotLeader(Error):
    """The term is over: nothing was changed."""


FAILURES = (OSError, http.client.HTTPException, ValueError, KeyError, Error)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("tenure", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _ask(path, method, target, body=None, epoch=None, timeout=WAIT_S, accept=(200,)):
    """The status, if it is one of those, and the body."""
    connection = _Connection(path, timeout)
    try:
        connection.request(method, target, body, {"Tenure-Epoch": str(epoch)} if epoch else {})
        answer = connection.getresponse()
        status, text = answer.status, answer.read()
    finally:
        connection.close()
    if status in accept:
        return status, text
    said = {"error": "?", **json.loads(text or b"{}")}
    kind = {"fenced": Fenced, "not-leader": NotLeader}.get(said["error"], Error)
    raise kind(status, said["error"], said.get("detail", ""))


def _read(path, timeout=WAIT_S):
    """What is left is counted from before the request.  A refusal says nothing about the term."""
    before = _now()
    told = json.loads(_ask(path, "GET", "/v1/leadership", timeout=timeout)[1])
    return {**told, "until": before + told["left_ms"] / 1000}


def _wait(path, version, span, timeout):
    target = f"/v1/leadership?wait={span:.3f}&since={urllib.parse.quote(version)}"
    _ask(path, "GET", target, timeout=timeout, accept=(200, 304))


class State:
    """Documents that only the leader can change.  A put has returned: it is durable."""

    def __init__(self, path, epoch):
        self._path, self._epoch = path, epoch

    def _call(self, method, name, body=None, accept=(200,)):
        return _ask(self._path, method, "/v1/state/" + urllib.parse.quote(name), body, self._epoch, accept=accept)

    def get(self, name):
        """The bytes of a document; None if there is none."""
        status, body = self._call("GET", name, accept=(200, 404))
        return body if status == 200 else None

    def put(self, name, data):
        self._call("PUT", name, data.encode() if isinstance(data, str) else data)

    def delete(self, name):
        """False: there was none."""
        return self._call("DELETE", name, accept=(200, 404))[0] == 200

    def list(self, collection):
        """The ids of its documents."""
        return [d["id"] for d in json.loads(self._call("GET", collection)[1])["documents"]]


class Term:
    """One term of this program.  As a context manager it is over at the end of the block."""

    def __init__(self, path, told):
        self._path, self._version, self._until = path, told["version"], told["until"]
        self._closed = threading.Event()
        self.epoch = told["epoch"]
        self.lost = threading.Event()
        self.state = State(path, self.epoch)
        self._thread = threading.Thread(target=self._watch, name="tenure", daemon=True)
        self._thread.start()

    def left(self):
        return max(0.0, self._until - _now())

    def leads(self):
        """Ask right before what only a leader may do."""
        return self.left() > 0

    def stop(self, *_):
        """Sets lost; also for signal.signal()."""
        self.lost.set()

    def _poll(self):
        span = max(LEAST_S, min(self.left() / 3, WAIT_S))
        _wait(self._path, self._version, span, max(LEAST_S, min(span + 1, self.left())))

    def _renew(self):
        """A drain sets lost; the term goes on."""
        told = _read(self._path, max(LEAST_S, self.left()))
        mine = told["leading"] and told["epoch"] == self.epoch
        self._version, self._until = told["version"], told["until"] if mine else 0.0
        if told["draining"]:
            self.lost.set()

    def _watch(self):
        while not self._closed.is_set() and self.leads():
            for step in (self._poll, self._renew):
                try:
                    if self.leads():
                        step()
                except FAILURES:  # refused, or tenure is gone: time decides
                    self._closed.wait(min(PAUSE_S, self.left()))
        self.lost.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._closed.set()
        self.lost.set()


def leadership(path=None):
    """Wait until this program leads, and return its Term.  A program without --warm leads from the start."""
    path = path or os.environ.get("TENURE_SOCKET")
    if not path:
        raise RuntimeError("TENURE_SOCKET is not set: start the program with `tenure run --state store -- ...`")
    while True:
        told = _read(path)
        if told["leading"] and not told["draining"]:
            return Term(path, told)
        try:
            _wait(path, told["version"], WAIT_S, WAIT_S + 5)
        except FAILURES:
            time.sleep(PAUSE_S)
