"""What only ZooKeeper can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import shutil

import pytest
import server_zookeeper
from process import free_port, until
from server_zookeeper import Ensemble, ZooKeeper
from tenure import Store, StoreError, settled

pytestmark = pytest.mark.skipif(server_zookeeper.MISSING is not None,
                                reason=str(server_zookeeper.MISSING))

NODE = "/tenure/a/lease#"


def refused(call, *args, **named):
    with pytest.raises(StoreError) as caught:
        call(*args, **named)
    assert "\n" not in caught.value.text
    return caught.value


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
        own.kill()
        shutil.rmtree(own.data)
        copy.rename(own.data)
        own.start()
        until(own.healthy, limit=60)
        assert settled(lambda: store.read("a/lease")).token == base
        assert store.wait([("a/lease", lost)]) and store.wait([("", mark)])
        kept = store.swap("a/lease", base, b"kept").token
        assert kept.version == lost.version and kept.nonce != lost.nonce
        assert store.swap("a/lease", lost).status == "conflict"
        # The number of the transaction may be the same again, too.
        assert store.wait([("a/lease", lost)]) and store.wait([("", mark)])


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
        for path in ("/tenure/.hidden#", "/tenure/a/not a key#", "/tenure/a/folder", "/tenure/é#"):
            server.put(path, b"something")
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]


# ---- An ensemble -------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def members():
    with Ensemble() as servers:
        yield servers


@pytest.fixture
def ensemble(members):
    for member in members.members:
        until(member.healthy, limit=120)
    return members


def test_reads_show_what_was_written_through_another_member(ensemble):
    """Each server answers reads from its own memory, which may lag."""
    stores = [Store(member.url("/shown")) for member in ensemble.members]
    token = stores[0].swap("a/lease").token
    for number in range(60):
        writer, reader = stores[number % 3], stores[(number + 1) % 3]
        token = writer.swap("a/lease", token).token
        assert reader.read("a/lease").token == token
        assert dict(reader.list("")[0])["a/lease"].token == token
    for store in stores:
        store.close()


@pytest.mark.parametrize("end, begin", [("kill", "start"), ("pause", "resume")])
def test_leader_lost(ensemble, end, begin):
    with Store(ensemble.url(f"/{end}")) as store, Store(ensemble.url(f"/{end}")) as other:
        token = store.swap("a/lease").token
        assert not other.wait([("a/lease", token)], timeout=0.01)
        leader = ensemble.leader()
        getattr(leader, end)()
        # Every swap either took effect, or its nonce never shows.
        mine = set()

        def attempt():
            nonlocal token
            found = store.read("a/lease")
            assert found.token.nonce == token.nonce or found.token.nonce in mine
            answer = store.swap("a/lease", found.token)
            mine.add(answer.nonce)
            if answer.status == "ok":
                token = answer.token
            return answer

        until(lambda: settled(attempt).status == "ok", limit=120)
        assert settled(lambda: other.read("a/lease")).token == token
        getattr(leader, begin)()
        until(leader.healthy, limit=120)


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
            until(member.healthy, limit=120)
        found = settled(lambda: store.read("a/lease"))
        assert until(lambda: settled(lambda: store.swap("a/lease", store.read("a/lease").token)).status == "ok",
                     limit=60) and found.token
