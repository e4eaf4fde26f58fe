"""tenure remove: an election goes with all that is kept of it, and its epochs never go back."""

import json
import signal
import subprocess

import pytest
import world as w
from process import until
from tenure import Store
from terminal import Terminal
from test_run_control import candidates, standby
from world import TENURE, World, eventually


def tenure(*args, code=0, env=None, text=None):
    done = subprocess.run([TENURE, *args], capture_output=True, text=True, timeout=w.PATIENCE, env=env,
                          **({"input": text} if text is not None else {"stdin": subprocess.DEVNULL}))
    assert done.returncode == code, done
    return done


def left(url, name="w"):
    """The registers that are not tombstones, and the tombstone of the lease."""
    with Store(url) as store:
        keys, _ = store.list(f"{name}/")
        return [key for key, value in keys if not value.tombstone], store.read(f"{name}/lease")


def announced(world, c):
    """It leads, and answers who asks."""
    world.next_leader(0)
    eventually(f"{c.name} answers", lambda: candidates(world).get(c.name, {}).get("answers"))


def led(world):
    """Somebody led, and has gone; its state stays."""
    c = world.start()
    epoch = world.next_leader(0).epoch
    c.signal(signal.SIGTERM)
    world.forget(c)
    tenure("state", "put", "--name", "w", "--store", world.url, "jobs/a", "-", text="17")
    return epoch


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_it_goes_and_its_epochs_go_on(scheme):
    with World(scheme, ttl_ms=15000) as world:
        epoch = led(world)
        tenure("status", "w", "--store", world.url, code=3)
        tenure("status", "--store", world.url)  # nobody contends for it: that is no trouble
        said = json.loads(tenure("remove", "w", "--store", world.url, "--yes", "--json").stdout)
        assert said["removed"][0]["documents"] == 1 and said["removed"][0]["epoch"] >= epoch
        keys, lease = left(world.url)
        assert not keys and lease.tombstone
        assert json.loads(tenure("status", "--store", world.url, "--json", code=3).stdout) == {"elections": []}
        assert "was removed" in tenure("status", "w", "--store", world.url, code=3).stdout
        tenure("remove", "w", "--store", world.url, "--yes", code=3)
        # Used again at once: above everything before, and nothing of it is found.
        world.start()
        assert world.next_leader(epoch).epoch > said["removed"][0]["epoch"]
        shown = json.loads(tenure("status", "w", "--store", world.url, "--json").stdout)
        assert len(shown["history"]) <= 1
        assert "17" not in tenure("state", "show", "--name", "w", "--store", world.url).stdout
        # A store with it and with a removed one is well.
        tenure("run", "--name", "gone", "--store", world.url, "--", "true")
        tenure("remove", "gone", "--store", world.url, "--yes")
        assert "gone" not in tenure("status", "--store", world.url).stdout


def test_refused_while_somebody_contends():
    with World("sqlite", ttl_ms=15000) as world:
        c = world.start()
        announced(world, c)
        assert "1 candidate (c1)" in tenure("remove", "w", "--store", world.url, "--yes", code=1).stderr
        # Neither answers nor is it gone: its lease is renewed, or has not run out.
        tenure("pause", "--name", "w", "--store", world.url)
        standby(world, world.start())
        c.signal(signal.SIGTERM)
        world.forget(c)
        assert "(c2)" in tenure("remove", "w", "--store", world.url, "--yes", code=1).stderr
        keys, _ = left(world.url)
        assert "w/history" in keys and "w/lease" in keys


def test_a_lease_that_is_held_is_not_taken():
    """By who does not answer: a candidate of the library, or one that hangs."""
    with World("sqlite") as world, Store(world.url) as store:
        led(world)
        value = store.read("w/lease")
        record = {**json.loads(value.data), "holder": "somebody", "ttl_ms": 3600000}
        store.swap("w/lease", value.token, json.dumps(record).encode())
        tenure("remove", "w", "--store", world.url, "--yes", "--timeout", "2s", code=1)
        keys, _ = left(world.url)
        assert "w/state/jobs/a" in keys and "w/history" in keys


def test_one_that_slept_through_it():
    with World("file", ttl_ms=15000) as world:
        c = world.start()
        epoch = world.next_leader(0).epoch
        tenure("pause", "--name", "w", "--store", world.url)
        sleeper = standby(world, world.start())
        c.signal(signal.SIGTERM)
        world.forget(c)
        sleeper.signal(signal.SIGSTOP)
        said = json.loads(tenure("remove", "w", "--store", world.url, "--yes", "--json").stdout)
        sleeper.signal(signal.SIGCONT)
        assert said["removed"][0]["epoch"] > epoch
        assert world.next_leader(epoch).epoch > said["removed"][0]["epoch"]


