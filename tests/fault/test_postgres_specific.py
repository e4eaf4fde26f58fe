"""What only PostgreSQL can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

import pytest
import server_postgres
from process import until
from proxy import Proxy
from server_postgres import PgBouncer, Postgres, Psql
from server_redis import make_certificates
from tenure import Opening, Store, StoreError, Token

pytestmark = pytest.mark.skipif(server_postgres.MISSING is not None,
                                reason=str(server_postgres.MISSING))
pooled = pytest.mark.skipif(server_postgres.MISSING_POOLER is not None,
                            reason=str(server_postgres.MISSING_POOLER))

SECRET = "c4n4ry-s3cr3t"


@pytest.fixture(scope="module")
def server():
    """For tests that leave it as they found it."""
    with Postgres() as running:
        yield running


@pytest.fixture
def path(server):
    """A proxy in front of it, and a handle that has used it already."""
    with Proxy(("127.0.0.1", server.port)) as proxy, Store(server.url(port=proxy.port)) as store:
        warm(store)
        yield proxy, store


def warm(store):
    """The first of each kind is prepared before it is sent."""
    name = "warm-" + os.urandom(4).hex()
    token = store.swap(name).token
    assert store.swap(name, token).status == "ok"
    assert store.swap_many([(name + "/1", None, b"")])[0] == "ok"


@pytest.fixture
def key():
    return "test-" + os.urandom(4).hex()


def fails(what, *args, **options):
    with pytest.raises(StoreError) as caught:
        what(*args, **options)
    assert "\n" not in caught.value.text
    assert SECRET not in caught.value.text
    return caught.value


def opening(url, timeout=20):
    return fails(Store, url, timeout=timeout)


# ---- Unknown outcomes -------------------------------------------------------

def test_a_batch_whose_answer_is_lost_is_unknown_as_a_whole(path, key):
    proxy, store = path
    proxy.cut_after("down", 1)
    status, answers, _ = store.swap_many([(f"{key}/{i}", None, b"x") for i in range(50)])
    assert status == "unknown"
    assert {a.status for a in answers.values()} == {"unknown"}
    found, _ = store.list(key + "/")
    assert {k: v.token.nonce for k, v in found} == {k: a.nonce for k, a in answers.items()}


def test_a_swap_that_waits_for_a_locked_row_is_unknown_and_may_land(server, path, key):
    _, store = path
    base = store.swap(key)
    with Psql(server) as psql:
        psql(f"BEGIN; SELECT 1 FROM tenure.register WHERE key = '{key}' FOR UPDATE")
        late = store.swap(key, base.token, timeout=0.5)
        assert late.status == "unknown"
        psql("COMMIT")
    until(lambda: store.read(key).token.nonce in (late.nonce, base.nonce))


def test_a_lock_that_lasts_is_a_timeout_and_nothing_was_changed(server, path, key):
    _, store = path
    base = store.swap(key)
    with Psql(server) as psql:
        psql(f"BEGIN; SELECT 1 FROM tenure.register WHERE key = '{key}' FOR UPDATE")
        answer = store.swap(key, base.token)
        assert answer.status == "timeout" and "another transaction holds the row" in answer.text
    assert store.read(key).token == base.token


# ---- The server comes and goes ----------------------------------------------

def reading(store, key):
    try:
        return store.read(key, timeout=5)
    except StoreError as error:
        assert error.status in ("timeout", "unavailable"), error
        return None


def test_a_server_that_is_restarted_costs_no_unknown_answer(key):
    with Postgres() as server, Store(server.url()) as store:
        base = store.swap(key)
        server.restart()
        again = store.swap(key, base.token)
        assert again.status == "ok"
        server.shutdown()
        answer = store.swap(key, again.token, timeout=2)
        assert answer.status == "unavailable" and "is the server up" in answer.text
        assert fails(store.read, key, timeout=2).status == "unavailable"
        server.start()
        assert store.read(key).token == again.token


def test_what_was_answered_survives_a_crash(key):
    with Postgres() as server:
        server.sql("ALTER ROLE postgres SET synchronous_commit = off")
        with Store(server.url()) as store:
            token = None
            for i in range(200):
                token = store.swap(key, token, b"%d" % i).token
            server.kill()
            server.start()
            seen = until(lambda: reading(store, key))
            assert (seen.token, seen.data) == (token, b"199")


def test_sessions_that_an_operator_ends(server, key):
    """Without a proxy: it would tell the end of a session when it gets to it, and a swap that is sent
    before that has no known outcome."""
    with Store(server.url()) as store:
        warm(store)
        token = store.swap(key).token
        for _ in range(5):
            server.end_sessions()
            answer = store.swap(key, token)
            assert answer.status == "ok", answer
            token = answer.token
        assert store.read(key).token == token


# ---- Waiting ----------------------------------------------------------------

def test_short_waits_do_not_wear_out_a_slow_connection(server, path, key):
    proxy, store = path
    token = store.swap(key).token
    pid = server.sql("SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity"
                     " WHERE application_name = 'tenure'")
    proxy.delay = 0.2
    for _ in range(5):
        assert not store.wait([(key, token)], timeout=0.05)
    assert store.read(key).token == token
    assert pid == server.sql("SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity"
                             " WHERE application_name = 'tenure'")


# ---- Batches ----------------------------------------------------------------

def test_ten_thousand_and_one_in_one_call_each_with_its_answer(server, path, key):
    _, store = path
    keys = [f"{key}/{i:05}" for i in range(10001)]
    status, first, _ = store.swap_many([(k, None, b"1") for k in keys], timeout=120)
    assert status == "ok" and {a.status for a in first.values()} == {"ok"}
    for k in keys[::100]:
        assert store.swap(k, first[k].token).status == "ok"
    status, second, _ = store.swap_many([(k, first[k].token, b"2") for k in keys], timeout=120)
    assert status == "ok"
    assert [k for k in keys if second[k].status == "conflict"] == keys[::100]
    assert {a.status for k, a in second.items() if k not in set(keys[::100])} == {"ok"}
    found, _ = store.list(key + "/", timeout=120)
    assert [k for k, _ in found] == keys
    assert all(v.token == second[k].token for k, v in found if second[k].status == "ok")


def test_batches_that_cross_do_not_deadlock(server, key):
    """Large ones visit the rows as they lie, small ones as the index has them: the other way."""
    keys = [f"{key}/{i:04}" for i in range(3000)]
    with Store(server.url()) as store:
        server.sql("INSERT INTO tenure.register SELECT k, 1, gen_random_uuid(), NULL, false, ''"
                   f" FROM (SELECT '{key}/' || lpad(i::text, 4, '0') AS k"
                   "       FROM generate_series(2999, 0, -1) i) n")
        server.sql("ANALYZE tenure.register")
        for _ in range(4):
            tokens = {k: v.token for k, v in store.list(key + "/")[0]}
            wins, lock = [], threading.Lock()

            def contend(mine):
                with Store(server.url()) as handle:
                    status, answers, text = handle.swap_many([(k, tokens[k], b"x") for k in mine],
                                                             timeout=60)
                    assert status == "ok", text
                    with lock:
                        wins.extend(k for k, a in answers.items() if a.status == "ok")

            errors = []

            def run(mine):
                try:
                    contend(mine)
                except AssertionError as error:
                    errors.append(error)

            threads = [threading.Thread(target=run, args=(mine,))
                       for mine in (keys, keys[::10], keys, keys[::12], keys[::15])]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert not errors
            assert sorted(wins) == keys  # each exactly once


def test_batches_go_one_after_the_other(server, path, key):
    """So that no two of them can wait for each other's rows."""
    _, store = path
    with Psql(server) as other:
        other("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('tenure batch tenure', 0))")
        status, answers, _ = store.swap_many([(f"{key}/1", None, b"")], timeout=0.5)
        assert status == "unknown" and answers[f"{key}/1"].status == "unknown"
        assert not store.read(f"{key}/1").token
        other("COMMIT")
    # The first may have landed by now, or never will.
    assert store.swap_many([(f"{key}/1", None, b"")])[1][f"{key}/1"].status in ("ok", "conflict")


