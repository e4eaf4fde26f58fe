"""A real Azurite, which scripts/npm-server installs, and a small client for what tests do to it."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import pathlib
import re
import subprocess
import urllib.parse

from process import Daemon, free_port, until

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _installed():
    """(the program, why it is missing)."""
    done = subprocess.run([str(ROOT / "scripts/npm-server"), "--check", "azurite"], capture_output=True, text=True)
    return (done.stdout.strip(), None) if done.returncode == 0 else (
        None, "no Azurite in the cache: run scripts/npm-server azurite (a minute, once)")


AZURITE, MISSING = _installed()
CONTAINER, ACCOUNT = "leases", "tester"


def account_key(word):
    return base64.b64encode(hashlib.sha256(word.encode()).digest()).decode()


class Client:
    """Requests to Blob Storage, signed with the account's key."""

    def __init__(self, port, key=account_key("one")):
        self.port, self.key = port, key

    def call(self, method, path, body=b"", query=()):
        """(status, body)."""
        query, path = dict(query), urllib.parse.quote(f"/{ACCOUNT}/{path}")
        headers = {"x-ms-date": datetime.datetime.utcnow().strftime("%a, %d %b %Y %H:%M:%S GMT"),
                   "x-ms-version": "2021-08-06"}
        if method == "PUT" and "restype" not in query:
            headers["x-ms-blob-type"] = "BlockBlob"
        signed = "\n".join([method, "", "", str(len(body) or ""), *[""] * 8,
                            *(f"{name}:{headers[name]}" for name in sorted(headers)),
                            f"/{ACCOUNT}{path}", *(f"{name}:{query[name]}" for name in sorted(query))])
        mac = hmac.new(base64.b64decode(self.key), signed.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path + ("?" + urllib.parse.urlencode(query) if query else ""), body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def get(self, name):
        """What a blob holds, or None."""
        status, body = self.call("GET", f"{CONTAINER}/{name}")
        assert status in (200, 404), body
        return body if status == 200 else None

    def put(self, name, value):
        status, body = self.call("PUT", f"{CONTAINER}/{name}", value)
        assert status == 201, body

    def delete(self, name):
        status, body = self.call("DELETE", f"{CONTAINER}/{name}")
        assert status == 202, body

    def names(self, prefix=""):
        names, marker = [], ""
        while True:
            query = {"restype": "container", "comp": "list", "prefix": prefix, **({"marker": marker} if marker else {})}
            status, body = self.call("GET", CONTAINER, query=query)
            assert status == 200, body
            names += [name.decode() for name in re.findall(rb"<Name>([^<]*)</Name>", body)]
            more = re.search(rb"<NextMarker>([^<]+)</NextMarker>", body)
            if not more:
                return names
            marker = more.group(1).decode()

    def make_container(self):
        status, body = self.call("PUT", CONTAINER, query={"restype": "container"})
        assert status in (201, 409), body


class Azurite(Daemon, Client):
    """One server on one disk, with one account."""

    def __init__(self):
        Daemon.__init__(self, "azurite")
        Client.__init__(self, free_port())
        try:
            self.start()
            until(self.healthy)
            self.make_container()
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.spawn([AZURITE, "--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1",
                    "--blobPort", str(self.port), "--location", str(self.dir / "data")],
                   env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self.dir),
                        "AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"})

    def healthy(self):
        assert self.alive(), self.log()[-3000:]
        with contextlib.suppress(OSError):
            return self.call("GET", "", query={"comp": "list"})[0] == 200

    def url(self, query="", port=None, file=None):
        """file: with the account's key; else it is in AZURITE_KEY."""
        secret = f"password_file={file}" if file else "password_env=AZURITE_KEY"
        return (f"azblob://{CONTAINER}?endpoint=http://127.0.0.1:{port or self.port}&account={ACCOUNT}&{secret}"
                f"&poll=100ms{query}")
