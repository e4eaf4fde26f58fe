"""What only Consul can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import functools
import json
import threading

import pytest
import server_consul
import store_checks
from process import free_port, until
from proxy import Proxy
from server_consul import Cluster, Consul
from server_redis import make_certificates
from store_checks import Hostile, judge_hostile
from tenure import Store, StoreError, Token, settled

pytestmark = pytest.mark.skipif(server_consul.MISSING is not None, reason=str(server_consul.MISSING))

CANARY = "cAnArY-secret-78"
refused = functools.partial(store_checks.refused, secret=CANARY)


@pytest.fixture(scope="module")
def shared():
    with Consul() as server:
        yield server


@pytest.fixture
def consul(shared):
    """A server that no test ends; the keys go with every test."""
    until(shared.healthy)
    shared.delete("", tree=True)
    return shared


# ---- The server --------------------------------------------------------------------------------

def test_disk_put_back_repeats_indexes_but_not_nonces(consul):
    old = consul.dir / "old"
    with Store(consul.url()) as store:
        base = store.swap("a/lease", None, b"base").token
        consul.kill()
        server_consul.copy(consul.data, old)
        consul.start()
        until(consul.healthy)
        lost = settled(lambda: store.swap("a/lease", base, b"lost")).token
        mark = store.list("")[1]
        consul.kill()
        server_consul.copy(old, consul.data)
        consul.start()
        until(consul.healthy)
        assert settled(lambda: store.read("a/lease")).token == base
        assert settled(lambda: store.wait([("a/lease", lost)]))
        assert settled(lambda: store.wait([("", mark)]))
        # Writes of others bring the index to where it was, or beyond; with the old one it must fail.
        while (kept := store.swap("a/lease", store.read("a/lease").token, b"kept").token) and \
                int(kept.version) < int(lost.version):
            pass
        stale = Token()
        stale._version = kept.version.encode()
        for i, byte in enumerate(lost.nonce):
            stale._nonce[i] = byte
        assert store.swap("a/lease", stale).status == "conflict"
        assert store.swap("a/lease", lost).status == "conflict"
        assert settled(lambda: store.wait([("a/lease", lost)]))
        assert store.read("a/lease").token == kept


def test_same_bytes_race_has_one_winner(consul):
    """A compare-and-swap of Consul's own with the bytes that stand there succeeds, again and again."""
    with Store(consul.url()) as store, Store(consul.url()) as other:
        token = store.swap("a/lease", None, b"same").token
        for _ in range(20):
            box = []
            threads = [threading.Thread(target=lambda s=s: box.append(s.swap("a/lease", token, b"same")))
                       for s in (store, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(a.status for a in box) == ["conflict", "ok"]
            token = store.read("a/lease").token


def test_batch_with_losers_writes_the_rest(consul):
    with Store(consul.url()) as store:
        first = {f"b/{i}": store.swap(f"b/{i}").token for i in range(0, 50, 7)}
        status, done, _ = store.swap_many([(f"b/{i}", None, b"x") for i in range(50)])
        assert status == "ok"
        assert {k for k, a in done.items() if a.status == "conflict"} == set(first)
        found = {k: v.token for k, v in store.list("b/")[0]}
        assert len(found) == 50
        assert all(found[k] == (a.token if a.status == "ok" else first[k]) for k, a in done.items())


def test_largest_value_and_long_listing(consul):
    with Store(consul.url()) as store:
        most = store.info().data_max
        token = store.swap("big", None, b"\xff" * most).token
        assert store.read("big").token == token
        names = [f"many/{i:04}" for i in range(100)]
        store.swap_many([(n, None, b"x" * (i % 7)) for i, n in enumerate(names)])
        assert [key for key, _ in store.list("many/")[0]] == names
        assert [key for key, _ in store.list("many/", after=names[50])[0]] == names[51:]
        assert [len(v.data) for _, v in store.list("b")[0]] == [most]


# ---- A cluster ---------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def members():
    with Cluster() as servers:
        yield servers


@pytest.mark.parametrize("way", ["kill", "pause"])
def test_leader_lost(members, way):
    members.settle()
    with Store(members.url(f"/{way}")) as store, Store(members.url(f"/{way}")) as other:
        token = store.swap("a/lease").token
        assert not other.wait([("a/lease", token)], timeout=0.01)
        leader = members.leader()
        getattr(leader, way)()
        mine = set()

        def attempt():
            """Every swap either took effect, or its nonce never shows."""
            found = store.read("a/lease", timeout=3)
            assert found.token.nonce == token.nonce or found.token.nonce in mine
            answer = store.swap("a/lease", found.token, timeout=3)
            mine.add(answer.nonce)
            return answer

        last = settled(attempt)
        assert last.status == "ok"
        assert settled(lambda: other.read("a/lease", timeout=3)).token == last.token
        if way == "kill":
            # One that hangs keeps its connections, and is found out by its silence.
            assert settled(lambda: other.wait([("a/lease", token)]))
            leader.start()
        else:
            leader.resume()
        until(leader.healthy)
        assert settled(lambda: Store(leader.url(f"/{way}"))).read("a/lease").token.nonce == last.nonce


def test_server_without_a_majority_serves_nothing(members):
    members.settle()
    alone, *others = members.members
    with Store(alone.url("/alone")) as store, Store(members.url("/alone")) as free:
        token = free.swap("a/lease").token
        assert store.read("a/lease").token == token
        for member in others:
            member.pause()
        try:
            with pytest.raises(StoreError) as caught:
                while True:  # until it notices
                    store.read("a/lease", timeout=1)
            assert caught.value.status in ("unavailable", "timeout")
            answer = store.swap("a/lease", token, timeout=1)
            assert answer.status in ("unavailable", "timeout", "unknown")
        finally:
            for member in others:
                member.resume()
        members.settle()
        assert settled(lambda: free.read("a/lease")).token.nonce in (token.nonce, answer.nonce)


def test_dead_agents_are_passed_over(members):
    members.settle()
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{members.members[1].port}"
    with Store(f"consul://{hosts}/over") as store:
        token = store.swap("a/lease").token
        assert store.read("a/lease").token == token
        assert not store.wait([("a/lease", token)], timeout=1)


# ---- What others have written ------------------------------------------------------------------

def test_neighbours_are_none_of_ours(consul):
    with Store(consul.url()) as store:
        token = store.swap("a/lease").token
        for name in ("tenure/a/lease", "tenure/.x#", "tenuren#",
                     "tenure/#", "tenure/" + "x" * 300 + "#"):
            consul.put(name, b"x")
        assert store.read("a/lease").token == token
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]
        assert not store.read("a/none").token
        assert not store.wait([("a/lease", token)], timeout=0.05)


def test_register_whose_anchor_was_deleted_is_lost(consul):
    with Store(consul.url()) as store:
        token = store.swap("a/lease").token
        consul.delete("tenure/a/lease#")
        assert consul.names("tenure/a/lease#")
        assert not store.read("a/lease").token and store.list("")[0] == []
        assert store.wait([("a/lease", token)])
        fresh = store.swap("a/lease").token
        assert store.read("a/lease").token == fresh
        assert store.swap("a/lease", token).status == "conflict"
        assert len(consul.names("tenure/a/lease#")) == 2


# ---- Tokens and URLs ---------------------------------------------------------------------------

@pytest.mark.parametrize("url, words", [
    ("consul:", "needs a host"),
    ("consul:///prefix", "needs a host"),
    ("consul://h:0", "is not a host"),
    ("consul://" + ",".join(f"h{i}" for i in range(9)), "more than 8 hosts"),
    ("consul://h/a//b", "the path is the prefix"),
    ("consul://h/" + "x" * 129, "the path is the prefix"),
    ("consul://h?colour=red", "does not know the parameter 'colour'"),
    ("consul://h?ca_file=/x", "does not know the parameter 'ca_file'"),
    (f"consul://u:{CANARY}@h", "has no users"),
    (f"consul://:{CANARY}@h?token_file=/x", "token once"),
    ("consul://h?token_file=/x&token_env=Y", "token once"),
    ("consuls://h?verify=perhaps", "verify must be"),
    ("consuls://h?key_file=/x", "key_file needs cert_file"),
])
def test_url_mistakes(url, words):
    error = refused(Store, url)
    assert error.status == "config" and words in error.text


def test_tokens(consul, tmp_path, monkeypatch):
    consul.policy('key_prefix "tenure/a/" { policy = "write" } key_prefix "tenure/" { policy = "read" }'
                  ' key_prefix "hidden/" { policy = "deny" }')
    secret = server_consul.secret(CANARY)
    consul.token(secret)
    with Store(consul.url()) as store:
        store.swap("b/lease")
        with Store(consul.url("/hidden")) as hidden:
            hidden.swap("a/lease")
    file = tmp_path / "token"
    file.write_text(secret + "\n")
    monkeypatch.setenv("APP_TOKEN", secret)
    for url in (consul.url(f"?token_file={file}"), consul.url("?token_env=APP_TOKEN"),
                f"consul://:{secret}@127.0.0.1:{consul.port}"):
        with Store(url) as store:
            token = settled(lambda: store.read("a/lease")).token
            assert store.swap("a/lease", token or None).status == "ok"
            answer = store.swap("b/other")
            assert answer.status == "denied" and "docs/reference/stores/consul.md" in answer.text
            status, done, _ = store.swap_many([("b/other", None, b"")])
            assert done["b/other"].status == "denied"
    # What may not be read is denied, never absent.
    error = refused(Store, consul.url(f"/hidden?token_file={file}"))
    assert error.status == "denied" and secret not in str(error)
    with Store(consul.url(f"?token_file={file}")) as store:
        consul.policy('key_prefix "tenure/" { policy = "deny" }')
        assert refused(store.read, "a/lease").status == "denied"
        assert refused(store.list, "").status == "denied"
        file.write_text(server_consul.secret("other"))
        error = refused(store.read, "a/lease")
        assert error.status == "denied" and "does not know the token" in error.text
        file.unlink()
        assert refused(store.read, "a/lease").status in ("denied", "config")
    consul.token(None)


def test_tls(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    other_ca = make_certificates(other)[0]
    ca, cert, key = tls = make_certificates(tmp_path)
    with Consul(tls=tls) as server:
        mine = f"cert_file={cert}&key_file={key}"
        Store(f"consuls://localhost:{server.port}?ca_file={ca}&{mine}").close()
        error = refused(Store, f"consuls://localhost:{server.port}?ca_file={other_ca}&{mine}")
        assert error.status == "denied" and "certificate" in error.text
        error = refused(Store, f"consuls://127.0.0.1:{server.port}?ca_file={ca}&{mine}")
        assert error.status == "denied" and "certificate" in error.text
        with Store(f"consuls://127.0.0.1:{server.port}?verify=none&{mine}") as store:
            assert b"verify=none" in store.info().promise


# ---- Hostile servers ---------------------------------------------------------------------------

GOOD = b'{"Results": [], "Errors": null}'
ROW = "tenure/a#" + "1" * 32
ANSWERS = [
    (200, b""), (200, b"null"), (200, b"[]"), (200, b"{"), (200, b"{}"), (200, b"\0" * 50), (200, b"[1]"),
    (200, b'{"Results": {"a": 1}}'), (200, b"[" * 5000),
    (200, json.dumps({"Results": [{"KV": {"Key": "tenure/a#"}}]}).encode()),
    (200, json.dumps({"Results": [{"KV": {"Key": "tenure/a#"}}, {"KV": {
        "Key": ROW, "Value": "!!", "ModifyIndex": 3}}]}).encode()),
    (200, json.dumps({"Results": [{"KV": {"Key": "tenure/a#"}}, {"KV": {
        "Key": ROW, "Value": None, "ModifyIndex": -3}}]}).encode()),
    (409, b""), (409, b'{"Errors": []}'), (409, b'{"Errors": [{"OpIndex": 99, "What": 5}]}'),
    (404, b"not here"), (500, b""), (503, b"No cluster leader"), (302, b""), (400, b"x" * 5000),
    (403, b"ACL not found"),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_hostile_answers(number):
    with Hostile("consul", ANSWERS[number], GOOD, 2, [("X-Consul-Index", "7")]) as server, Store(server.url) as store:
        judge_hostile(store, False, CANARY)


def test_silent_agent_is_asked(consul):
    """What it holds back is never heard of; a read says so, and the wait begins again."""
    with Proxy(("127.0.0.1", consul.port)) as proxy, Store(consul.url(port=proxy.port)) as store, \
            Store(consul.url()) as other:
        token = other.swap("a/control").token
        assert not store.wait([("a/control", token)], timeout=0.05)
        proxy.strand()
        assert refused(store.read, "a/control", timeout=0.2).status == "timeout"
        other.swap("a/control", token)
        assert settled(lambda: store.wait([("a/control", token)], timeout=20))