def test_batches_of_other_elections_do_not_wait(server, key):
    """Names may hold slashes: these two are elections of their own."""
    keys = {name: [f"{key}/{name}/state/c/{i}" for i in range(3)] for name in "ab"}
    gate = key.replace("-", "_")
    server.sql(f"CREATE TABLE {gate} (); CREATE FUNCTION {gate}() RETURNS trigger LANGUAGE plpgsql"
               f" AS $$ BEGIN WHILE NOT EXISTS (SELECT FROM public.{gate}) LOOP"
               " PERFORM pg_sleep(0.01); END LOOP; RETURN NEW; END $$")
    with Store(server.url()) as one, Store(server.url()) as two:
        base = {name: one.swap_many([(k, None, b"1") for k in keys[name]])[1] for name in "ab"}

        def swap(store, name):
            return store.swap_many([(k, base[name][k].token, b"2") for k in keys[name]], timeout=60)

        found = []
        first = threading.Thread(target=lambda: found.append(swap(one, "a")))
        server.sql(f"CREATE TRIGGER {gate} BEFORE UPDATE ON tenure.register FOR EACH ROW"
                   f" WHEN (NEW.key = '{keys['a'][1]}') EXECUTE FUNCTION {gate}()")
        try:
            first.start()
            until(lambda: server.sql("SELECT count(*) FROM pg_stat_activity"
                                     " WHERE wait_event = 'PgSleep'") == "1")
            found.append(swap(two, "b"))  # while the first is in the middle of its rows
        finally:
            server.sql(f"INSERT INTO {gate} DEFAULT VALUES")
            first.join()
            server.sql(f"DROP TRIGGER {gate} ON tenure.register")
    assert [list(answers) for _, answers, _ in found] == [keys["b"], keys["a"]]
    assert {a.status for _, answers, _ in found for a in answers.values()} == {"ok"}


