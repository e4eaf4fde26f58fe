"""A real MinIO, which scripts/go-server builds, and a small S3 client for what tests do to it."""

import contextlib
import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.parse
import uuid

from process import Daemon, free_port, until

ROOT = pathlib.Path(__file__).resolve().parents[2]


def built(name):
    """(the program, why it is missing)."""
    done = subprocess.run([str(ROOT / "scripts/go-server"), "--check", name], capture_output=True, text=True)
    return (pathlib.Path(done.stdout.strip()), None) if done.returncode == 0 else (
        None, f"no {name} in the cache: run scripts/go-server {name} (4 minutes, once)")


MINIO, MISSING = built("minio")
USER, BUCKET = "tester", "leases"


class S3Error(AssertionError):
    pass


class Client:
    """Requests to an S3 server, signed."""

    def __init__(self, port, user=USER, password="password-one"):
        self.port, self.user, self.password = port, user, password

    def call(self, method, path, body=b"", query="", headers=()):
        """(status, body, headers)."""
        now = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        host = f"127.0.0.1:{self.port}"
        path = urllib.parse.quote(path)
        signed = "host;x-amz-content-sha256;x-amz-date"
        request = "\n".join([method, path, query, f"host:{host}", f"x-amz-content-sha256:{digest}",
                             f"x-amz-date:{now}", "", signed, digest])
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + self.password).encode()
        for part in (now[:8], "us-east-1", "s3", "aws4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path + ("?" + query if query else ""), body or None, {
                "Host": host, "x-amz-content-sha256": digest, "x-amz-date": now, **dict(headers),
                "Authorization": f"AWS4-HMAC-SHA256 Credential={self.user}/{scope}, "
                                 f"SignedHeaders={signed}, Signature={key.hex()}"})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def do(self, *args, **named):
        status, body, headers = self.call(*args, **named)
        if status not in (200, 204):
            raise S3Error(f"{args[:2]}: {status} {body[:300]}")
        return body, headers

    def get(self, name):
        """What an object holds, or None."""
        status, body, _ = self.call("GET", f"/{BUCKET}/{name}")
        assert status in (200, 404), body
        return body if status == 200 else None

    def put(self, name, value, **headers):
        return self.do("PUT", f"/{BUCKET}/{name}", value, headers=headers.items())

    def delete(self, name):
        self.do("DELETE", f"/{BUCKET}/{name}")

    def names(self, prefix=""):
        names, after = [], ""
        while True:
            query = "list-type=2&prefix=" + urllib.parse.quote(prefix, safe="")
            if after:
                query += "&start-after=" + urllib.parse.quote(after, safe="")
            found = re.findall(rb"<Key>([^<]*)</Key>", self.do("GET", f"/{BUCKET}", query=query)[0])
            names += [name.decode() for name in found]
            if len(found) < 1000:
                return names
            after = names[-1]

    def make_bucket(self):
        status, body, _ = self.call("PUT", f"/{BUCKET}")
        assert status in (200, 409), body


class Minio(Daemon, Client):
    """One server on one disk.  authorizer: whom it asks who may do what."""

    def __init__(self, data=None):
        Daemon.__init__(self, "minio")
        Client.__init__(self, free_port())
        self.data = pathlib.Path(data or self.dir / "data")
        self.authorizer = None
        self.data.mkdir(exist_ok=True)
        try:
            self.start()
            self.ready()
        except BaseException:
            self.stop()
            raise

    def start(self):
        more = {"MINIO_POLICY_PLUGIN_URL": self.authorizer.url} if self.authorizer else {}
        self.spawn([str(MINIO), "server", str(self.data), "--address", f"127.0.0.1:{self.port}",
                    "--quiet"],
                   env={"PATH": "/usr/bin:/bin", "HOME": str(self.dir), "MINIO_CI_CD": "1",
                        "MINIO_BROWSER": "off", "MINIO_UPDATE": "off", "GOGC": "200",
                        "MINIO_ROOT_USER": self.user, "MINIO_ROOT_PASSWORD": self.password, **more})

    def healthy(self):
        assert self.alive(), self.log()[-3000:]
        with contextlib.suppress(OSError):
            return self.call("GET", "/minio/health/ready")[0] == 200

    def ready(self):
        until(self.healthy)
        until(lambda: self.call("PUT", f"/{BUCKET}")[0] in (200, 409, 403))
        # At first nobody is asked: everything is allowed for a moment after it says that it is ready.
        if self.authorizer:
            name = f"asked/{uuid.uuid4()}"
            until(lambda: self.call("GET", f"/{BUCKET}/{name}") and name in self.authorizer.names)

    def restart(self):
        self.kill()
        self.start()
        self.ready()

    def url(self, query="", port=None, file=None):
        """file: with the password; else it is in PASSWORD."""
        secret = f"password_file={file}" if file else "password_env=MINIO_PASSWORD"
        return (f"s3://{BUCKET}?endpoint=http://127.0.0.1:{port or self.port}&user={self.user}&{secret}"
                f"&poll=100ms{query}")


class Server(http.server.ThreadingHTTPServer):
    """For what a test answers itself.  Many may come at once: who finds no place waits for a second."""
    daemon_threads, request_queue_size = True, 128

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class Authorizer:
    """What MinIO asks, of everybody and everything, whether it may be done; refused: actions that may not."""

    def __init__(self):
        self.refused, self.names = (), set()  # names: of the objects that it was asked about
        authorizer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                asked = asked.get("input", {})
                authorizer.names.add(asked.get("object"))
                answer = json.dumps({"result": asked.get("action") not in authorizer.refused}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.server = Server(Handler)
        self.url = f"http://127.0.0.1:{self.server.port}/"

    def close(self):
        self.server.close()
