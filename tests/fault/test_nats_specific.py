"""What only NATS can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import shutil

import pytest
import server_nats
from process import free_port, until
from proxy import Proxy
from server_nats import OLD, Cluster, Nats
from store_checks import change_after_put_back, change_through_all, change_without, put_back, refused
from tenure import Store, settled

pytestmark = pytest.mark.skipif(server_nats.MISSING is not None, reason=str(server_nats.MISSING))
needs_old = pytest.mark.skipif(server_nats.MISSING_OLD is not None, reason=str(server_nats.MISSING_OLD))

# The pair of NATS's own documentation.
NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


# ---- One server --------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def shared():
    with Nats() as server:
        yield server


@pytest.fixture
def server(shared):
    shared.purge()
    return shared


def test_data_restored_repeats_sequences_but_not_nonces():
    with Nats() as own, Store(own.url()) as store:
        base = store.swap("a/lease", None, b"base").token
        own.kill()
        copy = own.dir / "copy"
        shutil.copytree(own.data, copy)
        own.start()
        until(own.healthy)
        lost = settled(lambda: store.swap("a/lease", base, b"lost")).token
        mark = store.list("")[1]
        put_back(own, copy)
        kept = change_after_put_back(store, base, lost, mark)
        assert store.read("a/lease").token == kept


def test_names_become_subjects_and_back(server):
    keys = ["a.b/c..d", "a/b", "a/b.c", "a_b-c/d"]
    with Store(server.url()) as store:
        for key in keys:
            assert store.swap(key, None, key.encode()).status == "ok"
        assert [(key, value.data.decode()) for key, value in store.list("")[0]] == [(k, k) for k in keys]
        assert [key for key, _ in store.list("a/b")[0]] == ["a/b", "a/b.c"]
    assert server.get("k.a=b.c==d")


def test_others_beside_us_are_passed_over(server):
    with Store(server.url()) as store:
        store.swap("a/lease")
        for key in ("own", "k", "k.=hidden", "k.a/b"):
            server.put(key, b"something")
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]


def test_largest_value_fits(server):
    with Store(server.url()) as store:
        most = store.info().data_max
        assert most > 1_000_000
        deep = "/".join(["d" * 60] * 4)
        token = store.swap(deep, None, b"x" * most).token
        assert store.swap(deep, token, b"y" * most).status == "ok"
        assert store.read(deep).data == b"y" * most
        assert not store.wait([(deep, store.read(deep).token)], timeout=0.01)


def test_deletion_by_a_client_of_nats_is_absence(server):
    with Store(server.url()) as store:
        token = store.swap("a/lease", None, b"x").token
        server.delete("k.a.lease")
        assert not store.read("a/lease").token
        assert not store.list("")[0]
        assert store.swap("a/lease", token).status == "conflict"
        made = store.swap("a/lease", None, b"y")
        assert made.status == "ok" and store.swap("a/lease", None, b"z").status == "conflict"
        assert store.read("a/lease").token == made.token


def test_bucket_that_goes_is_made_again(server):
    with Store(server.url("/passing")) as store:
        token = store.swap("a/lease").token
        server.api("STREAM.DELETE.KV_passing")
        assert refused(store.read, "a/lease").status == "unavailable" or not store.read("a/lease").token
        assert until(lambda: settled(lambda: store.swap("a/lease")).status == "ok")
        assert store.read("a/lease").token != token


def test_holder_of_a_bucket_that_was_made_again_has_lost(server):
    """On the connection that it wrote on: what that has seen is not what is there."""
    with Store(server.url("/again")) as old, Store(server.url("/again")) as new:
        lost = old.swap("a/lease", None, b"old").token
        server.api("STREAM.DELETE.KV_again")
        assert not settled(lambda: new.read("a/lease")).token  # it has made the bucket again
        held = settled(lambda: new.swap("a/lease", None, b"new")).token
        assert held.version == lost.version and held.nonce != lost.nonce
        assert old.swap("a/lease", lost, b"old again").status == "conflict"
        status, answers, _ = old.swap_many([("a/lease", lost, b"old again"), ("b/lease", None, b"other")])
        assert status == "ok" and answers["a/lease"].status == "conflict" and answers["b/lease"].status == "ok"
        assert new.read("a/lease").token == held


def test_answer_of_a_lost_connection_proves_nothing_on_the_next():
    """One of two answers came before the connection ended, and then the data was lost."""
    with Nats() as own, Proxy(("127.0.0.1", own.port)) as way, Store(f"nats://127.0.0.1:{way.port}") as old:
        way.cut_after("down", 120)  # within the second answer
        answers = old.swap_many([("a", None, b"old"), ("b", None, b"old")])[1]
        assert answers["a"].status == "ok" and answers["b"].status == "unknown"
        own.kill()
        shutil.rmtree(own.data)
        own.start()
        until(own.healthy)
        with Store(own.url()) as new:
            held = settled(lambda: new.swap("a", None, b"new")).token
            assert held.version == answers["a"].token.version
            assert settled(lambda: old.swap("a", answers["a"].token, b"old again")).status == "conflict"
            assert new.read("a").token == held


def test_change_whose_answer_may_not_be_received_is_unknown(monkeypatch):
    monkeypatch.setenv("NATS_PASSWORD", "pw")
    with Nats() as own:
        own.let_in("pw", '{ publish: [">"], subscribe: ["_INBOX.>"] }')
        url = f"nats://app@127.0.0.1:{own.port}/tenure?password_env=NATS_PASSWORD"
        with Store(url) as store:
            token = store.swap("a/lease", None, b"x").token
            own.let_in("pw", '{ publish: [">"], subscribe: { deny: ["_INBOX.>"] } }')
            answer = store.swap("b/lease", None, b"y")
            assert answer.status == "unknown"
            assert until(lambda: own.get("k.b.lease")).endswith(b"y")
            assert refused(store.read, "b/lease").status == "denied"
            assert store.swap("a/lease", token, b"z").status == "denied"
            assert own.get("k.a.lease").endswith(b"x")


@pytest.mark.parametrize("name, config, words", [
    ("ttl", {"max_age": 60_000_000_000}, "has a TTL"),
    ("old", {"max_bytes": 1_000_000, "discard": "old"}, "discards what is old"),
])
def test_bucket_that_forgets_is_refused(server, name, config, words):
    answer = server.api(f"STREAM.CREATE.KV_{name}", name=f"KV_{name}", subjects=[f"$KV.{name}.>"], storage="file",
                        max_msgs_per_subject=1, **config)
    assert "error" not in answer
    error = refused(Store, server.url(f"/{name}"))
    assert error.status == "config" and words in error.text and name in error.text


@pytest.mark.parametrize("users, query, files", [
    ("authorization { token: hunter2 }", "?token_file={0}/secret", "hunter2\n"),
    (f"authorization {{ users: [{{ nkey: {NKEY} }}] }}", f"?nkey={NKEY}&nkey_file={{0}}/secret", SEED + "\n"),
], ids=["token", "nkey"])
def test_logins(tmp_path, users, query, files):
    (tmp_path / "secret").write_text(files)
    with Nats(users=users) as own:
        with Store(own.url(query.format(tmp_path))) as store:
            assert store.swap("a/lease").status == "ok"
        error = refused(Store, own.url())
        assert error.status == "denied" and "login" in error.text
        (tmp_path / "secret").write_text("SUwrong\n")
        error = refused(Store, own.url(query.format(tmp_path)))
        assert error.status == "denied" and "SUwrong" not in error.text and "hunter2" not in error.text


def test_server_that_hangs_is_left_after_a_change(server):
    with Proxy(("127.0.0.1", server.port)) as hangs, \
            Store(f"nats://127.0.0.1:{hangs.port},127.0.0.1:{server.port}") as store:
        token = store.swap("a/lease").token
        hangs.hold("up", "down")
        assert store.swap("a/lease", token, timeout=0.5).status in ("timeout", "unknown")
        asked = hangs.trips
        assert store.swap("a/lease", store.read("a/lease").token).status == "ok"
        assert hangs.trips == asked


# ---- Clusters ----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def old():
    """Servers that compare too late.  Not waited for: they begin while others are tested."""
    with Cluster(OLD, wait=False) as servers:
        yield servers


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as servers:
        yield servers


@needs_old
def test_bucket_with_one_replica_is_as_good_on_old_servers(old, cluster):
    until(old.healthy)
    with Store(old.url("/single?replicas=1")) as store:
        assert store.swap("a/lease").status == "ok"


@needs_old
def test_replicated_bucket_of_old_servers_is_refused(old):
    """There several of those who expect the same sequence win."""
    until(old.healthy)
    error = refused(Store, old.url("/shared?replicas=3"), timeout=60)
    assert error.status == "unsupported" and "2.10.20" in error.text and "replicas" in error.text


def test_reads_show_what_was_written_through_another_member(cluster):
    """The leader answers, whichever member is asked."""
    change_through_all([member.url("/shown?replicas=3") for member in cluster.members], 30)


def test_dead_endpoints_are_passed_over(cluster):
    with Store(f"nats://127.0.0.1:{free_port()},127.0.0.1:{cluster.members[1].port}/over?replicas=3") as store:
        token = store.swap("a/lease").token
        assert store.read("a/lease").token == token
        assert not store.wait([("a/lease", token)], timeout=1)


def test_leader_stopped(cluster):
    url = cluster.url("/stopped?replicas=3")
    with Store(url) as store, Store(url) as other:
        leader = cluster.leader("stopped")
        token = change_without(leader.pause, store, other)
        leader.resume()  # it may answer a read before it hears of its successor
        until(lambda: settled(lambda: other.read("a/lease")).token == token)


def test_leader_killed_and_then_the_majority(cluster):
    """The last one: nobody is started again."""
    until(cluster.healthy)
    url = cluster.url("/killed?replicas=3")
    with Store(url) as store, Store(url) as other:
        dead = cluster.leader("killed")
        token = change_without(dead.kill, store, other)
        alone, last = [member for member in cluster.members if member is not dead]
        with Store(alone.url("/killed")) as lonely:
            assert settled(lambda: lonely.read("a/lease")).token == token
            last.kill()
            assert refused(lonely.read, "a/lease", timeout=2).status in ("timeout", "unavailable")
            assert lonely.swap("a/lease", token, timeout=2).status in ("timeout", "unavailable", "unknown")
