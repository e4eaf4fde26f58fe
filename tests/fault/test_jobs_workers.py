"""Workers that share jobs on real servers, through the library: killed, stopped, asked to leave.

The judge is race_jobs.c: a table in shared memory of who runs a job at this instant, and a counter
in each checkpoint that every commit advances by one.  With TRIALS=1 they share 10,000 jobs, one
server after the other; on sqlite: the same race has as many in every run (tests/fault/meson.build).
"""

import contextlib
import subprocess

import pytest
import server_etcd
import server_postgres
import server_redis
from world import BUILD, TRIALS

SERVERS = [(server_redis.MISSING, lambda: server_redis.Redis(("appendonly", "yes")), ["--stop"]),
           (server_postgres.MISSING, lambda: server_postgres.Postgres(), []),
           (server_etcd.MISSING, lambda: server_etcd.Etcd(), ["--stop"])]


def race(server, jobs, *more):
    return subprocess.Popen([BUILD / "tests/fault/race_jobs", server.url(), *more, "--jobs", str(jobs), "--dir", BUILD],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def judge(running, jobs):
    out, err = running.communicate(timeout=600)
    assert (running.returncode, err) == (0, "")
    assert f"{jobs} jobs" in out and "0 overlaps, 0 regressions" in out


def test_no_job_twice_and_no_commit_lost():
    """Beside each other: most of the time is spent waiting for leases that end."""
    there = [(server, more) for missing, server, more in SERVERS if not missing]
    if not there:
        pytest.skip("; ".join(str(missing) for missing, *_ in SERVERS))
    with contextlib.ExitStack() as stack:
        races = [race(stack.enter_context(server()), 60, *more) for server, more in there]
        for running in races:
            judge(running, 60)


@pytest.mark.skipif(not TRIALS, reason="minutes on a busy machine: with TRIALS=1")
@pytest.mark.parametrize("missing, server, more", SERVERS, ids=["redis", "postgres", "etcd"])
def test_ten_thousand_jobs(missing, server, more):
    if missing:
        pytest.skip(str(missing))
    with server() as one:
        judge(race(one, 10000, *more), 10000)
