"""HTTP over a Unix socket, as a supervised program speaks it."""

import http.client
import json
import socket


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.status, self.json()["error"]


def ask(path, method, target, body=None, headers=None):
    """One request on a connection of its own."""
    connection = UnixConnection(path)
    try:
        connection.request(method, target, body, headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()
