"""postgres+advisory: a session lock that other programs see, over the same rows."""

import hashlib
import json
import os
import threading
import time

import pytest
import server_postgres
from process import until
from proxy import Proxy
from server_postgres import Contained, PgBouncer, Postgres, Psql
from tenure import Store, StoreError

pytestmark = pytest.mark.skipif(server_postgres.MISSING is not None,
                                reason=str(server_postgres.MISSING))


@pytest.fixture(scope="module")
def server():
    with Postgres() as running:
        yield running


@pytest.fixture
def name():
    return "n" + os.urandom(4).hex()


def url(server, query="", port=None):
    return server.url("?retry=200ms" + query, scheme="postgres+advisory", port=port)


def hashed(text):
    """The documented rule."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def record(holder, epoch=1, ttl_ms=15000):
    return json.dumps({"holder": holder, "incarnation": "1" * 32, "grant": "2" * 32,
                       "epoch": epoch, "ttl_ms": ttl_ms}).encode()


def locks(server, key):
    """The processes that hold the lock, as other programs would ask."""
    bits = key & 0xffffffffffffffff
    return server.sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
                      f" AND classid = {bits >> 32} AND objid = {bits & 0xffffffff}"
                      " AND objsubid = 1").split()


def claim(store, name, expect=None, holder="me", **options):
    return store.swap(f"{name}/lease", expect, record(holder, **options))


def free(store, name, expect):
    return store.swap(f"{name}/lease", expect, record(""))


def test_a_lease_is_written_under_the_lock_and_released_with_it(server, name):
    with Store(url(server)) as store:
        won = claim(store, name)
        assert won.status == "ok"
        assert len(locks(server, hashed(name))) == 1
        renewed = claim(store, name, won.token)
        assert renewed.status == "ok"
        assert store.read(f"{name}/lease").token == renewed.token
        assert len(locks(server, hashed(name))) == 1
        assert free(store, name, renewed.token).status == "ok"
        assert not locks(server, hashed(name))
        assert store.swap(f"{name}/other", None, record("me")).status == "ok"
        assert not locks(server, hashed(name))


@pytest.mark.parametrize("text, number", [
    ("1001", 1001), ("-5", -5), ("0", 0), ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -2**63), ("0x53636845644c6431", 0x53636845644c6431),
    ("0xFFFFFFFFFFFFFFFF", -1), ("0x8000000000000000", -2**63), ("0xa", 10),
    ("web", hashed("web")), ("SchEdLd1", hashed("SchEdLd1")), ("a/b-c.d_e", hashed("a/b-c.d_e")),
])
def test_the_key(server, name, text, number):
    with Store(url(server, f"&key={text}")) as store:
        assert claim(store, name).status == "ok"
        assert len(locks(server, number)) == 1


@pytest.mark.parametrize("text", [
    "", "12ab", "0x", "0xg", "0x12345678123456781", "9223372036854775808", "-9223372036854775809",
    "-", "--1", "+1", "1.5", "1%20", "%20web", "we%20b", "_x", "/x", "x/", "0b1", "1e3",
    "99999999999999999999999999"])
def test_a_key_that_cannot_be_read_is_an_error_and_never_another_key(server, text):
    with pytest.raises(StoreError) as caught:
        Store(url(server, f"&key={text}"))
    assert caught.value.status == "config" and "key" in caught.value.text


def test_another_program_that_holds_the_key_excludes_us_and_is_named(server, name):
    with Store(url(server)) as store, Psql(server, name="their-scheduler") as other:
        pid = other("SELECT pg_backend_pid()")
        assert other(f"SELECT pg_try_advisory_lock({hashed(name)})") == "t"
        refused = claim(store, name)
        assert refused.status == "unavailable"
        assert f"process {pid} (their-scheduler) of postgres" in refused.text
        assert not store.read(f"{name}/lease").token  # nothing was written
        assert claim(store, name).status == "unavailable"
        other(f"SELECT pg_advisory_unlock({hashed(name)})")
        until(lambda: claim(store, name).status == "ok")


def test_we_exclude_another_program_until_we_release(server, name):
    with Store(url(server)) as store, Psql(server) as other:
        won = claim(store, name)
        assert other(f"SELECT pg_try_advisory_lock({hashed(name)})") == "f"
        assert free(store, name, won.token).status == "ok"
        assert other(f"SELECT pg_try_advisory_lock({hashed(name)})") == "t"


def test_the_lock_goes_with_the_handle(server, name):
    with Store(url(server)) as store:
        assert claim(store, name).status == "ok"
    until(lambda: not locks(server, hashed(name)))


def test_a_claim_that_conflicts_gives_the_lock_back(server, name):
    with Store(url(server)) as store, Store(url(server)) as other:
        won = claim(store, name)
        gone = free(store, name, won.token)
        assert claim(other, name, won.token).status == "conflict"
        assert claim(other, name).status == "conflict"
        assert not locks(server, hashed(name))
        assert claim(store, name, gone.token).status == "ok"


def test_a_candidate_that_is_refused_finds_a_release_at_once(server, name):
    with Store(url(server)) as store, \
         Store(server.url("?retry=600s", scheme="postgres+advisory")) as other:
        won = claim(store, name)
        assert claim(other, name, won.token, holder="other").status == "unavailable"
        answers = []

        def stand_by():
            assert other.wait([(f"{name}/lease", won.token)], timeout=60)
            answers.append(claim(other, name, other.read(f"{name}/lease").token, holder="other"))

        thread = threading.Thread(target=stand_by)
        thread.start()
        assert free(store, name, won.token).status == "ok"
        thread.join()
        assert answers[0].status == "ok"


def test_a_session_that_is_killed_costs_no_leadership(server, name):
    with Store(url(server)) as store:
        token = claim(store, name).token
        for _ in range(3):
            server.end_sessions()
            assert not locks(server, hashed(name))
            token = claim(store, name, token).token
            assert token
            assert len(locks(server, hashed(name))) == 1


def test_a_lock_that_somebody_took_meanwhile_ends_the_renewals_but_not_the_release(server, name):
    with Store(url(server)) as store, Psql(server) as other:
        won = claim(store, name)
        server.end_sessions()
        assert other(f"SELECT pg_try_advisory_lock({hashed(name)})") == "t"
        refused = claim(store, name, won.token)
        assert refused.status == "unavailable" and "held by process" in refused.text
        assert store.read(f"{name}/lease").token == won.token
        assert free(store, name, won.token).status == "ok"  # nobody has to wait for us


def test_a_lock_that_is_no_longer_ours_to_hold_is_let_go(server, name):
    """An operator overwrites the lease: who read that gives the lock back."""
    with Store(url(server)) as store, Store(server.url()) as operator:
        won = claim(store, name)
        reset = operator.swap(f"{name}/lease", won.token, record("", epoch=9))
        assert reset.status == "ok"
        assert claim(store, name, won.token).status == "conflict"
        assert store.read(f"{name}/lease").token == reset.token
        assert not locks(server, hashed(name))


def test_one_handle_holds_one_lock(server, name):
    with Store(url(server)) as store:
        assert claim(store, name).status == "ok"
        answer = claim(store, name + "x")
        assert answer.status == "unsupported" and "another one" in answer.text
        status, answers, _ = store.swap_many([(f"{name}/a", None, b""), (f"{name}x/lease", None,
                                                                         record("me"))])
        assert status == "ok"
        assert answers[f"{name}/a"].status == "ok"
        assert answers[f"{name}x/lease"].status == "unsupported"


def test_a_holder_that_falls_silent_loses_the_lock(server, name):
    """Stopped, but its host answers for it: the server ends the session by itself."""
    with Store(url(server)) as store:
        won = claim(store, name, ttl_ms=1000)
        until(lambda: not locks(server, hashed(name)))
        assert claim(store, name, won.token, ttl_ms=1000).status == "ok"  # and it may come back
        store.swap(f"{name}/lease", store.read(f"{name}/lease").token, record("", ttl_ms=1000))
        time.sleep(1.5)  # a standby's session is not ended
        pid = server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure'")
        assert int(pid) >= 1


def test_a_hung_session_of_our_own_does_not_keep_us_out(server, name):
    with Proxy(("127.0.0.1", server.port)) as proxy:
        hosts = (f"postgres+advisory://postgres@127.0.0.1:{proxy.port},127.0.0.1:{server.port}"
                 "/postgres?retry=200ms")
        with Store(hosts) as store:
            won = claim(store, name, ttl_ms=600000)  # the server would keep the session for long
            assert won.status == "ok"
            proxy.hold("up", "down")
            # After three misses the session is given up; the next one is made past the proxy,
            # and meets the old one, of whose end the server knows nothing.
            done = until(lambda: renewing(store, name, won.token))
            assert done.status == "ok"
            proxy.release()


@pytest.mark.skipif(not Contained.POSSIBLE, reason="may not choose process ids here")
def test_a_process_id_that_repeats_is_somebody_else(name):
    """As after the restart of a server in a container: the stranger's session is not ended."""
    with Contained(autovacuum="off") as server, Store(url(server)) as store:
        won = claim(store, name)
        pid, = map(int, locks(server, hashed(name)))
        server.sql(f"SELECT pg_terminate_backend({pid})")
        until(lambda: not locks(server, hashed(name)))
        with server.session(pid) as stranger:
            assert stranger(f"SELECT pg_try_advisory_lock({hashed(name)})") == "t"
            for _ in range(3):
                refused = claim(store, name, won.token)
                assert refused.status == "unavailable" and f"held by process {pid}" in refused.text
            assert stranger("SELECT pg_backend_pid()") == str(pid)


