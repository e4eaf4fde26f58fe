"""Whole candidates (tenure run, its guard, a program) on a real PostgreSQL that fails.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import os
import signal

import pytest
import server_postgres
from process import until
from proxy import Proxy
from server_postgres import Postgres, Psql
from test_postgres_advisory import hashed, locks
from world import World

pytestmark = pytest.mark.skipif(server_postgres.MISSING is not None,
                                reason=str(server_postgres.MISSING))
schemes = pytest.mark.parametrize("scheme", ["postgres", "postgres+advisory"])


@pytest.fixture
def server():
    with Postgres() as running:
        yield running


def pair(server, scheme, ttl_ms=2000, port=None):
    """A leader, perhaps behind a proxy, and a stand-by that reaches the server directly."""
    query = "?retry=300ms" if scheme == "postgres+advisory" else ""
    world = World(url=server.url(query, scheme=scheme, port=port), ttl_ms=ttl_ms)
    try:
        leader = world.start()
        world.next_leader(0)
        world.url = server.url(query, scheme=scheme)
        return world, leader, world.start()
    except BaseException:
        world.__exit__(Exception, None, None)
        raise


def version(server):
    return int(server.sql("SELECT version FROM tenure.register WHERE key = 'w/lease'"))


def renewals(server, count=2):
    """Wait for so many more changes of the lease."""
    from_version = version(server)
    until(lambda: version(server) >= from_version + count, limit=60)


@schemes
def test_a_clean_stop_and_a_crash_pass_it_on(server, scheme):
    world, leader, _ = pair(server, scheme, ttl_ms=15000)
    with world:
        epoch = world.table.top()
        leader.signal(signal.SIGTERM)
        epoch = world.next_leader(epoch).epoch
        world.forget(leader)
        world.start()
        victim = world.leader()
        victim.signal(signal.SIGKILL)
        world.next_leader(epoch)  # long before 15 s: the guard released
        world.forget(victim)


@schemes
def test_a_server_that_restarts(server, scheme):
    world, _, _ = pair(server, scheme, ttl_ms=5000)
    with world:
        for _ in range(2):
            server.restart()
            renewals(server)
        for _ in range(2):
            server.kill()
            server.start()
            renewals(server)


@schemes
def test_a_server_that_hangs_for_longer_than_the_lease(server, scheme):
    world, _, _ = pair(server, scheme)
    with world:
        epoch = world.table.top()
        server.pause()
        world.dead(epoch)  # by its own clock
        server.resume()
        world.next_leader(epoch)


@schemes
def test_a_leader_that_is_cut_off(server, scheme):
    with Proxy(("127.0.0.1", server.port)) as proxy:
        world, _, _ = pair(server, scheme, port=proxy.port)
        with world:
            epoch = world.table.top()
            proxy.hold("up", "down")
            world.next_leader(epoch)
            proxy.release()
            renewals(server)


@schemes
def test_answers_that_are_lost_again_and_again_cost_no_leadership(server, scheme):
    with Proxy(("127.0.0.1", server.port)) as proxy:
        world, leader, _ = pair(server, scheme, ttl_ms=6000, port=proxy.port)
        with world:
            epoch = world.table.top()
            for _ in range(3):
                proxy.cut_after("down", 1)
                renewals(server)
            assert world.table.top() == epoch and world.leader() is leader


@schemes
def test_sessions_that_are_killed_cost_no_leadership(server, scheme):
    world, leader, _ = pair(server, scheme, ttl_ms=6000)
    with world:
        epoch = world.table.top()
        for _ in range(3):
            server.end_sessions()
            renewals(server, 1)
        assert world.table.top() == epoch and world.leader() is leader


@schemes
def test_a_record_that_is_deleted_or_put_back_does_not_take_the_epoch_back(server, scheme):
    with World(url=server.url(scheme=scheme), ttl_ms=1000) as world:
        world.start()
        epoch = world.next_leader(0).epoch
        server.sql("CREATE TABLE dump AS SELECT * FROM tenure.register")
        server.sql("DELETE FROM tenure.register")
        epoch = world.next_leader(epoch).epoch
        server.sql("UPDATE tenure.register r SET version = d.version, nonce = d.nonce,"
                   " prev = d.prev, data = d.data FROM dump d WHERE d.key = r.key")
        world.next_leader(epoch)


def test_a_stopped_leader_does_not_keep_the_lock(server):
    """Its host answers for it, so the session would live for ever; the guard ends its program,
    the server ends its session, and the stand-by leads."""
    world, leader, _ = pair(server, "postgres+advisory")
    with world:
        epoch = world.table.top()
        leader.signal(signal.SIGSTOP)
        world.next_leader(epoch)
        leader.signal(signal.SIGCONT)
        renewals(server)


def test_a_foreign_holder_of_the_key(server):
    key = 0x53636845644c6431
    url = server.url(f"?retry=300ms&key={key:#x}", scheme="postgres+advisory")
    with World(url=url, ttl_ms=1000) as world, Psql(server, name="sched") as foreign:
        foreign(f"SELECT pg_advisory_lock({key})")
        world.start()
        # It was refused: it has asked who holds the lock.
        until(lambda: server.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'tenure'"
                                 " AND query LIKE '%pg_locks%'"))
        assert not world.table.rows()
        foreign(f"SELECT pg_advisory_unlock({key})")
        epoch = world.next_leader(0).epoch
        assert foreign(f"SELECT pg_try_advisory_lock({key})") == "f"
        assert len(locks(server, key)) == 1
        # The lock vanishes and the foreigner is faster: we end by our deadline, and come back.
        foreign(f"SELECT pg_terminate_backend({locks(server, key)[0]});"
                f"SELECT pg_advisory_lock({key})")
        if locks(server, key) == [foreign("SELECT pg_backend_pid()")]:
            world.dead(epoch)
            foreign(f"SELECT pg_advisory_unlock({key})")
            world.next_leader(epoch)


def test_takeover_delay_0_does_not_wait_for_a_dead_session(server):
    url = server.url("?retry=300ms&takeover_delay=0", scheme="postgres+advisory")
    with World(url=url, ttl_ms=600000, options=["--contain", "group"]) as world:
        leader = world.start()
        epoch = world.next_leader(0).epoch
        world.start()
        until(lambda: int(server.sql("SELECT count(*) FROM pg_stat_activity"
                                     " WHERE application_name = 'tenure'")) >= 2)
        # Its program ends, nothing is released, and the session goes with the process.
        leader.signal(signal.SIGSTOP)
        guard = leader.guard()
        signal_all(leader.pid, guard)
        world.next_leader(epoch)
        assert not locks(server, hashed("nobody"))


def signal_all(*pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
