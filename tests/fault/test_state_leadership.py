"""TENURE_SOCKET: a program is told at once that it leads, is to stop, or leads no more."""

import json
import signal
import threading

import pytest
from test_state_socket import Leader
from unix_http import UnixConnection

# It goes on, however it is asked to stop, until somebody allows it to end.
STUBBORN = ('trap "" TERM; printf "%s\\n" "$TENURE_SOCKET" "$TENURE_EPOCH" $$ >"$1.new"; mv "$1.new" "$1"; '
            'until [ -e "$1.end" ]; do sleep 0.05; done')


@pytest.fixture
def leader(tmp_path, monkeypatch):
    monkeypatch.setattr("test_state_socket.HOLD", STUBBORN)
    with Leader(tmp_path, f"sqlite:{tmp_path}/db", "--state", "store", "--grace", "25s", ttl="60s") as one:
        yield one.leads()
        one.note.with_name(one.note.name + ".end").touch()


class Stream:
    def __init__(self, path):
        self.connection = UnixConnection(path)
        self.connection.request("GET", "/v1/leadership?stream=1")
        self.response = self.connection.getresponse()

    def event(self):
        """The next one."""
        kind = None
        while line := self.response.readline():
            if line.startswith(b"event: "):
                kind = line[7:].strip()
            elif line.startswith(b"data: "):
                assert kind == b"leadership"
                return json.loads(line[6:])
        raise AssertionError("the stream ended")


def test_a_drain_is_pushed(leader):
    """To a stream, and to who waits; what is left of the term can still be used."""
    stream = Stream(leader.path)
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    first = stream.event()
    assert first["leading"] and not first["draining"] and str(first["epoch"]) == leader.epoch
    assert 0 < first["left_ms"] < 60000 and first["name"] == "app"
    tag = leader.ask("GET", "/v1/leadership").headers["ETag"]
    found = []
    waiting = threading.Thread(target=lambda: found.append(
        leader.ask("GET", f"/v1/leadership?wait=300&since={tag}")))
    waiting.start()
    leader.process.send_signal(signal.SIGTERM)
    told = stream.event()
    while not told["draining"]:
        told = stream.event()
    assert told["leading"] and told["left_ms"] > 0
    waiting.join(60)
    assert found[0].json()["draining"] and found[0].headers["ETag"] != tag
    assert leader.ask("PUT", "/v1/state/jobs/last", b"x").status == 200


def test_a_stream_goes_on(leader):
    """What is left of the term is told again and again, though nothing changes."""
    stream = Stream(leader.path)
    versions = {stream.event()["version"] for _ in range(3)}
    assert len(versions) == 1


def test_a_wait_in_vain(leader):
    answer = leader.ask("GET", "/v1/leadership")
    assert answer.headers["ETag"] == f'"{answer.json()["version"]}"'
    for tag in (answer.headers["ETag"], answer.json()["version"]):
        assert leader.ask("GET", f"/v1/leadership?wait=0.2&since={tag}").status == 304
    assert leader.ask("GET", "/v1/leadership?wait=300&since=other").status == 200
    assert leader.ask("GET", "/v1/leadership?wait=300").status == 200


@pytest.mark.parametrize("target, known", [
    ("/v1/leadership?wiat=1", "known: name, wait, since, stream"), ("/v1/leadership?wait=soon", "seconds"),
    ("/v1/state/jobs/a?x=1", "known: name"), ("/v1/leadership?name=other", "another election")])
def test_what_is_unknown_is_refused(leader, target, known):
    answer = leader.ask("GET", target)
    assert answer.error() == (400, "invalid") and known in answer.json()["detail"]


def test_a_loss_is_pushed(tmp_path):
    """The store is gone: leadership ends, and the stream tells it though the program is dead by then."""
    with Leader(tmp_path, f"file:{tmp_path}/store", "--state", f"sqlite:{tmp_path}/db", ttl="4s") as one:
        one.leads()
        stream = Stream(one.path)
        assert stream.event()["leading"]
        (tmp_path / "store").rename(tmp_path / "gone")
        while stream.event()["leading"]:
            pass
        assert stream.event()["left_ms"] == 0
        (tmp_path / "gone").rename(tmp_path / "store")
