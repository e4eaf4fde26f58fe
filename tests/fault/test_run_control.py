"""Hand-over, step-down, pause, priorities, the list of candidates."""

import json
import os
import signal
import subprocess
import time

import pytest
import world as w
from tenure import Store
from world import TENURE, World, eventually, trials


def tenure(world, verb, *options, code=0):
    done = subprocess.run(
        [TENURE, verb, "--name", "w", "--store", world.url, *options],
        capture_output=True,
        text=True,
        timeout=w.PATIENCE,
    )
    assert code is None or done.returncode == code, (verb, done)
    return done


def candidates(world):
    """Asked again if the machine stood still for longer than the last look at them may take."""

    def look():
        done = tenure(world, "candidates", "--json", code=None)
        return done.returncode == 0 and done

    return {c["id"]: c for c in json.loads(eventually("a list", look).stdout)}


def standby(world, c):
    """It stands by, and would answer a call."""
    eventually(
        f"{c.name} stands by",
        lambda: (s := candidates(world).get(c.name)) and s["answers"] and s["state"] == "standby",
    )
    return c


def leads(c, epoch):
    """It says so; a moment after its program has."""
    eventually(f"{c.name} leads {epoch}", lambda: f"leading, epoch {epoch}" in c.words())


def pair(**settings):
    world = World(**{"ttl_ms": 15000, **settings})
    world.start()
    world.next_leader(0)
    standby(world, world.start())
    return world


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_handover(scheme):
    """Again and again, to and fro: never two, and the gap is told."""

    def trial(world):
        epoch, leader = world.table.top(), world.leader()
        target = next(c for c in world.candidates if c is not leader)
        standby(world, target)
        said = json.loads(tenure(world, "handover", "--to", target.name, "--json").stdout)
        assert (said["from"], said["to"]) == (leader.name, target.name)
        assert said["as_asked"] and said["exact"] and said["epoch"] > epoch
        world.next_leader(epoch)  # which may be told before its program has signed in
        rows = {r.epoch: r for r in world.table.programs()}
        assert said["epoch"] == world.table.top()
        # What it printed is what the witnesses saw, give or take their own start and end.
        seen = rows[said["epoch"]].started - rows[epoch].last
        assert 0 < said["gap_ms"] * 1e6 <= seen + 20e9
        assert rows[epoch].told == signal.SIGTERM  # drained, not killed
        return said["gap_ms"]

    gaps = trials(12, lambda: pair(scheme=scheme), trial, workers=2)
    print(f"hand-over gap on {scheme}, ms, median: {sorted(gaps)[len(gaps) // 2]:.1f}")


def test_handover_to_the_best():
    with pair() as world:
        standby(world, world.start(options=["--priority", "-5"]))
        best = standby(world, world.start(options=["--priority", "7"]))
        said = tenure(world, "handover")
        assert f"handed over to {best.name}" in said.stdout
        assert "no program ran for" in said.stdout


def test_handover_with_others_holding_back():
    """Several wait; the one that was named gets it, every time."""

    def make():
        world = World(ttl_ms=15000)
        world.start()
        world.next_leader(0)
        for _ in range(3):
            standby(world, world.start())
        return world

    def trial(world):
        leader = world.leader()
        target = next(c for c in world.candidates if c is not leader)
        standby(world, target)
        said = json.loads(tenure(world, "handover", "--to", target.name, "--json").stdout)
        assert said["as_asked"]

    trials(6, make, trial, workers=2)


def test_handover_to_nobody_changes_nothing():
    with World(ttl_ms=15000) as world:
        c = world.start()
        row = world.next_leader(0)
        done = tenure(world, "handover", "--timeout", "1s", code=1)
        assert "no healthy candidate" in done.stderr
        done = tenure(world, "handover", "--to", "stranger", "--timeout", "1s", code=1)
        assert "stranger does not answer" in done.stderr
        done = tenure(world, "handover", "--to", c.name, code=1)
        assert "leads already" in done.stderr
        assert world.table.top() == row.epoch


def test_handover_when_nobody_leads():
    with World() as world:
        for verb in ("pause", "resume"):
            tenure(world, verb, code=0)
        assert "nobody leads" in tenure(world, "handover", code=3).stderr
        assert "nobody leads" in tenure(world, "step-down", code=3).stderr


