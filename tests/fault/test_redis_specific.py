"""What only Redis can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import threading

import pytest
import server_redis
from process import until
from proxy import Proxy
from server_redis import Redis
from tenure import Opening, Store, StoreError, Token

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))

REGISTER = "{tenure}:k:a/lease"


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


@pytest.fixture
def proxy(redis):
    with Proxy(("127.0.0.1", redis.port)) as between:
        yield between


def through(proxy, query=""):
    return Store(f"redis://127.0.0.1:{proxy.port}{query}")


def refused(call, *args, **named):
    with pytest.raises(StoreError) as caught:
        call(*args, **named)
    return caught.value


# ---- Lost answers, lost requests ---------------------------------------------------------------

def test_batch_with_a_lost_answer(redis, proxy):
    with through(proxy) as store, Store(redis.url()) as other:
        wanted = [(f"b/{i:04}", None, b"x" * 300) for i in range(2500)]
        status, done, _ = store.swap_many(wanted)
        assert status == "ok" and {a.status for a in done.values()} == {"ok"}
        proxy.cut_after("down", 700)  # the first script's answer is longer than that
        status, done, _ = store.swap_many([(k, done[k].token, b"y") for k, _, _ in wanted])
        assert status != "ok"
        found = dict(other.list("b/")[0])
        for key, answer in done.items():
            applied = found[key].token.nonce == answer.nonce
            assert answer.status == "unknown" or not applied, key
        assert {done[f"b/{i:04}"].status for i in range(1000)} == {"unknown"}
        assert {done[f"b/{i:04}"].status for i in range(1000, 2500)} == {"unavailable"}


# ---- The server --------------------------------------------------------------------------------

def test_restart_forgets_scripts_and_begins_a_new_timeline():
    with Redis(("appendonly", "yes"), ("appendfsync", "always")) as redis:
        with Store(redis.url()) as store:
            before = store.swap("a/lease", None, b"kept").token
            redis.restart()
            after = store.read("a/lease")
            assert after.data == b"kept" and after.token.nonce == before.nonce
            # The server may have forgotten something: who counts on the old token looks again.
            assert after.token.version != before.version
            assert store.swap("a/lease", before).status == "conflict"
            assert store.swap("a/lease", after.token).status == "ok"


def test_restart_of_a_server_without_a_disk_is_absence():
    with Redis() as redis, Store(redis.url()) as store:
        before = store.swap("a/lease").token
        assert b"may forget everything" in store.info().promise
        redis.restart()
        assert not store.read("a/lease").token
        assert store.swap("a/lease", before).status == "conflict"
        assert store.swap("a/lease").status == "ok"


def test_opening_waits_for_a_server_that_loads():
    with Redis(("key-load-delay", 50000), ("rdbcompression", "no"),
               ("loading-process-events-interval-bytes", 1024)) as redis:
        for i in range(200):
            redis.cmd("SET", f"ballast-{i}", "x" * 100)
        redis.cmd("SAVE")
        redis.kill()
        redis.spawn(["redis-server", str(redis.conf())])

        def loads():
            try:
                redis.cmd("PING")
            except server_redis.RedisReply as error:
                return "LOADING" in str(error)
            except OSError:
                return False
            raise AssertionError("it has loaded already")

        until(loads)
        assert refused(Store, redis.url(), timeout=0.3).status in ("unavailable", "timeout")
        opening = Opening(redis.url())
        opening.join(0.3)
        redis.cmd("CONFIG", "SET", "key-load-delay", 0)  # it has waited for long enough
        opening.opened().close()


def test_script_flush(redis):
    with Store(redis.url()) as store:
        base = store.swap("a/lease").token
        redis.cmd("SCRIPT", "FLUSH")
        done = store.swap("a/lease", base)
        assert done.status == "ok"
        redis.cmd("SCRIPT", "FLUSH")
        assert store.read("a/lease").token == done.token
        redis.cmd("SCRIPT", "FLUSH")
        assert store.wait([("a/lease", base)])
        redis.cmd("SCRIPT", "FLUSH")
        assert [key for key, _ in store.list("a/")[0]] == ["a/lease"]


def test_flushall_is_absence_and_old_tokens_never_fit(redis):
    with Store(redis.url()) as store:
        first = store.swap("a/lease").token
        mark = store.list("")[1]
        redis.cmd("FLUSHALL")
        assert not store.read("a/lease").token
        assert store.wait([("", mark)])
        assert store.swap("a/lease", first).status == "conflict"
        again = store.swap("a/lease")
        assert again.status == "ok"
        # The numbers began anew; the nonce tells the two apart.
        assert again.token.version == first.version and again.token != first
        assert store.swap("a/lease", first).status == "conflict"
        # Nor is the equal number taken for an unchanged listing.
        assert store.wait([("", mark)])


def test_lost_counter_does_not_restart_a_registers_numbers(redis):
    with Store(redis.url()) as store:
        token = None
        for _ in range(5):
            token = store.swap("a/lease", token).token
        redis.cmd("DEL", "{tenure}:seq")
        after = store.swap("a/lease", token)
        assert after.status == "ok"
        assert int(after.token.version.split("@")[0]) > int(token.version.split("@")[0])


def test_deleted_register_is_absence_everywhere(redis):
    with Store(redis.url()) as store:
        token = store.swap("a/lease").token
        store.swap("a/other")
        redis.cmd("DEL", REGISTER)
        assert not store.read("a/lease").token
        assert [key for key, _ in store.list("a/")[0]] == ["a/other"]
        assert store.wait([("a/lease", token)])


def test_lost_index_heals_with_the_next_change(redis):
    with Store(redis.url()) as store:
        token = store.swap("a/lease").token
        redis.cmd("DEL", "{tenure}:index")
        assert store.list("")[0] == []
        store.swap("a/lease", token)
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]


def test_large_numbers_stay_exact(redis):
    with Store(redis.url()) as store:
        redis.cmd("SET", "{tenure}:seq", f"{2**53 - 3} 0123456789abcdef")
        token = store.swap("a/lease").token
        assert token.version.startswith(f"{2**53 - 2}@")
        token = store.swap("a/lease", token).token
        assert token.version.startswith(f"{2**53 - 1}@")
        assert store.read("a/lease").token == token
        over = store.swap("a/lease", token)
        assert over.status == "corrupt" and "seq" in over.text
        assert store.read("a/lease").token == token


# ---- Refusals ----------------------------------------------------------------------------------

def test_out_of_memory(redis):
    with Store(redis.url()) as store:
        base = store.swap("a/lease").token
        redis.cmd("CONFIG", "SET", "maxmemory", "1")
        answer = store.swap("a/lease", base)
        assert answer.status == "unavailable" and "maxmemory" in answer.text
        assert store.read("a/lease").token == base
        redis.cmd("CONFIG", "SET", "maxmemory", "0")
        assert store.swap("a/lease", base).status == "ok"


def test_eviction_is_told(redis):
    redis.cmd("CONFIG", "SET", "maxmemory", "100mb")
    redis.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with Store(redis.url()) as store:
        assert b"allkeys-lru may evict leases" in store.info().promise


def test_busy_with_a_long_script():
    with Redis(("busy-reply-threshold", 50)) as redis, Store(redis.url()) as store:
        base = store.swap("a/lease").token
        hog = server_redis.Client(port=redis.port)
        hog.sock.settimeout(None)

        def run():
            with pytest.raises(server_redis.RedisReply):
                hog("EVAL", "while true do end", 0)

        thread = threading.Thread(target=run)
        thread.start()

        def busy():
            try:
                redis.cmd("PING")
            except server_redis.RedisReply as error:
                return "BUSY" in str(error)

        until(busy)
        answer = store.swap("a/lease", base)
        assert answer.status == "unavailable" and "busy" in answer.text
        redis.cmd("SCRIPT", "KILL")
        thread.join()
        hog.close()
        assert store.swap("a/lease", base).status == "ok"


def test_too_few_replicas_for_the_server(redis):
    with Store(redis.url()) as store:
        base = store.swap("a/lease").token
        redis.cmd("CONFIG", "SET", "min-replicas-to-write", "1")
        answer = store.swap("a/lease", base)
        assert answer.status == "unavailable" and "min-replicas-to-write" in answer.text
        # A master that has lost its replicas may have been replaced: it is not read either.
        assert refused(store.read, "a/lease").status == "unavailable"


def test_too_many_clients(redis):
    redis.cmd("CONFIG", "SET", "maxclients", "1")
    holder = server_redis.Client(port=redis.port)
    error = refused(Store, redis.url())
    assert error.status == "unavailable" and "too many clients" in error.text
    holder.close()


def test_replica_is_never_used():
    with Redis() as master, Redis(("replicaof", "127.0.0.1", master.port),
                                  ("repl-diskless-sync-delay", 0)) as replica:
        until(lambda: replica.info("replication", "master_link_status") == "up")
        error = refused(Store, replica.url())
        assert error.status == "unavailable" and "replica" in error.text
        replica.cmd("CONFIG", "SET", "replica-read-only", "no")
        error = refused(Store, replica.url())
        assert error.status == "unavailable" and "replica" in error.text


def test_master_that_is_demoted_is_not_read_any_more(redis):
    with Redis() as other, Store(redis.url()) as store:
        base = store.swap("a/lease").token
        redis.cmd("REPLICAOF", "127.0.0.1", other.port)
        error = refused(store.read, "a/lease")
        assert error.status == "unavailable" and "replica" in error.text
        assert store.swap("a/lease", base).status == "unavailable"
        assert refused(store.list, "").status == "unavailable"
        redis.cmd("REPLICAOF", "NO", "ONE")
        # Promoted again: another timeline.
        assert store.swap("a/lease", base).status == "conflict"


def test_replicas_that_must_confirm():
    with Redis() as master, Redis(("replicaof", "127.0.0.1", master.port),
                                  ("repl-diskless-sync-delay", 0)) as replica:
        until(lambda: replica.info("replication", "master_link_status") == "up")
        with Store(master.url("?replicas=1")) as store:
            assert b"waits for 1 replica" in store.info().promise
            base = store.swap("a/lease").token
            assert replica.cmd("GET", REGISTER).startswith(b"tenure1 ")
            replica.pause()
            lost = store.swap("a/lease", base, timeout=2)
            assert lost.status == "unknown" and "confirmed" in lost.text

            def unconfirmed():
                status = refused(store.read, "a/lease", timeout=0.6).status
                assert status in ("unavailable", "timeout")  # the machine stood still meanwhile
                return status == "unavailable"

            until(unconfirmed)
            replica.resume()

            def settled():
                try:
                    return store.read("a/lease").token.nonce == lost.nonce
                except StoreError:
                    return False

            until(settled)


# ---- What others have written ------------------------------------------------------------------

@pytest.mark.parametrize("command", [
    ("SET", REGISTER, "hello"),
    ("SET", REGISTER, ""),
    ("SET", REGISTER, "tenure1 "),
    ("SET", REGISTER, "tenure1 0 " + "1" * 32 + " " + "2" * 32 + " v\n"),
    ("SET", REGISTER, "tenure1 7 " + "0" * 32 + " " + "2" * 32 + " v\n"),
    ("SET", REGISTER, "tenure1 9007199254740992 " + "1" * 32 + " " + "2" * 32 + " v\n"),
    ("SET", REGISTER, "tenure1 7 " + "1" * 32 + " " + "2" * 32 + " x\n"),
    ("SET", REGISTER, "tenure1 7 " + "G" * 32 + " " + "2" * 32 + " v\n"),
    ("HSET", REGISTER, "version", "7"),
    ("SETRANGE", REGISTER, str(3 << 20), "x"),
])
def test_foreign_values_are_corrupt_and_not_touched(redis, command):
    redis.cmd(*command)
    redis.cmd("ZADD", "{tenure}:index", 0, "a/lease")
    dump = redis.cmd("DUMP", REGISTER)
    with Store(redis.url()) as store:
        error = refused(store.read, "a/lease")
        assert error.status == "corrupt" and "not touched" in error.text and "a/lease" in error.text
        ((_, listed),) = store.list("")[0]
        assert listed.token.version.startswith("damaged.") and b"not touched" in listed.data
        created = store.swap("a/lease")
        assert created.status in ("corrupt", "conflict")
        seen = Token()
        seen._version = b"7@" + redis.info("replication", "master_replid")[:16].encode()
        seen._nonce[0] = 1
        assert store.swap("a/lease", seen).status in ("corrupt", "conflict")
        assert store.swap("a/other").status == "ok"
    assert redis.cmd("DUMP", REGISTER) == dump


@pytest.mark.parametrize("key", ["seq", "index", "log"])
def test_foreign_books_are_corrupt_and_no_register_changes(redis, key):
    with Store(redis.url()) as store:
        base = store.swap("a/lease").token
        redis.cmd("DEL", "{tenure}:" + key)
        redis.cmd("LPUSH", "{tenure}:" + key, "what")
        assert store.swap("a/lease", base).status == "corrupt"
        assert store.read("a/lease").token == base


def test_index_with_foreign_names_is_not_believed(redis):
    with Store(redis.url()) as store:
        store.swap("a/lease")
        redis.cmd("ZADD", "{tenure}:index", 0, "../x", 0, "a//b", 0, b"\x00\xff", 0, "a/gone")
        redis.cmd("SET", "{tenure}:k:a//b", redis.cmd("GET", REGISTER))
        assert [key for key, _ in store.list("")[0]] == ["a/lease"]


# ---- Waiting -----------------------------------------------------------------------------------

def in_thread(call):
    box = []

    def run():
        try:
            box.append(call())
        except StoreError as error:
            box.append(error.status)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, box


def subscribed(redis, channel=REGISTER):
    return redis.cmd("PUBSUB", "NUMSUB", channel)[1] > 0


def test_subscription_that_comes_back_finds_the_change(redis, proxy):
    with through(proxy) as store, Store(redis.url()) as other:
        base = store.swap("a/lease").token
        thread, box = in_thread(lambda: store.wait([("a/lease", base)], timeout=60))
        until(lambda: subscribed(redis))
        proxy.hold("down")  # the news will not arrive
        other.swap("a/lease", base)
        proxy.cut()
        proxy.release()
        thread.join()
        assert box == [True]


def test_many_different_waits_on_one_handle(redis):
    with Store(redis.url()) as store, Store(redis.url()) as other:
        for i in range(70):
            assert not store.wait([(f"k/{i}", None)], timeout=0.001)
        token = other.swap("k/3").token
        assert store.wait([("k/3", None)])
        assert not store.wait([("k/3", token)], timeout=0.01)
