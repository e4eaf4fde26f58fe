"""A leader that was succeeded and never gives up, on real servers: none of its commits is taken."""

import subprocess

import pytest
import server_postgres
import server_redis

COUNT = 100_000


def stale(build, url):
    done = subprocess.run([build / "tests/unit/test_state_stale", url, str(COUNT)],
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    count, *words = done.stdout.split()
    assert int(count) >= COUNT
    assert words == "stale commits, 0 accepted".split()


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_redis(build):
    with server_redis.Redis() as redis:
        stale(build, redis.url())


@pytest.mark.skipif(server_postgres.MISSING is not None, reason=str(server_postgres.MISSING))
def test_postgres(build):
    with server_postgres.Postgres() as postgres:
        stale(build, postgres.url())
