"""The predicates of docs/fencing.md, taken from the page and run."""

import pathlib
import re
import sqlite3

import pytest
import server_redis

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/fencing.md").read_text()


def examples(title):
    """The indented blocks below a heading."""
    part = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S).group(1)
    return [re.sub(r"^    ", "", block, flags=re.M).strip()
            for block in re.findall(r"(?:^    .*\n)+", part, re.M)]


def test_sql():
    write, seal = examples("SQL")
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, epoch INTEGER)")
    db.execute("INSERT INTO account VALUES (1, 100, 11)")
    assert db.execute(seal).rowcount == 1
    assert db.execute(seal).rowcount == 0
    assert db.execute(write.replace("12", "11").replace("70", "5")).rowcount == 0
    assert db.execute(write).rowcount == 1
    db.execute("UPDATE account SET epoch = 13")
    assert db.execute(write.replace("70", "6")).rowcount == 0
    assert db.execute("SELECT balance FROM account").fetchone() == (70,)


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_redis():
    script, = examples("Redis")
    with server_redis.Redis() as redis:
        def write(epoch, value):
            return redis.cmd("EVAL", script, 1, "doc", epoch, value)
        assert write(12, "a") == 1
        assert write(12, "b") == 1
        assert write(11, "stale") == 0
        assert write(0, "zero") == 0
        assert write("x", "text") == 0
        assert write(2**53 - 1, "last") == 1
        assert write(2**53 - 2, "stale") == 0
        assert redis.cmd("HGET", "doc", "value") == b"last"