def test_all_that_are_retired():
    with World("sqlite", ttl_ms=15000) as world:
        announced(world, world.start())
        for name in ("old", "older"):
            tenure("run", "--name", name, "--store", world.url, "--", "true")
        assert "no election is retired" in tenure("remove", "--all-retired", "30d", "--yes", "--store",
                                                  world.url).stdout
        looked = json.loads(tenure("remove", "--all-retired", "0s", "--dry-run", "--json", "--store",
                                   world.url).stdout)
        assert [e["name"] for e in looked["removed"]] == ["old", "older"] and looked["dry_run"]
        tenure("remove", "--all-retired", "0s", "--yes", "--store", world.url)
        shown = json.loads(tenure("status", "--store", world.url, "--json").stdout)
        assert [e["name"] for e in shown["elections"]] == ["w"]


def test_what_is_still_good_for_something_is_not_retired(tmp_path):
    """A period that was run is not run again; who is paused is not led.  By name they go, and that is said."""
    url = f"sqlite:{tmp_path}/db"
    once = ("once", "backup", "--period", "2026-01", "--store", url, "--", "echo", "has run")
    assert "has run" in tenure(*once).stdout
    tenure("cron", "nightly", "--every", "1h", "--store", url, "--", "true")
    for name in ("halted", "old"):
        tenure("run", "--name", name, "--store", url, "--", "true")
    tenure("pause", "--name", "halted", "--store", url)
    swept = json.loads(tenure("remove", "--all-retired", "0s", "--yes", "--json", "--store", url).stdout)
    assert [e["name"] for e in swept["removed"]] == ["old"]
    assert {e["name"]: "paused" in e["why"] for e in swept["kept"]} == {"backup": False, "halted": True,
                                                                        "nightly": False}
    assert "has run" not in tenure(*once).stdout
    assert "it is paused" in tenure("remove", "halted", "--dry-run", "--store", url).stdout
    assert "would run again" in tenure("remove", "backup", "--yes", "--store", url).stdout
    # What was erased is no reason to keep who uses the name again.
    tenure("run", "--name", "backup", "--store", url, "--", "true")
    assert "would run again" not in tenure("remove", "backup", "--dry-run", "--store", url).stdout
    assert "has run" in tenure(*once).stdout


def test_a_lock_goes_with_all_its_places(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    tenure("lock", "deploy", "--store", url, "--holders", "2", "--", TENURE, "lock", "deploy", "--store", url,
           "--holders", "2", "--", "true")
    assert len(json.loads(tenure("status", "--store", url, "--json").stdout)["elections"]) == 2
    # Somebody contends, and nobody may lead: that is told.
    tenure("pause", "deploy", "--store", url)
    with subprocess.Popen([TENURE, "run", "--name", "deploy", "--store", url, "--", "sleep", "600"]) as waits:
        try:
            until(lambda: subprocess.run([TENURE, "status", "--store", url], capture_output=True).returncode == 3)
        finally:
            waits.terminate()
    until(lambda: subprocess.run([TENURE, "status", "--store", url], capture_output=True).returncode == 0)
    tenure("resume", "deploy", "--store", url)
    tenure("remove", "deploy", "--store", url, "--yes")
    assert not json.loads(tenure("status", "--store", url, "--json", code=3).stdout)["elections"]


def test_it_is_asked_for(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    tenure("run", "--name", "web", "--store", url, "--", "true")
    assert "--yes" in tenure("remove", "web", "--store", url, code=2).stderr
    for answer, code in (("n", 1), ("y", 0)):
        with Terminal(TENURE, "remove", "web", "--store", url) as terminal:
            eventually("a question", lambda: terminal.read() and "[y/N]" in terminal.raw)
            terminal.press(answer + "\n")
            assert terminal.ends() == code


def test_other_things_that_cannot_be_undone_are_asked_for(tmp_path):
    """At a terminal; a script that deletes a document or resets a lease goes on as before."""
    url = f"sqlite:{tmp_path}/db"
    tenure("run", "--name", "web", "--store", url, "--", "true")
    tenure("state", "put", "--name", "web", "--store", url, "jobs/a", "-", text="17")
    tenure("jobs", "add", "a", "--group", "web", "--store", url)
    for words, yes in ((["state", "delete", "jobs/a", "--name"], 0), (["reset", "--name"], 0),
                       (["state", "repair", "jobs/b", "--delete", "--name"], 1),  # it is not damaged
                       (["jobs", "remove", "a", "--group"], 0), (["jobs", "repair", "--group"], 0),
                       (["jobs", "evict", "nobody", "--group"], 2)):
        for answer, code in (("n", 1), ("y", yes)):
            with Terminal(TENURE, *words, "web", "--store", url) as terminal:
                eventually("a question", lambda: terminal.read() and "[y/N]" in terminal.raw)
                terminal.press(answer + "\n")
                assert terminal.ends() == code
    with Terminal(TENURE, "reset", "--yes", "--name", "web", "--store", url) as terminal:
        assert terminal.ends() == 0