def renewing(store, name, expect):
    answer = store.swap(f"{name}/lease", expect, record("me", ttl_ms=600000), timeout=1)
    assert answer.status in ("ok", "unknown", "timeout", "unavailable"), answer
    return answer if answer.status == "ok" else None


def test_a_slow_answer_does_not_cost_the_lock(server, name):
    with Proxy(("127.0.0.1", server.port)) as proxy, Store(url(server, port=proxy.port)) as store:
        token = claim(store, name).token
        token = claim(store, name, token).token
        pid = locks(server, hashed(name))
        assert not store.wait([(f"{name}/lease", token)], timeout=1)  # it listens, and remembers
        proxy.hold("down")
        lost = store.swap(f"{name}/lease", token, record("me"), timeout=0.5)
        assert lost.status == "unknown"
        proxy.release()
        assert store.wait([(f"{name}/lease", token)])
        value = store.read(f"{name}/lease")
        assert value.token.nonce == lost.nonce
        assert claim(store, name, value.token).status == "ok"
        assert locks(server, hashed(name)) == pid


@pytest.mark.skipif(server_postgres.MISSING_POOLER is not None,
                    reason=str(server_postgres.MISSING_POOLER))
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_is_refused(server, mode):
    with PgBouncer(server, mode, pool=20) as pooler:
        with pytest.raises(StoreError) as caught:
            Store(url(server, port=pooler.port))
        assert caught.value.status == "config" and "pooler" in caught.value.text


