"""Fail-over of Redis itself: what is found again, what is lost, and what tells them apart."""

import subprocess

import pytest
import server_redis
from process import until
from server_redis import Redis, Sentinel, SentinelSet
from tenure import Store, StoreError, settled

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))

REGISTER = "{tenure}:k:a/lease"


def number(token):
    return int(token.version.split("@")[0])


def timeline(token):
    return token.version.split("@")[1]


def replicated(servers, token):
    return until(lambda: f" {token.nonce.hex()} ".encode() in
                 (servers.replica.cmd("GET", REGISTER) or b""))


def test_fail_over_is_followed_and_changes_every_token():
    with SentinelSet() as servers, Store(servers.url()) as store:
        before = store.swap("a/lease", None, b"kept").token
        replicated(servers, before)
        servers.master.kill()
        after = settled(lambda: store.read("a/lease"))
        assert after.data == b"kept"
        assert after.token.nonce == before.nonce and number(after.token) == number(before)
        # The new master may lack what the old one had acknowledged last.  So whoever
        # watches must begin to count anew, and a holder must look before it renews.
        assert timeline(after.token) != timeline(before)
        assert store.wait([("a/lease", before)])
        assert store.swap("a/lease", before).status == "conflict"
        assert store.swap("a/lease", after.token).status == "ok"
        assert servers.replica.info("replication", "role") == "master"


def split_brain(servers):
    """Stop the master until it is replaced, then let it go on: for seconds both are masters."""
    servers.master.pause()
    until(lambda: servers.agreed(servers.replica))
    servers.master.resume()


def test_split_brain_write_is_accepted_then_lost():
    """Documents what Redis does; the reason for sentinel_check=always and for fencing."""
    with SentinelSet() as servers:
        stale = Store(servers.master.url())  # knows nothing of Sentinels
        base = stale.swap("a/lease", None, b"base").token
        replicated(servers, base)
        split_brain(servers)
        # Reconnect as soon as the old master answers: it takes the write, as a master.
        lost = settled(lambda: stale.swap("a/lease", base, b"lost"))
        if lost.status == "conflict" or servers.master.info("replication", "role") != "master":
            pytest.skip("the Sentinels were faster than this test")
        assert lost.status == "ok"
        with Store(servers.url()) as store:
            found = store.read("a/lease")
            # The other side never saw it.  Both continue from the same number ...
            assert found.data == b"base" and found.token.nonce == base.nonce
            kept = store.swap("a/lease", found.token, b"kept")
            assert kept.status == "ok"
            assert number(kept.token) == number(lost.token)
            # ... so the number alone would not tell the two apart; nonce and timeline do.
            assert kept.token.nonce != lost.token.nonce
            assert timeline(kept.token) != timeline(lost.token)
            until(lambda: servers.master.info("replication", "role") == "slave")
            until(lambda: kept.token.nonce.hex().encode() in
                  (servers.master.cmd("GET", REGISTER) or b""))
            # The loser cannot go on from what it was promised.
            with pytest.raises(StoreError):
                stale.read("a/lease")
            assert store.swap("a/lease", lost.token).status == "conflict"
            assert store.read("a/lease").data == b"kept"
        stale.close()


def test_majority_of_sentinels_keeps_us_off_the_old_master():
    with SentinelSet() as servers, Store(servers.url()) as store:
        base = store.swap("a/lease", None, b"base").token
        replicated(servers, base)
        split_brain(servers)
        # The handle's connection to the old master is alive, and the old master may
        # still be a master; yet the swap does not reach it.
        assert settled(lambda: store.swap("a/lease", base, b"lost")).status == "conflict"
        found = settled(lambda: store.read("a/lease"))
        assert found.token.nonce == base.nonce
        assert store.swap("a/lease", found.token, b"kept").status == "ok"
        until(lambda: servers.master.info("replication", "role") == "slave")
        assert store.read("a/lease").data == b"kept"


def test_without_a_majority_nothing_is_changed():
    with SentinelSet() as servers, Store(servers.url()) as store:
        base = store.swap("a/lease").token
        servers.sentinels[0].pause()
        after = store.swap("a/lease", base)
        assert after.status == "ok"  # two of three
        servers.sentinels[1].kill()
        answer = store.swap("a/lease", after.token, timeout=1)
        assert answer.status in ("unavailable", "timeout")
        assert "majority" in answer.text
        assert after.token.nonce.hex().encode() in servers.master.cmd("GET", REGISTER)
        servers.sentinels[0].resume()
        assert settled(lambda: store.swap("a/lease", after.token)).status == "ok"


def test_without_the_check_the_connection_is_trusted():
    with SentinelSet() as servers, Store(servers.url("?sentinel_check=connect")) as store:
        base = store.swap("a/lease").token
        for sentinel in servers.sentinels:
            sentinel.kill()
        assert store.swap("a/lease", base).status == "ok"


def test_unknown_master():
    with Redis() as redis, Sentinel(redis.port, 1) as sentinel:
        with pytest.raises(StoreError) as caught:
            Store(f"redis+sentinel://127.0.0.1:{sentinel.port}/nobody")
        assert caught.value.status == "config" and "nobody" in caught.value.text


def test_sentinel_with_a_password(tmp_path):
    (tmp_path / "password").write_text("open sesame")
    with Redis() as redis, Sentinel(redis.port, 1, ("requirepass", '"open sesame"')) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/main"
        with pytest.raises(StoreError) as caught:
            Store(url)
        assert caught.value.status == "denied"
        with Store(f"{url}?sentinel_password_file={tmp_path}/password") as store:
            assert store.swap("a/lease").status == "ok"


def test_something_that_is_no_sentinel():
    with Redis() as redis:
        with pytest.raises(StoreError) as caught:
            Store(f"redis+sentinel://127.0.0.1:{redis.port}/main")
        assert caught.value.status == "unavailable"


def test_candidates_race_on_a_real_server(build):
    with Redis() as redis:
        done = subprocess.run([build / "tests/fault/race_elect", redis.url(), "--dir", build,
                               "--terms", "400", "--kills", "2"], capture_output=True, text=True,
                              timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
