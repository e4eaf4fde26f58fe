"""What only ZooKeeper can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import contextlib
import shutil
import socket
import struct
import threading

import pytest
import server_zookeeper
from process import free_port, until
from proxy import Proxy
from server_zookeeper import Ensemble, ZooKeeper
from store_checks import change_after_put_back, change_through_all, change_without, put_back, refused
from tenure import Store, settled

pytestmark = pytest.mark.skipif(server_zookeeper.MISSING is not None,
                                reason=str(server_zookeeper.MISSING))

NODE = "/tenure/a/lease#"


# ---- One server --------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def shared():
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def server(shared):
    shared.delete("/tenure")
    return shared


def test_node_that_was_made_again_repeats_versions_but_not_nonces(server):
    with Store(server.url()) as store, Store(server.url()) as other:
        lost = store.swap("a/lease", store.swap("a/lease").token, b"lost").token
        server.delete(NODE)
        assert store.wait([("a/lease", lost)])
        found = other.swap("a/lease", other.swap("a/lease").token, b"found").token
        assert found.version == lost.version and found.nonce != lost.nonce
        assert store.swap("a/lease", lost).status == "conflict"
        assert store.wait([("a/lease", lost)])
        assert store.read("a/lease").token == found


def test_data_restored_repeats_versions_but_not_nonces():
    with ZooKeeper() as own, Store(own.url()) as store:
        base = store.swap("a/lease", None, b"base").token
        copy = own.dir / "copy"
        shutil.copytree(own.data, copy)
        lost = store.swap("a/lease", base, b"lost").token
        mark = store.list("")[1]
        put_back(own, copy)
        change_after_put_back(store, base, lost, mark)


def test_child_of_another_name_is_told_and_repaired(server):
    """Written by hand, from an older copy perhaps: no reader sees it, but nobody could replace it."""
    with Store(server.url()) as store, Store(server.url("?repair=yes")) as repairer:
        token = store.swap("a/lease", None, b"x").token
        (child,) = server.tree(NODE)[1:]
        server.delete(child)
        server.put(f"{NODE}/{'1' * 32}", b"")
        answer = store.swap("a/lease", token, b"y")
        assert answer.status == "corrupt" and NODE in answer.text
        damaged = repairer.read("a/lease")
        assert damaged.token.version.startswith("damaged.") and b"1" * 32 in damaged.data
        assert repairer.swap("a/lease", damaged.token, b"z").status == "ok"
        assert store.swap("a/lease", store.read("a/lease").token, b"!").status == "ok"


def test_largest_value_fits(server):
    with Store(server.url()) as store:
        most = store.info().data_max
        deep = "/".join(["d" * 60] * 4)
        token = store.swap(deep, None, b"x" * most).token
        assert store.swap(deep, token, b"y" * most).status == "ok"
        assert store.read(deep).data == b"y" * most


def test_others_beside_us_are_passed_over(server):
    with Store(server.url()) as store:
        store.swap("a/lease")
        for path in ("/tenure/.hidden#", "/tenure/a/not a key#", "/tenure/a/folder", "/tenure/é#", "/tenure/#",
                     "/tenure/a/#"):
            server.put(path, b"something")
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]


def test_server_that_hangs_is_left_after_a_change(server):
    with Proxy(("127.0.0.1", server.port)) as hangs, \
            Store(f"zookeeper://127.0.0.1:{hangs.port},127.0.0.1:{server.port}") as store:
        token = store.swap("a/lease").token
        hangs.hold("up", "down")
        assert store.swap("a/lease", token, timeout=0.5).status == "unknown"
        asked = hangs.trips
        assert store.swap("a/lease", token).status == "ok"
        assert hangs.trips == asked


# ---- A server that is none ---------------------------------------------------------------------

CLOSE, GET, CHILDREN = -11, 4, 8


class Pretender:
    """Begins sessions and answers barriers; then it hangs, or says what it is told to: {operation: bytes}."""

    def __init__(self):
        self.answers = {}
        self.hangs = False
        self.asked = []
        self.ended = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client, client.makefile("rwb") as pipe:
            def receive():
                return pipe.read(struct.unpack(">i", pipe.read(4).ljust(4, b"\0"))[0])

            def send(data):
                pipe.write(struct.pack(">i", len(data)) + data)
                pipe.flush()

            receive()
            send(struct.pack(">iiqi16sB", 0, 10000, 1, 16, b"", 0))
            while request := receive():
                xid, operation = struct.unpack(">ii", request[:8])
                self.asked.append(operation)
                if not self.hangs:
                    barrier = struct.pack(">iBiiBi", 13, 0, 0, -1, 1, -1)
                    send(struct.pack(">iqi", xid, 1, 0) + self.answers.get(operation, barrier))
        self.ended += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def test_server_that_hangs_is_not_asked_to_end_the_session():
    """The library would wait for its answer, behind the deadline of the call."""
    with Pretender() as server, Store(f"zookeeper://127.0.0.1:{server.port}") as store:
        server.hangs = True
        assert store.swap("a/lease", timeout=0.5).status == "unknown"
        until(lambda: server.ended)
        assert CLOSE not in server.asked


def test_session_is_ended_with_the_handle():
    with Pretender() as server:
        Store(f"zookeeper://127.0.0.1:{server.port}").close()
        until(lambda: server.ended)
        assert server.asked[-1] == CLOSE


@pytest.mark.parametrize("call, answers", [
    ("read", {GET: struct.pack(">i", -2)}),
    ("list", {GET: struct.pack(">i68x", -1), CHILDREN: struct.pack(">i", 5)}),
])
def test_answer_that_cannot_be_read(call, answers):
    with Pretender() as server, Store(f"zookeeper://127.0.0.1:{server.port}") as store:
        server.answers = answers
        error = refused(getattr(store, call), "a/lease")
        assert error.status == "unavailable" and "cannot be read" in error.text


# ---- An ensemble -------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def members():
    with Ensemble() as servers:
        yield servers


@pytest.fixture
def ensemble(members):
    for member in members.members:
        until(member.healthy)
    return members


def test_reads_show_what_was_written_through_another_member(ensemble):
    """Each server answers reads from its own memory, which may lag."""
    change_through_all([member.url("/shown") for member in ensemble.members], 60)


@pytest.mark.parametrize("end, begin", [("kill", "start"), ("pause", "resume")])
def test_leader_lost(ensemble, end, begin):
    with Store(ensemble.url(f"/{end}")) as store, Store(ensemble.url(f"/{end}")) as other:
        leader = ensemble.leader()
        change_without(getattr(leader, end), store, other)
        getattr(leader, begin)()
        until(leader.healthy)


def test_dead_endpoints_are_passed_over(ensemble):
    with Store(f"zookeeper://127.0.0.1:{free_port()},127.0.0.1:{ensemble.members[1].port}/over") as store:
        token = store.swap("a/lease").token
        assert store.read("a/lease").token == token
        assert not store.wait([("a/lease", token)], timeout=1)


def test_member_without_a_majority_serves_nothing(ensemble):
    alone, *others = ensemble.members
    with Store(alone.url("/alone")) as store, Store(ensemble.url("/alone")) as free:
        token = free.swap("a/lease").token
        assert store.read("a/lease").token == token
        for member in others:
            member.kill()
        assert refused(store.read, "a/lease", timeout=2).status in ("timeout", "unavailable")
        assert store.swap("a/lease", token, timeout=2).status in ("timeout", "unavailable", "unknown")
        for member in others:
            member.start()
        for member in ensemble.members:
            until(member.healthy)
        found = settled(lambda: store.read("a/lease"))
        assert until(lambda: settled(lambda: store.swap("a/lease", store.read("a/lease").token)).status == "ok") and found.token
