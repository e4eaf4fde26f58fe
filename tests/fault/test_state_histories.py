"""Random histories of leaders, operators and lost messages on real stores, checked request by request
against what was stored.

HISTORIES=n for each store, unless told otherwise: a few.  make trials runs more.
"""

import contextlib
import os
import subprocess

import pytest
import server_etcd
import server_postgres
import server_redis

COUNT = int(os.environ.get("HISTORIES", "0"))


def etcd(_):
    return contextlib.closing(Served(server_etcd, server_etcd.Etcd, "/h#"))


def redis(_):
    return contextlib.closing(Served(server_redis, server_redis.Redis, "?prefix=h#"))


def postgres(_):
    return contextlib.closing(Served(server_postgres, server_postgres.Postgres, "?schema=h#"))


class Served:
    def __init__(self, module, server, query):
        if module.MISSING is not None:
            pytest.skip(str(module.MISSING))
        self.stack = contextlib.ExitStack()
        self.url = self.stack.enter_context(server()).url(query)

    def close(self):
        self.stack.close()


class Embedded:
    def __init__(self, url):
        self.url = url


def file(folder):
    return contextlib.nullcontext(Embedded(f"file:{folder}/h#"))


def slots(folder):
    return contextlib.nullcontext(Embedded(f"file:{folder}/h#?commits=slots"))


def sqlite(folder):
    return contextlib.nullcontext(Embedded(f"sqlite:{folder}/h#.db"))


@pytest.mark.parametrize("make, usual", [(etcd, 3), (redis, 10), (postgres, 3), (file, 5),
                                         (slots, 1), (sqlite, 6)],
                         ids=lambda p: getattr(p, "__name__", str(p)))
def test_histories_hold(build, tmp_path, make, usual):
    with make(tmp_path) as store:
        done = subprocess.run([build / "tests/unit/test_state_history", "1", str(COUNT or usual),
                               store.url], capture_output=True, text=True, timeout=3600,
                              env={**os.environ, "TENURE_BUILD": str(build)})
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "commits acknowledged" in line]
    assert told
    print(f"{make.__name__}: {told[0]}")
