"""Whole candidates on PostgreSQL: what only PostgreSQL can do.  What every server store must stand is
in test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import os
import signal

import pytest
import server_postgres
from process import until
from server_postgres import Postgres, Psql
from test_postgres_advisory import hashed, locks
from world import World, kept, pair

pytestmark = pytest.mark.skipif(server_postgres.MISSING is not None,
                                reason=str(server_postgres.MISSING))
schemes = pytest.mark.parametrize("scheme", ["postgres", "postgres+advisory"])


@pytest.fixture(scope="module")
def running():
    with Postgres() as server:
        yield server


@pytest.fixture
def server(running):
    running.sql("DROP SCHEMA IF EXISTS tenure CASCADE")
    return running


def url(server, scheme):
    return server.url("?retry=300ms" if scheme == "postgres+advisory" else "", scheme=scheme)


def version(server):
    return int(server.sql("SELECT version FROM tenure.register WHERE key = 'w/lease'"))


def renewals(server, count=2):
    """Wait for so many more changes of the lease."""
    from_version = version(server)
    until(lambda: version(server) >= from_version + count)


@schemes
def test_sessions_that_are_killed_cost_no_leadership(server, scheme):
    world, leader, _ = pair(url(server, scheme), 60000, options=["--renew", "500ms"])
    with world:
        epoch = world.table.top()
        for _ in range(3):
            server.end_sessions()
            renewals(server, 1)
        kept(world, leader, epoch)


def test_a_stopped_leader_does_not_keep_the_lock(server):
    """Its host answers for it, so the session would live for ever; the guard ends its program,
    the server ends its session, and the standby leads."""
    world, leader, _ = pair(url(server, "postgres+advisory"), 2000)
    with world:
        epoch = world.table.top()
        leader.signal(signal.SIGSTOP)
        world.next_leader(epoch)
        leader.signal(signal.SIGCONT)
        renewals(server)


def test_a_foreign_holder_of_the_key(server):
    key = 0x53636845644c6431
    url = server.url(f"?retry=300ms&key={key:#x}", scheme="postgres+advisory")
    with World(url=url, ttl_ms=3000, options=["--renew", "200ms", "--grace", "200ms"]) as world, \
            Psql(server, name="sched") as foreign:
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
        # The lock vanishes and the foreigner is faster: we end by our deadline, and come back.  In one
        # statement: after a pause between two it would wait for ever, for us.
        foreign(f"SELECT pg_terminate_backend({locks(server, key)[0]}), pg_advisory_lock({key})")
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
