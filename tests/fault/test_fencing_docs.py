"""The predicates of docs/how-to/fencing.md, taken from the page and run; and the examples beside it."""

import http.server
import importlib.util
import pathlib
import re
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
import server_redis

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/how-to/fencing.md").read_text()


def examples(title):
    """The indented blocks below a heading."""
    part = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S).group(1)
    return [re.sub(r"^    ", "", block, flags=re.M).strip()
            for block in re.findall(r"(?:^    .*\n)+", part, re.M)]


def test_sql():
    write, seal = examples("SQL")
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, epoch INTEGER)")
    db.execute("INSERT INTO account VALUES (1, 100, 11)")
    assert db.execute(seal).rowcount == 1
    assert db.execute(seal).rowcount == 0
    assert db.execute(write.replace("12", "11").replace("70", "5")).rowcount == 0
    assert db.execute(write).rowcount == 1
    db.execute("UPDATE account SET epoch = 13")
    assert db.execute(write.replace("70", "6")).rowcount == 0
    assert db.execute("SELECT balance FROM account").fetchone() == (70,)


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_redis():
    script, = examples("Redis")
    with server_redis.Redis() as redis:
        def write(epoch, value):
            return redis.cmd("EVAL", script, 1, "doc", epoch, value)
        assert write(12, "a") == 1
        assert write(12, "b") == 1
        assert write(11, "stale") == 0
        assert write(0, "zero") == 0
        assert write("x", "text") == 0
        assert write(2**53 - 1, "last") == 1
        assert write(2**53 - 2, "stale") == 0
        assert redis.cmd("HGET", "doc", "value") == b"last"


# ---- Examples ---------------------------------------------------------------

ROOT = pathlib.Path(__file__).resolve().parents[2]


def put(port, epoch, body):
    headers = {} if epoch is None else {"Tenure-Epoch": epoch}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", body.encode(), headers,
                                     method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def get(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
        return answer.read().decode()


def test_http_service(build, tmp_path):
    """examples/guarded.c: refuses by the header, also after a restart."""
    def start():
        service = subprocess.Popen([build / "examples/guarded", tmp_path / "fence"],
                                   stdout=subprocess.PIPE, text=True)
        return service, int(service.stdout.readline())
    service, port = start()
    try:
        assert put(port, "12", "by twelve") == 204
        assert put(port, "11", "stale") == 409
        assert put(port, "0", "zero") == 400
        assert put(port, None, "nobody") == 400
        assert put(port, "13 " + "ab" * 16, "by thirteen") == 204
        assert put(port, "13 " + "cd" * 16, "by another thirteen") == 409
        assert get(port) == "by thirteen"
        service.kill()
        service.wait()
        service, port = start()
        assert put(port, "12", "stale") == 409
        assert put(port, "14", "by fourteen") == 204
        assert get(port) == "by fourteen"
    finally:
        service.kill()
        service.wait()


class Objects(http.server.BaseHTTPRequestHandler):
    """An object store that keeps its conditions, as S3 does: 412 if they do not hold."""

    held, lock, number = {}, threading.Lock(), [0]
    protocol_version = "HTTP/1.1"

    def reply(self, code, body=b"", etag=None):
        self.send_response(code)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with self.lock:
            etag, body = self.held.get(self.path, (None, b""))
        self.reply(200 if etag else 404, body, etag)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            etag = self.held.get(self.path, (None,))[0]
            if (self.headers["If-Match"] not in (None, etag)
                    or (self.headers["If-None-Match"] == "*" and etag)):
                return self.reply(412)
            self.number[0] += 1
            self.held[self.path] = (f'"{self.number[0]}"', body)
        return self.reply(200, etag=self.held[self.path][0])

    def log_message(self, *args):
        pass


def test_object_store():
    """examples/object_fence.py: also when the later leader comes between read and write."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/bucket/object"
    program = ROOT / "examples/object_fence.py"
    spec = importlib.util.spec_from_file_location("object_fence", program)
    fence = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fence)
    try:
        def run(epoch, value):
            return subprocess.run([program, url, str(epoch), value], timeout=60).returncode
        assert run(12, "by twelve") == 0
        assert run(11, "stale") == 3
        assert fence.fenced_write(url, 12, "stale", lambda: run(13, "by thirteen")) is False
        assert fence.read(url)[1] == {"epoch": 13, "value": "by thirteen"}
        with pytest.raises(ValueError):
            fence.fenced_write(url, 0, "zero")
    finally:
        server.shutdown()
        server.server_close()


def test_checkpoint_example(build, tmp_path):
    """examples/resume.c: the next one goes on from the last commit, the one before is fenced."""
    def run(*args):
        return subprocess.run([build / "examples/resume", f"file:{tmp_path}/store", *map(str, args)],
                              capture_output=True, text=True, timeout=60)
    assert run(25, 10).stdout == "from 0\ndurable 20\n"
    assert run(47).stdout == "from 20\ndurable 40\n"
    stale = run(99, 10)
    assert stale.returncode == 1 and "of this leader has ended" in stale.stderr
    assert run(40).stdout == "from 40\ndurable 40\n"
