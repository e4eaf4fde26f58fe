"""A leader that was succeeded and never gives up, on real servers: none of its commits is taken."""

import os
import subprocess

import pytest
import server_etcd
import server_postgres
import server_redis

COUNT = int(os.environ.get("STALE", "0"))  # make stale: 100,000 on each


def stale(build, url, usual):
    count = COUNT or usual
    done = subprocess.run([build / "tests/unit/test_state_stale", url, str(count)],
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    told, *words = done.stdout.split()
    assert int(told) >= count
    assert words == "stale commits, 0 accepted".split()


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_redis(build):
    with server_redis.Redis() as redis:
        stale(build, redis.url(), 100_000)


@pytest.mark.skipif(server_postgres.MISSING is not None, reason=str(server_postgres.MISSING))
def test_postgres(build):
    with server_postgres.Postgres() as postgres:
        stale(build, postgres.url(), 100_000)


@pytest.mark.skipif(server_etcd.MISSING is not None, reason=str(server_etcd.MISSING))
def test_etcd(build):
    with server_etcd.Etcd() as etcd:
        stale(build, etcd.url(), 5_000)