def test_a_batch_over_several_elections_goes_alone(server, path, key):
    _, store = path
    with Psql(server) as other:
        other("BEGIN; SELECT pg_advisory_xact_lock_shared(hashtextextended('tenure batch tenure',"
              " 0))")
        assert store.swap_many([(f"{key}/1", None, b""), (f"{key}/2", None, b"")])[0] == "ok"
        status, _, _ = store.swap_many([(f"{key}/3", None, b""), (f"{key}-x/3", None, b"")],
                                       timeout=0.5)
        assert status == "unknown"
        other("COMMIT")


def test_commits_of_documents_notify_nobody(server, key):
    """A commit that notifies makes the commits of all other elections wait for its flush."""
    document, plain = f"{key}/state/c/1", f"{key}/lease"
    heard = ""
    with Psql(server) as listener, Store(server.url()) as store:
        listener("LISTEN tenure")
        token = store.swap(document).token
        assert store.swap(document, token).status == "ok"
        assert store.swap_many([(f"{key}/state/d/{i}", None, b"1") for i in range(40)])[0] == "ok"
        assert store.swap_many([(f"{key}/state/e/1", None, b"1"), (plain, None, b"1")])[0] == "ok"

        def hear():
            nonlocal heard
            heard += listener("SELECT 1")
            return plain in heard

        until(hear)
        assert "/state/" not in heard and 'payload ""' not in heard


@pytest.mark.parametrize("prefix", [False, True])
def test_a_wait_for_documents_ends_with_their_change(server, key, prefix):
    """Also of what the waiting session has read before."""
    document = f"{key}/state/c/1"
    with Store(server.url()) as writer, Store(server.url("?poll=100ms")) as waiter:
        token = writer.swap(document).token
        assert not waiter.wait([(document, token)], timeout=0.2)  # it listens from now on
        seen = waiter.list(f"{key}/state/c/")[1] if prefix else waiter.read(document).token
        assert writer.swap(document, token).status == "ok"
        assert waiter.wait([(f"{key}/state/c/" if prefix else document, seen)], timeout=60)


