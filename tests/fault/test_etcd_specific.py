"""What only etcd can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import functools
import json
import os
import threading

import pytest
import server_etcd
import store_checks
from flood import Flood
from process import free_port, until
from proxy import Proxy
from server_etcd import Cluster, Etcd
from server_redis import make_certificates
from store_checks import Hostile, judge_hostile
from tenure import Opening, Store, StoreError, Token, settled

pytestmark = pytest.mark.skipif(server_etcd.MISSING is not None, reason=str(server_etcd.MISSING))

KEY = "/tenure/a/lease"
CANARY = "cAnArY-secret-78"
refused = functools.partial(store_checks.refused, secret=CANARY)


@pytest.fixture(scope="module")
def shared():
    with Etcd() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def silence(request, shared):
    """A wait that takes half a minute: while the other tests run, for the last one."""
    if not any(item.name.startswith("test_silent") for item in request.session.items):
        yield None
        return
    box, proxy = [], Proxy(("127.0.0.1", shared.port))

    def listen():
        with through(proxy, "/silence") as store, Store(shared.url("/silence")) as other:
            token = other.swap("a/control").token
            assert not store.wait([("a/control", token)], timeout=1)
            proxy.strand(-1)  # the stream; what is asked is answered
            settled(lambda: other.swap("a/control", token))
            box.append(settled(lambda: store.wait([("a/control", token)], timeout=90)))
            # And what it listens to from now on is sound.
            token = settled(lambda: store.read("a/control")).token
            assert not store.wait([("a/control", token)], timeout=1)
            settled(lambda: other.swap("a/control", token))
            box.append(settled(lambda: store.wait([("a/control", token)], timeout=20)))

    thread = threading.Thread(target=listen)
    thread.start()
    yield lambda: thread.join() or box
    thread.join()
    proxy.close()


@pytest.fixture
def etcd(shared):
    """A server that no test of this file ends; the keys go with every test."""
    shared.ctl("del", "--prefix", "/tenure")
    shared.ctl("del", "--prefix", "/elsewhere")
    return shared


@pytest.fixture
def own():
    with Etcd() as server:
        yield server


def through(proxy, query=""):
    return Store(f"etcd://127.0.0.1:{proxy.port}{query}")


# ---- The server --------------------------------------------------------------------------------

def test_snapshot_restored_repeats_revisions_but_not_nonces(own):
    with Store(own.url()) as store:
        store.swap("a/other")
        base = store.swap("a/lease", None, b"base").token
        own.ctl("snapshot", "save", own.dir / "snapshot")
        lost = store.swap("a/lease", base, b"lost").token
        mark = store.list("")[1]
        own.kill()
        own.restore(own.dir / "snapshot")
        found = settled(lambda: store.read("a/lease"))
        assert found.token == base
        assert store.wait([("a/lease", lost)]) and store.wait([("", mark)])
        kept = store.swap("a/lease", base, b"kept").token
        # The same revision again, with another nonce.
        assert kept.version == lost.version and kept.nonce != lost.nonce
        assert store.swap("a/lease", lost).status == "conflict"
        assert store.wait([("a/lease", lost)])


def test_member_that_was_made_anew_is_not_believed(etcd, own):
    """It lost its disk, and was started as a cluster of its own: it knows of no lease."""
    with Proxy(("127.0.0.1", etcd.port)) as one, Proxy(("127.0.0.1", etcd.port)) as two:
        ports = (one.port, two.port, own.port)
        with Store("etcd://" + ",".join(f"127.0.0.1:{p}" for p in ports)) as store:
            token = store.swap("a/lease").token
            for proxy in (one, two):
                proxy.refusing = True
                proxy.cut()
            error = refused(store.read, "a/lease")
            assert error.status == "unavailable" and "another cluster" in error.text
            assert store.swap("a/lease").status in ("unavailable", "unknown")
            for proxy in (one, two):
                proxy.refusing = False
            found = settled(lambda: store.read("a/lease"))
            assert found.token == token
            assert not store.wait([("a/lease", token)], timeout=1)
            assert store.swap("a/lease", token).status == "ok"
            # Most of them: the cluster was moved, or restored.
            for proxy in (one, two):
                proxy.target = ("127.0.0.1", own.port)
                proxy.cut()
            moved = settled(lambda: store.read("a/lease"))
            assert moved.token != found.token


def test_compaction_does_not_end_a_wait(etcd):
    with Store(etcd.url()) as store, Store(etcd.url()) as other:
        base = store.swap("a/lease").token
        assert not store.wait([("a/lease", base)], timeout=0.01)
        for i in range(5):
            etcd.put("/elsewhere", str(i))
        etcd.ctl("compaction", etcd.revision())
        assert not store.wait([("a/lease", base)], timeout=0.05)
        other.swap("a/lease", base)
        assert store.wait([("a/lease", base)])


def test_quota_used_up():
    with Etcd("--quota-backend-bytes", 2 << 20) as own, Store(own.url()) as store:
        base = store.swap("a/lease").token
        answer = None
        for i in range(40):
            answer = store.swap(f"fill/{i}", None, os.urandom(200_000))
            if answer.status != "ok":
                break
        # The one that uses it up may have been carried out: etcd tells it as an error.
        assert answer.status == "unknown" and "quota" in answer.text
        answer = store.swap("a/lease", base)
        assert answer.status == "unknown" and "quota" in answer.text
        assert store.read("a/lease").token == base


# ---- A cluster ---------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def members():
    with Cluster() as servers:
        yield servers


@pytest.fixture
def cluster(members):
    members.settle()  # what the test before did to it
    return members


def test_leader_killed(cluster):
    with Store(cluster.url("/killed")) as store, Store(cluster.url("/killed")) as other:
        token = store.swap("a/lease").token
        assert not other.wait([("a/lease", token)], timeout=0.01)
        for _ in range(3):
            leader = cluster.leader()
            leader.kill()
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

            assert settled(attempt).status == "ok"
            assert settled(lambda: other.read("a/lease")).token == token
            leader.start()
            until(leader.healthy)


def test_dead_endpoints_are_passed_over(cluster):
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{cluster.members[1].port}"
    with Store(f"etcd://{hosts}/over") as store:
        token = store.swap("a/lease").token
        assert store.read("a/lease").token == token
        assert not store.wait([("a/lease", token)], timeout=1)


def test_member_without_a_majority_serves_nothing(cluster):
    alone, *others = cluster.members
    with Store(alone.url("/alone")) as store, Store(cluster.url("/alone")) as free:
        token = free.swap("a/lease").token
        assert store.read("a/lease").token == token
        for member in others:
            member.pause()
        try:
            with pytest.raises(StoreError) as caught:
                while True:  # until it notices
                    store.read("a/lease", timeout=10)
            assert caught.value.status in ("unavailable", "timeout")
            answer = store.swap("a/lease", token, timeout=3)
            assert answer.status in ("unavailable", "timeout", "unknown")
        finally:
            for member in others:
                member.resume()
        found = settled(lambda: free.read("a/lease"))
        assert found.token.nonce in (token.nonce, answer.nonce)


def test_opening_waits_for_an_election(cluster):
    _, *others = cluster.members
    for member in others:
        member.pause()
    alone = f"etcd://127.0.0.1:{cluster.members[0].port}/opens"
    with pytest.raises(StoreError) as caught:
        while True:  # until it notices
            Store(alone, timeout=1).close()
    assert caught.value.status in ("unavailable", "timeout")
    opening = Opening(alone)
    opening.join(0.5)
    for member in others:
        member.resume()
    opening.opened().close()


def test_watch_moves_to_another_member(cluster):
    with Store(cluster.url("/moves")) as store, Store(cluster.url("/moves")) as other:
        token = store.swap("a/lease").token
        box = []
        thread = threading.Thread(
            target=lambda: box.append(settled(
                lambda: store.wait([("a/lease", token)], timeout=120))))
        thread.start()
        for member in cluster.members:
            member.kill()
            member.start()
            until(member.healthy)
        assert settled(lambda: other.swap("a/lease", settled(
            lambda: other.read("a/lease")).token)).status == "ok"
        thread.join()
        assert box == [True]


def test_watch_leaves_a_member_that_hangs(cluster):
    """Its kernel keeps the connection; it is only never heard of again."""
    hung = next(m for m in cluster.members if m is not cluster.leader())
    rest = [m for m in cluster.members if m is not hung]
    hosts = ",".join(f"127.0.0.1:{m.port}" for m in (hung, *rest))
    with Store(f"etcd://{hosts}/hangs") as store, Store(rest[0].url("/hangs")) as other:
        token = other.swap("a/control").token
        assert not store.wait([("a/control", token)], timeout=1)
        hung.pause()
        try:
            assert settled(lambda: store.read("a/control", timeout=3)).token == token
            settled(lambda: other.swap("a/control", token))
            assert settled(lambda: store.wait([("a/control", token)]))
        finally:
            hung.resume()


# ---- What others have written ------------------------------------------------------------------

@pytest.mark.parametrize("value", [
    b"", b"hello", b"tenure1 ", b"tenure1 " + b"0" * 32 + b" " + b"1" * 32 + b" v\n",
    b"tenure1 " + b"G" * 32 + b" " + b"1" * 32 + b" v\n",
    b"tenure1 " + b"1" * 32 + b" " + b"1" * 32 + b" x\n",
    b"tenure1 " + b"1" * 32 + b" " + b"1" * 32 + b" v\nno companion",
])
def test_foreign_values_are_corrupt_and_not_touched(etcd, value):
    etcd.put(KEY, value)
    with Store(etcd.url()) as store:
        error = refused(store.read, "a/lease")
        assert error.status == "corrupt" and "touched" in error.text and "a/lease" in error.text
        ((_, listed),) = store.list("")[0]
        assert listed.token.version.startswith("damaged.") and b"touched" in listed.data
        assert store.swap("a/lease").status == "conflict"
        seen = Token()
        seen._version, seen._nonce[0] = str(etcd.revision()).encode(), 1
        assert store.swap("a/lease", seen).status == "conflict"
        assert store.swap("a/other").status == "ok"
    assert etcd.get(KEY) == value


def test_neighbours_are_none_of_ours(etcd):
    with Store(etcd.url()) as store:
        token = store.swap("a/lease").token
        for name in ("/tenure/a/lease#note", "/tenure/a//b", "/tenure/../x", "/tenure", "/tenuren",
                     "/tenure/a/\x01"):
            etcd.put(name, "x")
        assert store.read("a/lease").token == token
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]
        assert not store.read("a/none").token


# ---- Waiting -----------------------------------------------------------------------------------

def test_long_listing_in_pages(etcd):
    with Store(etcd.url()) as store:
        names = [f"many/{i:04}" for i in range(700)]
        status, done, _ = store.swap_many([(n, None, b"x" * (i % 7)) for i, n in enumerate(names)])
        assert status == "ok" and {a.status for a in done.values()} == {"ok"}
        assert [key for key, _ in store.list("many/")[0]] == names
        assert [key for key, _ in store.list("many/", after=names[350])[0]] == names[351:]


# ---- Credentials and URLs ----------------------------------------------------------------------

@pytest.mark.parametrize("url, words", [
    ("etcd:", "needs a host"),
    ("etcd:///prefix", "needs a host"),
    ("etcd://h:0", "is not a host"),
    ("etcd://h:x", "is not a host"),
    ("etcd://h:99999", "is not a host"),
    ("etcd://a,,b", "is not a host"),
    ("etcd://a b", "is not a host"),
    ("etcd://::1:2379", "is not a host"),
    ("etcd://a]:2379", "is not a host"),
    ("etcd://[]:2379", "is not a host"),
    ("etcd://" + ",".join(f"h{i}" for i in range(9)), "more than 8 hosts"),
    ("etcd://h/a//b", "the path is the prefix"),
    ("etcd://h/a%23b", "the path is the prefix"),
    ("etcd://h/" + "x" * 129, "the path is the prefix"),
    ("etcd://h?colour=red", "does not know the parameter 'colour'"),
    ("etcd://h?ca_file=/x", "does not know the parameter 'ca_file'"),
    (f"etcd://u:{CANARY}@h?password_file=/x", "password once"),
    ("etcd://h?password_file=/x", "a password needs a user"),
    ("etcds://h?verify=perhaps", "verify must be"),
    ("etcds://h?key_file=/x", "key_file needs cert_file"),
])
def test_url_mistakes(url, words):
    error = refused(Store, url)
    assert error.status == "config" and words in error.text


def test_credentials(own, tmp_path):
    with Store(own.url()) as before:
        token = before.swap("a/lease").token
        for args in (("user", "add", "root:rootpw"), ("user", "grant-role", "root", "root"),
                     ("role", "add", "app"),
                     ("role", "grant-permission", "app", "--prefix=true", "readwrite", "/tenure/"),
                     ("user", "add", f"app:{CANARY}"), ("user", "grant-role", "app", "app"),
                     ("role", "add", "looks"),
                     ("role", "grant-permission", "looks", "--prefix=true", "read", "/tenure/"),
                     ("user", "add", f"looks:{CANARY}"), ("user", "grant-role", "looks", "looks"),
                     ("auth", "enable")):
            own.ctl(*args)
        assert before.swap("a/lease", token).status == "denied"
        assert refused(before.read, "a/lease").status == "denied"
    error = refused(Store, own.url())
    assert error.status == "denied" and "wants a user" in error.text
    error = refused(Store, f"etcd://app:wrong-{CANARY}@127.0.0.1:{own.port}")
    assert error.status == "denied" and "wrong" in error.text
    error = refused(Store, f"etcd://app:{CANARY}@127.0.0.1:{own.port}/elsewhere")
    assert error.status == "denied" and "docs/reference/stores/etcd.md" in error.text
    with Store(f"etcd://looks:{CANARY}@127.0.0.1:{own.port}") as looks:
        assert looks.read("a/lease").token == token
        assert looks.swap("a/lease", token).status == "denied"
    file = tmp_path / "password"
    file.write_text(CANARY)
    with Store(own.url(f"?user=app&password_file={file}")) as store:
        assert not store.wait([("a/lease", token)], timeout=0.01)
        # A restart forgets the logins; the next request logs in again.
        own.restart()
        after = settled(lambda: store.swap("a/lease", token))
        assert after.status == "ok"
        assert settled(lambda: store.wait([("a/lease", token)]))
        own.restart()
        assert settled(lambda: store.wait([("a/lease", token)]))
        token = store.read("a/lease").token
        assert not store.wait([("a/lease", token)], timeout=1)
        # A new password ends the logins too; the file is read again.
        own.ctl("--user", "root:rootpw", "user", "passwd", "app", "--interactive=false",
                text="fresh\n")
        assert store.swap("a/lease", token).status == "denied"
        file.write_text("fresh\n")
        after = store.swap("a/lease", token)
        assert after.status == "ok"
        assert not store.wait([("a/lease", after.token)], timeout=1)


def test_tls(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    other_ca = make_certificates(other)[0]
    ca, cert, key = tls = make_certificates(tmp_path)
    with Etcd(tls=tls) as server:
        mine = f"cert_file={cert}&key_file={key}"
        Store(f"etcds://localhost:{server.port}?ca_file={ca}&{mine}").close()
        error = refused(Store, f"etcds://localhost:{server.port}?ca_file={other_ca}&{mine}")
        assert error.status == "denied" and "certificate" in error.text
        error = refused(Store, f"etcds://127.0.0.1:{server.port}?ca_file={ca}&{mine}")
        assert error.status == "denied" and "certificate" in error.text
        assert refused(Store, f"etcds://localhost:{server.port}?ca_file={ca}").status in (
            "unavailable", "denied")
        error = refused(Store, f"etcds://localhost:{server.port}?ca_file={tmp_path}/none&{mine}")
        assert error.status == "config"
        with Store(f"etcds://127.0.0.1:{server.port}?verify=none&{mine}") as store:
            assert b"verify=none" in store.info().promise


def test_environment_is_not_asked_for_proxies(etcd, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    Store(etcd.url()).close()


# ---- Hostile servers ---------------------------------------------------------------------------

HEADER = {"cluster_id": "1", "member_id": "1", "revision": "7", "raft_term": "2"}
GOOD = json.dumps({"header": HEADER}).encode()
ABSENT = (200, json.dumps({"header": HEADER, "more": True, "kvs": [  # the companion alone
    {"key": server_etcd.b64("/tenure/a#nonce"), "mod_revision": "3", "value": ""}]}).encode())
ANSWERS = [
    (200, b""), (200, b"null"), (200, b"[]"), (200, b"{"), (200, b"{}"), (200, b"\0" * 50),
    (200, json.dumps({"header": {**HEADER, "revision": "-1"}}).encode()),
    (200, json.dumps({"header": {**HEADER, "revision": "9" * 40}}).encode()),
    (200, json.dumps({"header": {**HEADER, "revision": 7}}).encode()),
    (200, json.dumps({"header": HEADER, "kvs": {"a": 1}, "succeeded": "yes"}).encode()),
    (200, json.dumps({"header": HEADER, "kvs": [1, "x", {}, {"key": "!!"}]}).encode()),
    (200, json.dumps({"header": HEADER, "kvs": [
        {"key": server_etcd.b64("/tenure/a"), "mod_revision": "0", "value": "!!"}]}).encode()),
    (200, json.dumps({"header": HEADER, "kvs": [{"mod_revision": "3", "value": ""}]}).encode()),
    ABSENT,
    (200, b"[" * 5000), (404, b"not here"), (500, b""), (503, b"{}"), (302, b""),
    (400, json.dumps({"message": "x" * 5000, "code": 3}).encode()),
    (401, json.dumps({"message": "etcdserver: invalid auth token", "code": 16}).encode()),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_hostile_answers(number):
    with Hostile("etcd", ANSWERS[number], GOOD) as server, Store(server.url) as store:
        judge_hostile(store, ANSWERS[number] is ABSENT, CANARY)


@pytest.mark.parametrize("line", [b'{"result": {"created": true}}\n', b'{"result": {}}\n'])
def test_watch_that_never_stops_talking_ends_at_the_deadline(line):
    answer = json.dumps({"header": HEADER, "responses": [{"response_range": {}}] * 2}).encode()
    with Flood(line, lambda _: (200, answer)) as flood, \
            Store(f"etcd://127.0.0.1:{flood.port}") as store:
        assert not store.wait([("a", None)], timeout=0.5)


# ---- At last -----------------------------------------------------------------------------------

def test_silent_stream_is_not_believed_for_ever(silence):
    assert silence() == [True, True]