def test_target_dies_in_between():
    """It answered, and is killed before it can claim: anyone may take over."""
    with World(ttl_ms=15000, words=["slow=3000"]) as world:
        first = world.start()
        row = world.next_leader(0)
        target = standby(world, world.start())
        other = standby(world, world.start())
        asked = subprocess.Popen(
            [TENURE, "handover", "--name", "w", "--store", world.url, "--to", target.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        eventually("the drain", lambda: world.table.programs()[0].told)
        target.signal(signal.SIGKILL)
        target.wait()
        world.next_leader(row.epoch)
        assert asked.wait(w.PATIENCE) == 1  # another one than was asked for
        asked.stdout.close()
        eventually(
            "a leader",
            lambda: f"leading, epoch {world.table.top()}" in other.words() + first.words(),
        )


def test_step_down():
    with pair() as world:
        first, second = world.candidates
        row = world.next_leader(0)
        tenure(world, "step-down", "--for", "5m")
        new = world.next_leader(row.epoch)
        leads(second, new.epoch)
        # The one that stepped down does not come back, even when nobody leads.
        second.signal(signal.SIGTERM)
        second.wait()
        time.sleep(0.5)
        assert world.table.top() == new.epoch
        assert first.proc.poll() is None


def test_a_planned_stop_is_no_alarm():
    """Also with a ttl that leaves a loss all of the grace: the guard is not the one to act. A machine
    that stands still for long between the two words may bring that about, but not each time."""

    def alarms(world):
        c = world.start()
        row = world.next_leader(0)
        tenure(world, "step-down", "--for", "10ms")
        world.next_leader(row.epoch)
        return "the deadline has come" in c.words()

    for _ in range(5):
        with World(ttl_ms=60000) as world:
            if not alarms(world):
                return
    assert False, "the guard fired each time"


def test_pause():
    with pair() as world:
        leader, waiting = world.candidates
        row = world.next_leader(0)
        tenure(world, "pause", "--reason", "maintenance of the rack")
        eventually("the word", lambda: "maintenance of the rack" in waiting.words())
        eventually("the word", lambda: "PAUSED" in leader.words())
        assert "PAUSED by" in tenure(world, "status").stdout  # loud
        assert json.loads(tenure(world, "status", "--json").stdout)["paused"] is True
        assert "is paused" in tenure(world, "handover", code=1).stderr
        # The leader stays; when it goes, nobody takes over, and newcomers neither.
        late = world.start()
        leader.signal(signal.SIGKILL)
        leader.wait()
        eventually("the late one", lambda: "PAUSED" in late.words())
        world.dead(row.epoch)
        time.sleep(0.5)
        assert world.table.top() == row.epoch
        tenure(world, "resume")
        assert "PAUSED" not in tenure(world, "status", code=None).stdout
        world.next_leader(row.epoch)


def test_pause_never_extends_a_deadline():
    """Paused or not: a leader that cannot renew is ended in time."""
    w.stalls()
    with World(ttl_ms=1000, words=["stubborn"]) as world:
        world.start()
        row = world.next_leader(0)
        tenure(world, "pause")
        with world.outage():
            fault = w.now()
            last = world.dead(row.epoch)
        assert w.late_ns(last, fault + w.hold_ns(1000), 1000) <= w.kill_ns(1000)


def test_a_damaged_control_register_suppresses_claims(tmp_path):
    with World(scheme="sqlite", ttl_ms=15000) as world:
        c = world.start()
        row = world.next_leader(0)
        tenure(world, "pause")
        import sqlite3

        db = sqlite3.connect(world.dir / "store.db", timeout=60)
        (table,) = [
            t
            for (t,) in db.execute("select name from sqlite_master where type='table'")
            if "data" in [col[1] for col in db.execute(f"pragma table_info({t})")]
        ][:1]
        db.execute(f"update {table} set data = ? where key = 'w/control'", (b"{broken",))
        db.commit()
        db.close()
        late = world.start()
        eventually("the word", lambda: "control register is not" in late.words())
        c.signal(signal.SIGTERM)
        c.wait()
        time.sleep(0.3)
        assert world.table.top() == row.epoch


def test_candidates_are_listed():
    with World(ttl_ms=15000) as world:
        leader = world.start(options=["--priority", "3", "--build", "1.2", "--address", "here:80"])
        world.next_leader(0)
        waiting = standby(world, world.start())
        seen = candidates(world)
        assert set(seen) == {leader.name, waiting.name}
        assert seen[leader.name]["state"] == "leading"
        assert (seen[leader.name]["priority"], seen[leader.name]["build"]) == (3, "1.2")
        assert seen[leader.name]["address"] == "here:80"
        assert seen[leader.name]["contain"]
        assert seen[waiting.name]["healthy"]
        w.freeze(waiting.pid)
        assert not candidates(world)[waiting.name]["answers"]
        waiting.signal(signal.SIGCONT)
        waiting.signal(signal.SIGTERM)
        waiting.wait()
        assert set(candidates(world)) == {leader.name}  # it took its leave


def test_an_id_that_is_no_key():
    with World(ttl_ms=15000) as world:
        world.start(options=["--id", "host:80/a b " + "x" * 80])
        world.next_leader(0)
        eventually("the list", lambda: "host:80/a b " + "x" * 80 in candidates(world))


def goes_first(world, first, best, others, between):
    """The best one leads next, by so much that no stall decides: who is worse leaves a moment to each
    that is better, and between them stand a dozen more, who never claim."""
    row = world.next_leader(0)
    wanted = standby(world, world.start(options=best))
    with Store(world.url) as store:
        for i in range(12):
            ghost = {"id": f"ghost{i}", "state": "standby", "healthy": True, "priority": 0,
                     "build": "", **between}
            assert store.swap(f"w/candidates/ghost{i}", None, json.dumps(ghost).encode()).status == "ok"
    worse = [world.start(options=o) for o in others]
    # Whoever answers a second time has looked at the list meanwhile.
    for _ in range(2):
        eventually("answers", lambda: (seen := candidates(world)) and
                   all(seen.get(c.name, {}).get("answers") for c in worse))
    first.signal(signal.SIGKILL)
    new = world.next_leader(row.epoch)
    leads(wanted, new.epoch)


def test_priority_decides_who_goes_first():
    with World(ttl_ms=15000) as world:
        goes_first(world, world.start(), ["--priority", "5"],
                   [["--priority", "0"], ["--priority", "-5"]], {"priority": 4})


def test_oldest_build_leads_during_an_upgrade():
    with World(ttl_ms=15000, options=["--prefer", "oldest-build"]) as world:
        goes_first(world, world.start(options=["--build", "1.9.0"]), ["--build", "1.9.1"],
                   [["--build", "1.10.0"]], {"build": "1.9.2"})


def test_preempt():
    with World(ttl_ms=15000) as world:
        low = world.start()
        row = world.next_leader(0)
        high = world.start(options=["--priority", "9", "--preempt", "--preempt-delay", "100ms"])
        new = world.next_leader(row.epoch)
        leads(high, new.epoch)
        assert low.proc.poll() is None
        assert world.table.programs()[0].told == signal.SIGTERM
