"""`tenure run --listen`, and ways to ask it."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

from process import until

BUILD = pathlib.Path(os.environ.get("TENURE_BUILD",
                                    pathlib.Path(__file__).resolve().parents[2] / "build"))
TENURE = BUILD / "tenure"
TOKEN = "canary-token-4f2a9c17e0"


def put_secret(path, text, mode=0o600):
    """In one step, so that nobody sees half of it."""
    fresh = pathlib.Path(f"{path}.new")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.rename(path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    text = property(lambda self: self.body.decode())

    def json(self):
        return json.loads(self.body)


class Agent:
    """One candidate that listens on a port of its own."""

    def __init__(self, folder, store, ident, *options, name="web", ttl="15s", program=None,
                 token=True, listen="127.0.0.1:0"):
        self.folder = pathlib.Path(folder)
        token_file = self.folder / "token"
        if not token_file.exists():
            put_secret(token_file, TOKEN + "\n")
        self.log = open(tempfile.mkstemp(dir=folder, suffix=".log")[1], "r+b")
        command = [TENURE, "run", "--name", name, "--store", store, "--id", ident, "--ttl", ttl,
                   "--log", "json", "--listen", listen]
        command += ["--token-file", str(token_file)] if token else []
        self.process = subprocess.Popen(
            [*command, *options, "--", *(program or ["sleep", "600"])], stdin=subprocess.DEVNULL,
            stderr=self.log)
        self.port = int(until(self._port))

    def _port(self):
        assert self.process.poll() is None, self.words()
        found = re.search(r"\(port (\d+)\)", self.words())
        return found and found.group(1)

    def words(self):
        return pathlib.Path(self.log.name).read_text()

    def events(self):
        """The lines so far; the last one may not be whole yet."""
        return [json.loads(line) for line in self.words().split("\n")[:-1] if line.startswith("{")]

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, path, method="GET", body=None, token=None, **headers):
        connection = self.connect()
        if token:
            headers["Authorization"] = "Bearer " + token
        try:
            connection.request(method, path, body,
                               {name.replace("_", "-"): value for name, value in headers.items()})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def order(self, path, body=None, method="POST"):
        return self.ask(path, method, json.dumps(body) if body is not None else None, TOKEN)

    def hand_over(self, path, to):
        """Asked again while the other one has not answered in time: then nothing has happened."""
        return until(lambda: (answer := self.order(path, {"to": to})).status != 503 and answer)

    def status(self, number=0):
        return self.ask("/_ha/status").json()["elections"][number]

    def leads(self):
        until(lambda: self.ask("/readyz").status == 200)
        return self

    def waits(self):
        until(lambda: self.status()["role"] == "standby" and self.status()["leader"])
        return self

    def end(self, sign=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sign)
        code = self.process.wait(60)
        assert "Sanitizer" not in self.words(), self.words()
        self.log.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()
        elif not self.log.closed:
            self.log.close()
