"""tenure remove --compact: what is left of removed elections goes, and their epochs still never go back."""

import json
import subprocess

import pytest
import server_etcd
import server_postgres
import server_redis
from agent import Agent
from process import until
from tenure import Store
from world import PATIENCE, TENURE

FLOOR = "tenure/removed"


def tenure(url, *args, code=0):
    done = subprocess.run([TENURE, args[0], "--store", url, *args[1:]], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, done
    return done


def compact(url, age="0s"):
    return json.loads(tenure(url, "remove", "--compact", "--older-than", age, "--json").stdout)


def keys(url, prefix=""):
    with Store(url) as store:
        return [key for key, _ in store.list(prefix)[0]]


def epoch_of(url, name):
    return int(tenure(url, "run", "--name", name, "--ttl", "5s", "--", "sh", "-c", "echo $TENURE_EPOCH").stdout)


def set_floor(url, text):
    with Store(url) as store:
        store.swap(FLOOR, store.read(FLOOR).token, text)


def they_go_and_epochs_go_on(url):
    """Everything but the floor goes; a name that is used again is above it, also if the clocks went back."""
    last = 0
    for name in ("a", "b/holders/2"):
        epoch_of(url, name)
        said = json.loads(tenure(url, "remove", name, "--yes", "--json").stdout)
        last = max(last, said["removed"][0]["epoch"])
    assert compact(url, "1d") == {"elections": 0, "registers": 0, "waiting": 2}
    done = compact(url)
    assert done["elections"] == 2 and done["registers"] >= 4 and done["waiting"] == 0
    assert keys(url) == [FLOOR]
    assert compact(url) == {"elections": 0, "registers": 0, "waiting": 0}
    with Store(url) as store:
        assert json.loads(store.read(FLOOR).data)["epoch"] == last
    # As if the wall clock of whoever led had been an hour ahead: only the floor knows.
    ahead = last + 3600 * 1000
    set_floor(url, json.dumps({"epoch": ahead}).encode())
    assert epoch_of(url, "a") > ahead
    # The next one takes over from a record that was compared: what the floor says does not matter to it.
    with Store(url) as store:
        assert json.loads(store.read("a/lease").data)["checked"] is True
    set_floor(url, b"damaged")
    assert epoch_of(url, "a") > ahead
    tenure(url, "reset", "--removed", "--force")


def test_sqlite(tmp_path):
    they_go_and_epochs_go_on(f"sqlite:{tmp_path}/db")


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_redis():
    with server_redis.Redis(("appendonly", "yes")) as redis:
        they_go_and_epochs_go_on(redis.url())


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_who_may_not_read_the_floor_leaves_the_lease_to_others(tmp_path):
    with server_redis.Redis(("appendonly", "yes")) as redis:
        books = ("~{tenure}:seq", "~{tenure}:index", "~{tenure}:log", "~{tenure}:sync")
        redis.cmd("ACL", "SETUSER", "web", "reset", "on", ">pw", "~{tenure}:k:web/*", *books, "&*", "+@all")
        limited = f"redis://web:pw@127.0.0.1:{redis.port}"
        with Agent(tmp_path, limited, "a") as denied:
            until(lambda: any(line["event"] == "trouble" and FLOOR in line["text"] for line in denied.events()))
            assert epoch_of(redis.url(), "web") > 0
            until(lambda: any(line["event"] == "recovered" for line in denied.events()))


@pytest.mark.skipif(server_etcd.MISSING is not None, reason=str(server_etcd.MISSING))
def test_etcd():
    with server_etcd.Etcd() as etcd:
        they_go_and_epochs_go_on(etcd.url())


@pytest.mark.skipif(server_postgres.MISSING is not None, reason=str(server_postgres.MISSING))
def test_postgres():
    with server_postgres.Postgres() as postgres:
        they_go_and_epochs_go_on(postgres.url())


def test_a_store_that_keeps_them(tmp_path):
    url = f"file:{tmp_path}/store"
    epoch_of(url, "a")
    tenure(url, "remove", "a", "--yes")
    assert "keeps its tombstones" in tenure(url, "remove", "--compact", code=1).stderr
    assert "a/lease" in keys(url)


def test_a_damaged_floor_is_not_taken_for_none(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    epoch_of(url, "a")
    tenure(url, "remove", "a", "--yes")
    compact(url)
    set_floor(url, b'{"epoch":"x"}')
    done = subprocess.run([TENURE, "lock", "a", "--wait", "1s", "--store", url, "--", "echo", "ran"], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode != 0 and "ran" not in done.stdout
    assert FLOOR in done.stderr
    assert FLOOR in tenure(url, "remove", "--compact", code=1).stderr
    assert "--epoch-above" in tenure(url, "reset", "--removed", code=1).stderr
    with Store(url) as store:
        high = 2 * max(json.loads(value.data)["epoch"] for key, value in store.list("a")[0] if key == "a/lease")
    assert str(high) in tenure(url, "reset", "--removed", "--epoch-above", str(high)).stdout
    assert epoch_of(url, "a") == high + 1
    assert "not damaged" in tenure(url, "reset", "--removed", "--force", code=1).stderr
    set_floor(url, b"")
    assert tenure(url, "reset", "--removed", "--force").stdout == f"every election begins above epoch {high + 1}\n"


def test_a_repaired_floor_is_noticed(tmp_path):
    """Also by a candidate that does not read it again, because it meets a record that was compared since."""
    url = f"sqlite:{tmp_path}/db"
    set_floor(url, b"damaged")

    def texts(agent, event):
        return [line["text"] for line in agent.events() if line["event"] == event]

    with Agent(tmp_path, url, "a") as waiting:
        (text,) = until(lambda: texts(waiting, "trouble"))
        assert FLOOR in text and text.endswith("`tenure reset --removed`")
        until(lambda: FLOOR in waiting.status()["reason"])
        tenure(url, "reset", "--removed", "--force")
        epoch_of(url, "web")
        until(lambda: texts(waiting, "recovered"))
        until(lambda: FLOOR not in waiting.status()["reason"])


def test_an_epoch_near_the_end_of_the_range_stays_where_it_is(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    epoch_of(url, "a")
    tenure(url, "reset", "--name", "a", "--epoch-above", "9007199254740980", "--force")
    for name in ("a", "b", "b-2"):
        epoch_of(url, name)
        tenure(url, "remove", name, "--yes")
    done = compact(url)
    assert done["elections"] == 2 and done["waiting"] == 1
    assert "a/lease" in keys(url) and "b/lease" not in keys(url)
    assert epoch_of(url, "c") < 2**52
    set_floor(url, b"damaged")
    tenure(url, "reset", "--removed", "--force")
    assert epoch_of(url, "d") < 2**52


def test_usage(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    for args in (["--older-than", "1d"], ["--compact", "a"], ["--compact", "--dry-run"],
                 ["--compact", "--all-retired", "1d"]):
        tenure(url, "remove", *args, code=2)
