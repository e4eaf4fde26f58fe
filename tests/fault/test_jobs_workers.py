"""Workers that share jobs on real servers, through the library: killed, stopped, asked to leave.

The judge is race_jobs.c: a table in shared memory of who runs a job at this instant, and a counter
in each checkpoint that every commit advances by one.
"""

import contextlib
import subprocess

import pytest
import server_etcd
import server_postgres
import server_redis
from world import BUILD

SERVERS = [(server_redis.MISSING, lambda: server_redis.Redis(("appendonly", "yes")), ["--stop"]),
           (server_postgres.MISSING, lambda: server_postgres.Postgres(), []),
           (server_etcd.MISSING, lambda: server_etcd.Etcd(), ["--stop"])]


def test_no_job_twice_and_no_commit_lost():
    """Beside each other: most of the time is spent waiting for leases that end."""
    there = [(server, more) for missing, server, more in SERVERS if not missing]
    if not there:
        pytest.skip("; ".join(str(missing) for missing, *_ in SERVERS))
    with contextlib.ExitStack() as stack:
        races = [subprocess.Popen([BUILD / "tests/fault/race_jobs", stack.enter_context(server()).url(), *more,
                                   "--jobs", "60", "--dir", BUILD],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for server, more in there]
        answers = [(race.communicate(timeout=600), race.returncode) for race in races]
    for (out, err), code in answers:
        assert (code, err) == (0, "")
        assert "60 jobs" in out and "0 overlaps, 0 regressions" in out
