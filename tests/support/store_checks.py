"""What the tests of several server stores check alike, each on servers of its own."""

import http.server
import shutil
import threading

import pytest
from process import until
from tenure import Store, StoreError, Token, settled

BAD = ("unavailable", "timeout", "corrupt", "denied", "config", "unsupported", "invalid")


def refused(call, *args, secret=None, **named):
    """The error of a call, in one line and without the secret."""
    with pytest.raises(StoreError) as caught:
        call(*args, **named)
    assert "\n" not in caught.value.text
    assert secret is None or secret not in str(caught.value)
    return caught.value


# ---- Data that is put back ---------------------------------------------------------------------

def put_back(server, copy):
    """An older copy of its data takes the place of what it has."""
    server.kill()
    shutil.rmtree(server.data)
    copy.rename(server.data)
    server.start()
    until(server.healthy)


def change_after_put_back(store, base, lost, mark):
    """The version of the change that was lost comes again, its nonce does not; the new token."""
    assert settled(lambda: store.read("a/lease")).token == base
    assert store.wait([("a/lease", lost)]) and store.wait([("", mark)])
    kept = store.swap("a/lease", base, b"kept").token
    assert kept.version == lost.version and kept.nonce != lost.nonce
    assert store.swap("a/lease", lost).status == "conflict"
    # The number of the transaction may be the same again, too.
    assert store.wait([("a/lease", lost)]) and store.wait([("", mark)])
    return kept


# ---- A cluster ---------------------------------------------------------------------------------

def change_through_all(urls, rounds):
    """What is written through one member is read through the next."""
    stores = [Store(url) for url in urls]
    token = stores[0].swap("a/lease").token
    for number in range(rounds):
        writer, reader = stores[number % len(stores)], stores[(number + 1) % len(stores)]
        token = writer.swap("a/lease", token).token
        assert reader.read("a/lease").token == token
        assert dict(reader.list("")[0])["a/lease"].token == token
    for store in stores:
        store.close()


def change_without(end_leader, store, other):
    """Every swap either took effect, or its nonce never shows."""
    token = store.swap("a/lease").token
    mine = set()
    assert not other.wait([("a/lease", token)], timeout=0.01)
    end_leader()

    def attempt():
        nonlocal token
        found = store.read("a/lease")
        assert found.token.nonce == token.nonce or found.token.nonce in mine
        answer = store.swap("a/lease", found.token)
        mine.add(answer.nonce)
        if answer.status == "ok":
            token = answer.token
        return answer

    until(lambda: settled(attempt).status == "ok")
    assert settled(lambda: other.read("a/lease")).token == token
    return token


# ---- Hostile servers ---------------------------------------------------------------------------

class Hostile:
    """Answers the first requests well, with `good`, so that it can be opened, and every later one with `answer`."""

    def __init__(self, scheme, answer, good, first=1, headers=()):
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer_request(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked.append(self.path)
                code, body = (200, good) if len(asked) <= first else answer
                self.send_response(code)
                for name, value in (("Content-Length", str(len(body))), ("Location", "http://127.0.0.1:1/"), *headers):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = answer_request

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def judge_hostile(store, is_absent, secret):
    """Nonsense is told as such: never as absence, unless it says so, never as success, and nothing crashes."""
    if is_absent:
        assert not store.read("a", timeout=2).token
    else:
        assert refused(store.read, "a", timeout=2, secret=secret).status in BAD
    seen = Token()
    seen._version, seen._nonce[0] = b"3", 1
    for expect in (None, seen):
        assert store.swap("a", expect, timeout=2).status in (*BAD, "unknown", "conflict")
    done = store.swap_many([("a", None, b""), ("b", seen, b"")], timeout=2)[1]
    assert all(a.status in (*BAD, "unknown", "conflict") for a in done.values())
    for call in (lambda: store.list("", timeout=0.3), lambda: store.wait([("a", seen)], timeout=0.3)):
        try:
            call()
        except StoreError as error:
            assert error.status in BAD