def test_a_batch_that_meets_a_change_under_way_looks_again(server, path, key):
    """Its snapshot still has the row as it was; the comparison is with what was committed (C2)."""
    _, store = path
    keys = [f"{key}/{i}" for i in range(3)]
    _, base, _ = store.swap_many([(k, None, b"1") for k in keys])
    found = []
    batch = threading.Thread(target=lambda: found.append(
        store.swap_many([(k, base[k].token, b"2") for k in keys], timeout=120)))
    with Psql(server) as other:
        other("BEGIN; UPDATE tenure.register SET version = version + 1, nonce = gen_random_uuid()"
              f" WHERE key = '{keys[1]}'")
        batch.start()
        until(lambda: server.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1")
        other("COMMIT")
        batch.join()
    status, answers, text = found[0]
    assert status == "ok", text
    assert [answers[k].status for k in keys] == ["ok", "conflict", "ok"]
    assert [store.read(k).token == answers[k].token for k in keys] == [True, False, True]


# ---- Who may, and what is there ----------------------------------------------

def test_a_wrong_password_is_denied_and_not_shown(key):
    with Postgres() as server:
        server.sql(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}-right'")
        server.sql("GRANT CREATE ON DATABASE postgres TO app")
        server.hba("host all all 127.0.0.1/32 scram-sha-256")
        error = opening(server.url(user=f"app:{SECRET}-wrong"))
        assert error.status == "denied" and "password" in error.text
        assert opening(server.url(user="app")).status == "denied"  # none given
        error = opening(server.url(user=f"nobody:{SECRET}"))
        assert error.status == "denied"
        with Store(server.url(user=f"app:{SECRET}-right")) as store:
            token = store.swap(key).token
            server.sql("ALTER ROLE app PASSWORD 'rotated'")
            assert store.swap(key, token).status == "ok"  # the session lives on
            server.end_sessions("usename = 'app'")
            assert fails(store.read, key).status == "denied"


def test_a_password_from_a_file_is_read_at_every_connect(key, tmp_path, monkeypatch):
    file = tmp_path / "pgpass"
    file.write_text("*:*:*:app:one\n")
    file.chmod(0o600)
    service = tmp_path / "service"
    with Postgres() as server:
        service.write_text(f"[here]\nhost=127.0.0.1\nport={server.port}\nuser=app\n"
                           f"dbname=postgres\npassfile={file}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(service))
        server.sql("CREATE ROLE app LOGIN PASSWORD 'one'; GRANT CREATE ON DATABASE postgres TO app")
        server.hba("host all all 127.0.0.1/32 scram-sha-256")
        with Store("postgres:///?service=here") as store:
            token = store.swap(key).token
            server.sql("ALTER ROLE app PASSWORD 'two'")
            file.write_text("*:*:*:app:two\n")
            server.end_sessions("usename = 'app'")
            assert store.read(key).token == token


def test_rights_that_are_missing_are_named_with_their_fix(server, key):
    role = "r" + key.replace("-", "")
    server.sql(f"CREATE ROLE {role} LOGIN")
    with Store(server.url()):
        pass  # makes the table
    error = opening(server.url(user=role))
    assert error.status == "denied"
    grants = re.search(r"GRANT.*", error.text).group()
    usage, table = grants.split("; ")
    server.sql(usage)
    server.sql(table.replace("SELECT, INSERT, UPDATE", "SELECT"))
    with Store(server.url(user=role)) as store:
        assert not store.read(key).token
        answer = store.swap(key)
        assert answer.status == "denied" and "GRANT SELECT, INSERT, UPDATE" in answer.text
        server.sql(table)
        assert store.swap(key).status == "ok"


def test_a_schema_that_is_missing(key):
    with Postgres() as server:
        server.sql("CREATE ROLE app LOGIN")
        for url in (server.url("?create=off"), server.url(user="app")):
            error = opening(url)
            assert error.status == "config" and "tenure store schema" in error.text
        with Store(server.url()) as store:
            store.swap(key)
            server.sql("DROP SCHEMA tenure CASCADE")
            # Gone is not absent, and nobody makes it anew behind the operator's back.
            assert fails(store.read, key).status == "config"
            assert store.swap(key).status == "config"
            assert fails(store.list).status == "config"
            assert fails(store.wait, [(key, None)]).status == "config"
        with Store(server.url()) as store:
            assert store.swap(key).status == "ok"


def test_what_an_owner_runs_is_printed_and_is_enough(build, key):
    with Postgres() as server:
        server.sql('CREATE ROLE "the App" LOGIN')
        for _ in range(2):  # again: nothing changes
            script = subprocess.run([build / "tenure", "store", "schema", "--store",
                                     "postgres://?schema=leases", "--role", "the App"],
                                    capture_output=True, text=True, check=True).stdout
            server.sql(script)
        with Store(server.url("?schema=leases&create=off", user="the%20App")) as store:
            token = store.swap(key).token
            assert store.swap(key, token).status == "ok"
            assert store.swap_many([(key + "/1", None, b"")])[0] == "ok"
            assert len(store.list(key)[0]) == 2


def test_many_that_start_at_once_make_one_schema():
    with Postgres() as server:
        stores, errors = [], []

        def start():
            try:
                stores.append(Store(server.url()))
            except StoreError as error:
                errors.append(error)

        threads = [threading.Thread(target=start) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors
        for s in stores:
            s.close()


def test_another_table_under_our_name(server, key):
    name = "s" + key.replace("-", "")
    server.sql(f"CREATE SCHEMA {name}; CREATE TABLE {name}.register (key text)")
    error = opening(server.url(f"?schema={name}"))
    assert error.status == "config" and "another version" in error.text


def test_a_table_with_other_types(server, key):
    name = "t" + key.replace("-", "")
    server.sql(f"CREATE SCHEMA {name}; CREATE TABLE {name}.register (key text PRIMARY KEY,"
               " version int4, nonce text, prev text, tombstone text, data text);"
               f"INSERT INTO {name}.register VALUES ('{key}', 1, 'n', 'p', 't', 'd')")
    with Store(server.url(f"?schema={name}")) as store:  # the columns are there
        assert fails(store.read, key).status == "corrupt"
        assert [value.token.version[:8] for _, value in store.list()[0]] == ["damaged."]
        guess = Token(_version=b"1@1")
        guess._nonce[0] = 1
        assert store.swap(key, guess).status == "config"


def test_rows_that_make_no_sense_are_corrupt_and_left_alone(server, path, key):
    _, store = path
    with Store(server.url(f"?schema=x{key[5:]}")) as other:
        other.swap(key)
        server.sql(f"UPDATE x{key[5:]}.register SET nonce = '00000000-0000-0000-0000-000000000000'")
        assert fails(other.read, key).status == "corrupt"
        assert [value.token.version[:8] for _, value in other.list()[0]] == ["damaged."]
        server.sql(f"UPDATE x{key[5:]}.register SET key = '../../etc',"
                   " nonce = '00000000-0000-0000-0000-000000000001'")
        assert fails(other.list).status == "corrupt"


def test_a_database_or_a_slot_that_is_not_there(server, key):
    assert opening(server.url() + "_nowhere").status == "config"
    role = "r" + key.replace("-", "")
    server.sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    error = opening(server.url(user=role))
    assert error.status == "unavailable" and "no more connections" in error.text


def test_a_disk_that_is_full(key):
    disk = pathlib.Path(tempfile.mkdtemp(prefix="tenure-disk-"))
    disk.chmod(0o755)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
                      capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        (disk / "space").mkdir()
        server_postgres._give(disk / "space")
        with Postgres() as server, Store(server.url()) as store:
            server.sql(f"CREATE TABLESPACE small LOCATION '{disk}/space'")
            server.sql("ALTER TABLE tenure.register SET TABLESPACE small")
            token = store.swap(key).token
            with Store(server.url()) as filler:
                answer = until(lambda: full(filler))
            assert answer.status == "unavailable" and "disk is full" in answer.text
            assert store.read(key).token == token
            subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
            assert store.swap(key, token, os.urandom(60000)).status == "ok"
    finally:
        subprocess.run(["umount", disk], check=True)
        disk.rmdir()


def full(store):
    answer = store.swap("fill-" + os.urandom(4).hex(), data=os.urandom(60000))
    return answer if answer.status != "ok" else None


def test_a_host_that_nobody_knows():
    error = opening(f"postgres://u:{SECRET}@no-such-host.invalid/x?sslmode=require", timeout=5)
    assert error.status in ("unavailable", "timeout") and "no-such-host.invalid" in error.text


class Starting(Postgres):
    """A standby that serves nobody until it is promoted: as after a crash, for as long as it takes."""

    def answers(self):
        said = subprocess.run(["psql", "-XAtc", "SELECT 1", self.url()], capture_output=True,
                              text=True).stderr
        return "starting up" in said or "not accepting connections" in said


def test_opening_waits_for_a_server_that_starts():
    with Postgres() as primary, Starting(copy_of=primary, hot_standby="off") as server:
        error = opening(server.url(), timeout=0.5)
        assert error.status == "unavailable" and "starting up" in error.text
        waits = Opening(server.url())
        waits.join(0.3)
        (server.data / "promote").touch()
        server.signal(signal.SIGUSR1)
        waits.opened().close()


@pytest.mark.parametrize("url, word", [
    ("postgres:database", "//"),
    (f"postgres://u:{SECRET}@h/d?colour=red", "colour"),
    (f"postgres://u:{SECRET}@h/d?key=5", "key"),
    (f"postgres://u:{SECRET}@h:port/d", "port"),
    (f"postgres://u:{SECRET}@h:99999/d", "port"),
    (f"postgres://u:a/{SECRET}@h/d", "%2F"),
    (f"postgres://u:a@{SECRET}@h/d", "%40"),
    (f"postgres://{SECRET}:{SECRET}/d", "port"),
    (f"postgres://u:{SECRET}@[::1/d", "URL"),
    (f"postgres://u:{SECRET}@h/d?sslmode=maybe", "sslmode"),
    (f"postgres://u:{SECRET}@a,b,c:1,2/d?port=1,2", "port"),
    ("postgres://h/d?schema=a-b", "schema"),
    ("postgres://h/d?schema=" + "a" * 60, "schema"),
    ("postgres://h/d?create=maybe", "create"),
    ("postgres://h/d?poll=1", "poll"),
    ("postgres://h/d?poll=0s", "poll"),
    ("postgres+advisory://h/d?takeover_delay=3s", "takeover_delay"),
])
def test_a_url_that_cannot_work(url, word):
    error = opening(url)
    assert error.status == "config" and word in error.text


# ---- Standbys and durability -------------------------------------------------

def test_a_standby_is_refused_and_another_host_is_found(key):
    with Postgres() as primary, Store(primary.url()) as store, Postgres(copy_of=primary) as standby:
        token = store.swap(key).token
        error = opening(standby.url())
        assert error.status == "unavailable" and "standby" in error.text
        both = f"postgres://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
        with Store(both) as found:
            assert found.read(key).token == token
            # The primary fails, the standby is promoted: the next call finds it.
            until(lambda: standby.sql("SELECT count(*) FROM tenure.register WHERE nonce::text ="
                                      f" '{uuid(token.nonce)}'") == "1")
            primary.kill()
            standby.sql("SELECT pg_promote()")
            seen = until(lambda: reading(found, key))
            # The same value, but the token is a new one: whoever waits starts over.
            assert seen.token.nonce == token.nonce and seen.token.version != token.version
            assert found.swap(key, token).status == "conflict"
            assert found.swap(key, seen.token).status == "ok"


def test_a_renewal_that_a_fail_over_lost_does_not_age_the_one_before(key):
    """A standby that knew the older value for long must not believe that it went on being so."""
    with Postgres() as primary, Store(primary.url()) as store, Postgres(copy_of=primary) as standby:
        with Store(f"postgres://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
                   "/postgres") as watcher:
            old = store.swap(key)
            until(lambda: watcher.read(key).token == old.token)
            until(lambda: standby.sql("SELECT count(*) FROM tenure.register WHERE nonce ="
                                      f" '{uuid(old.nonce)}'") == "1")
            standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
            standby.sql("SELECT pg_reload_conf()")
            until(lambda: primary.sql("SELECT count(*) FROM pg_stat_replication") == "0")
            assert store.swap(key, old.token, b"renewed").status == "ok"
            primary.kill()
            standby.sql("SELECT pg_promote()")
            seen = until(lambda: reading(watcher, key))
            assert seen.token.nonce == old.nonce  # what was answered is lost
            assert seen.token != old.token
            assert watcher.wait([(key, old.token)])


def test_a_server_that_does_not_tell_its_timeline(server, key):
    role = "r" + key.replace("-", "")
    server.sql(f"CREATE ROLE {role} LOGIN")
    server.sql("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC")
    try:
        with Store(server.url(f"?schema={role}")):
            pass
        server.sql(f"GRANT USAGE ON SCHEMA {role} TO {role};"
                   f"GRANT ALL ON {role}.register TO {role}")
        with Store(server.url(f"?schema={role}", user=role)) as store:
            token = store.swap(key).token
            assert token.version == "1@0"
            assert store.read(key).token == token
            assert store.swap(key, token).token.version == "2@0"
            assert store.swap_many([(key + "/1", None, b"")])[0] == "ok"
            # Of that session alone: the next one asks again.
            server.sql("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO PUBLIC")
            server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")
            assert until(lambda: reading(store, key)).token.version == "2@1"
    finally:
        server.sql("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO PUBLIC")


def uuid(nonce):
    text = nonce.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def test_a_session_that_may_only_read(server, path, key):
    _, store = path
    server.sql("ALTER SYSTEM SET default_transaction_read_only = on")
    server.sql("SELECT pg_reload_conf()")
    try:
        until(lambda: server.sql("SHOW default_transaction_read_only") == "on")
        answer = store.swap(key)
        assert answer.status == "unavailable" and "read-only" in answer.text
    finally:
        server.sql("ALTER SYSTEM RESET default_transaction_read_only")
        server.sql("SELECT pg_reload_conf()")
    until(lambda: store.swap(key).status in ("ok", "conflict"))


@pooled
def test_what_it_says_of_itself(server):
    with PgBouncer(server) as pooler, Store(server.url()) as direct, \
         Store(server.url(port=pooler.port)) as shared, Store(server.url("?notify=off")) as quiet:
        assert [s.info().notifies for s in (direct, shared, quiet)] == [True, False, False]
        assert direct.info().scheme == b"postgres" and direct.info().shared
        assert b"synchronous_commit=on" in direct.info().promise
        assert b"asynchronous replica" in direct.info().promise


@pooled
def test_commits_are_synchronous_whatever_the_role_says(key):
    with Postgres() as server, PgBouncer(server) as pooler:
        with Store(server.url()):
            pass
        server.sql("CREATE TABLE spy (setting text); GRANT ALL ON spy TO PUBLIC")
        server.sql("CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                   " INSERT INTO public.spy VALUES (current_setting('synchronous_commit'));"
                   " RETURN NULL; END $$")
        server.sql("CREATE TRIGGER look AFTER INSERT OR UPDATE ON tenure.register"
                   " EXECUTE FUNCTION look()")
        for setting, want in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
            server.sql(f"ALTER ROLE postgres SET synchronous_commit = {setting}")
            server.end_sessions("true")
            for url in (server.url(), server.url(port=pooler.port)):
                until(lambda: reading_url(url, key))
                with Store(url) as store:
                    server.sql("TRUNCATE spy")
                    key += "x"
                    token = store.swap(key).token
                    assert store.swap(key, token).status == "ok"
                    assert store.swap_many([(key + "/b", None, b"")])[0] == "ok"
                    assert server.sql("SELECT string_agg(DISTINCT setting, ',') FROM spy") == want


def reading_url(url, key):
    try:
        with Store(url, timeout=5) as store:
            return store.read(key)
    except StoreError:
        return None


def test_a_commit_that_was_not_replicated_is_not_told_as_done(key):
    with Postgres() as server, Store(server.url()) as store:
        base = store.swap(key)
        assert not store.wait([(key, base.token)], timeout=1)  # it listens, and remembers
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.sql("SELECT pg_reload_conf()")
        until(lambda: server.sql("SHOW synchronous_standby_names") == "nobody")
        answers = []
        swap = threading.Thread(target=lambda: answers.append(store.swap(key, base.token)))
        swap.start()
        waiting = ("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                   " AND application_name = 'tenure'")
        pid = until(lambda: server.sql(waiting))
        server.sql(f"SELECT pg_cancel_backend({pid})")
        swap.join()
        assert answers[0].status == "unknown" and "replica" in answers[0].text
        assert store.wait([(key, base.token)])  # for it is there


def test_a_commit_that_fails_after_the_statement_succeeded_is_not_told_as_done(server, path, key):
    _, store = path
    base = store.swap(key)
    name = "no" + key.replace("-", "")
    server.sql(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
               " $$ BEGIN RAISE 'not today'; END $$")
    server.sql(f"CREATE CONSTRAINT TRIGGER {name} AFTER UPDATE ON tenure.register"
               f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.key = '{key}')"
               f" EXECUTE FUNCTION {name}()")
    try:
        answer = store.swap(key, base.token)
        assert answer.status == "unavailable" and "not today" in answer.text
        assert store.read(key).token == base.token
    finally:
        server.sql(f"DROP TRIGGER {name} ON tenure.register")
    assert store.swap(key, base.token).status == "ok"


# ---- TLS ---------------------------------------------------------------------

@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    ca, cert, secret = make_certificates(folder)
    with Postgres() as server:
        server.use_tls(cert, secret)
        server.hba("hostssl all all 127.0.0.1/32 trust")
        yield server, ca


def test_tls_verifies_chain_and_name(secure, key):
    server, ca = secure
    named = f"?sslmode=verify-full&sslrootcert={ca}"
    with Store(server.url(named, host="localhost")) as store:
        assert store.swap(key, data=b"x" * 300000).status == "ok"
        assert store.read(key).data == b"x" * 300000
    error = opening(server.url(named))  # by address: the certificate says localhost
    assert error.status == "config" and "does not match" in error.text
    error = opening(server.url("?sslmode=verify-full&sslrootcert=/nowhere", host="localhost"))
    assert error.status == "config" and "sslrootcert" in error.text


def test_tls_is_verified_by_default_where_the_host_is_remote(secure, key, monkeypatch):
    server, ca = secure
    with Store(server.url()) as store:  # local: no certificate is asked for
        assert store.swap(key).status == "ok"
    odd = "127.1"  # resolves to 127.0.0.1, but does not look local
    error = opening(server.url(host=odd))
    assert error.status == "config" and "sslrootcert" in error.text
    error = opening(server.url(f"?sslrootcert={ca}", host=odd))
    assert error.status == "config" and "does not match" in error.text
    monkeypatch.setenv("PGSSLMODE", "prefer")  # libpq's own default is not somebody's choice
    assert opening(server.url(f"?sslrootcert={ca}", host=odd)).status == "config"
    for query, mode in (("?sslmode=require", None), ("?sslmode=prefer", None), ("", "require")):
        if mode:
            monkeypatch.setenv("PGSSLMODE", mode)
        with Store(server.url(query, host=odd)) as store:
            assert store.read(key).token