def test_a_session_that_is_reset_under_us_is_noticed(server, name):
    """What a pooler that we did not recognise would do between two statements."""
    server.sql(f"CREATE FUNCTION reset_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
               " PERFORM set_config('tenure.session', 'somebody else', false);"
               " RETURN NEW; END $$")
    with Store(url(server)) as store:
        won = claim(store, name)
        store.swap(f"{name}/x")
        server.sql(f"CREATE TRIGGER reset BEFORE UPDATE ON tenure.register FOR EACH ROW"
                   f" WHEN (NEW.key = '{name}/x') EXECUTE FUNCTION reset_{name}()")
        try:
            assert store.swap(f"{name}/x", store.read(f"{name}/x").token).status == "ok"
            refused = claim(store, name, won.token)
            assert refused.status == "unavailable" and "session was changed" in refused.text
            assert store.read(f"{name}/lease").token == won.token
        finally:
            server.sql("DROP TRIGGER reset ON tenure.register")


def test_takeover_delay_0_frees_the_lease_of_a_session_that_ended(server, name):
    quick = "&takeover_delay=0"
    with Store(url(server, quick)) as stand_by:
        leader = Store(url(server, quick))
        won = claim(leader, name, holder="leader")
        assert not stand_by.wait([(f"{name}/lease", won.token)], timeout=1)  # it lives
        leader.close()
        assert stand_by.wait([(f"{name}/lease", won.token)], timeout=60)
        value = stand_by.read(f"{name}/lease")
        assert json.loads(value.data)["holder"] == ""
        assert json.loads(value.data)["epoch"] == 1
        assert not locks(server, hashed(name))
        assert claim(stand_by, name, value.token, epoch=2).status == "ok"


def test_without_takeover_delay_0_a_dead_session_changes_nothing(server, name):
    with Store(url(server)) as stand_by:
        leader = Store(url(server))
        won = claim(leader, name, holder="leader")
        leader.close()
        until(lambda: not locks(server, hashed(name)))
        assert not stand_by.wait([(f"{name}/lease", won.token)], timeout=1.5)
        assert stand_by.read(f"{name}/lease").token == won.token


@pytest.mark.parametrize("query", ["", "&takeover_delay=0"])
def test_many_that_claim_at_once(server, name, query):
    """Of all claims on one token one succeeds, and one session ends up with the lock."""
    with Store(url(server)) as first:
        token = free(first, name, claim(first, name).token).token
    for _ in range(10):
        stores = [Store(url(server, query)) for _ in range(6)]
        answers = [None] * len(stores)
        gate = threading.Barrier(len(stores))

        def contend(i):
            gate.wait()
            answers[i] = claim(stores[i], name, token, holder=f"c{i}")

        threads = [threading.Thread(target=contend, args=(i,)) for i in range(len(stores))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        winners = [i for i, a in enumerate(answers) if a.status == "ok"]
        assert len(winners) <= 1, answers
        assert {a.status for a in answers} <= {"ok", "conflict", "unavailable"}
        if winners:
            assert len(locks(server, hashed(name))) == 1
            token = free(stores[winners[0]], name, answers[winners[0]].token).token
        for s in stores:
            s.close()
        until(lambda: not locks(server, hashed(name)))
