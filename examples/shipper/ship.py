#!/usr/bin/python3
"""Ships the lines of a growing file to another one, from where the last leader left off.

    tenure run --name shipper --state store -- ./ship.py SOURCE SINK

The place in the source is a document of the state: only the leader can move it.  Lines are sent
first and the place is moved afterwards, so a crash in between sends some of them twice and none
never.
"""
import http.client
import os
import socket
import sys
import time


class State(http.client.HTTPConnection):
    """HTTP over the Unix socket that tenure gave us."""

    def __init__(self):
        super().__init__("localhost")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["TENURE_SOCKET"])

    def ask(self, method, path, body=None):
        self.request(method, path, body)
        answer = self.getresponse()
        return answer.status, answer.read()


def main(source_path, sink_path):
    state = State()
    status, body = state.ask("GET", "/v1/state/shipper/place")
    if status not in (200, 404):
        sys.exit(f"ship: cannot load the place: {body.decode()}")
    place = int(body) if status == 200 else 0
    source = open(source_path, "rb")
    sink = os.open(sink_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(sink, b"\n")  # whatever an earlier one left half written ends here
    while True:
        source.seek(place)
        lines = source.read(4096)
        lines = lines[:lines.rfind(b"\n") + 1]  # whole ones only
        if not lines:
            time.sleep(0.01)
            continue
        if os.write(sink, lines) != len(lines):
            sys.exit("ship: the sink is full")
        os.fsync(sink)
        place += len(lines)
        status, body = state.ask("PUT", "/v1/state/shipper/place", str(place))
        while status == 503:  # nobody knows, or not now: the same again is harmless
            time.sleep(0.1)
            status, body = state.ask("PUT", "/v1/state/shipper/place", str(place))
        if status != 200:
            sys.exit(f"ship: {body.decode()}")  # fenced: somebody else goes on from here


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
