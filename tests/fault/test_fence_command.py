"""Proof of death: a silent leader's machine is made sure to be off, and its lease need not run out.

The ttl is so long that nobody could wait for it here: who leads after all leads on a proof.
"""

import json
import subprocess

import world as w
from world import TENURE, World, descendants, eventually, freeze

TIMES = ["--fence-after", "5500ms"]
TTL_MS = 240_000


def script(world, name, text):
    path = world.dir / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return ["--fence-command", str(path)]


def lease(world):
    done = subprocess.run([TENURE, "status", "--name", "w", "--store", world.url, "--json"],
                          capture_output=True, text=True, timeout=w.PATIENCE, check=False)
    return json.loads(done.stdout)


def hang(leader):
    """The whole machine: nobody renews, nobody releases, nobody dies."""
    tree = [leader.pid, *descendants(leader.pid)]
    for pid in tree:
        freeze(pid)
    return tree


def pair(world, *options):
    leader = world.start()
    epoch = world.next_leader(0).epoch
    others = [world.start([*TIMES, *options]) for _ in range(2)]
    for c in others:
        eventually(f"{c.name} stands by", lambda c=c: "standing by" in c.words())
    return leader, epoch, others


def test_the_next_leads_on_a_proof():
    """One standby at a time runs it, told of whom; while it fails nobody claims."""
    with World(ttl_ms=TTL_MS, options=["--renew", "500ms"]) as world:
        runs, well = world.dir / "runs", world.dir / "well"
        command = script(world, "fence", f"""
            echo "begin $TENURE_FENCE_HOLDER $TENURE_FENCE_EPOCH $TENURE_FENCE_ADDRESS" >> {runs}
            env | grep -q 'file:' && echo "a store" >> {runs}
            code=1
            if test -e {well}; then
                kill -9 $(cat {well}) 2>/dev/null  # those whose parents went first are gone already
                code=0
            fi
            echo end >> {runs}
            exit $code
        """)
        leader, epoch, others = pair(world, *command)
        tree = hang(leader)
        words = lambda: runs.read_text().splitlines() if runs.exists() else []  # noqa: E731
        eventually("some tries", lambda: words().count("end") >= 2)
        assert world.table.top() == epoch
        assert any("the fence command failed (code 1)" in c.words() for c in others)
        fresh = world.dir / "well.new"
        fresh.write_text(" ".join(str(pid) for pid in tree))
        fresh.rename(well)
        world.next_leader(epoch)
        assert set(words()) == {f"begin {leader.name} {epoch} ", "end"}
        assert words() == [f"begin {leader.name} {epoch} ", "end"] * (len(words()) // 2)
        now = eventually("the record", lambda: (s := lease(world))["state"] == "held" and s)
        assert now["cause"] == "proved", now


def test_a_proof_of_what_has_changed_is_none():
    """The leader renews while the command runs, which then says that it is dead."""
    with World(ttl_ms=TTL_MS, options=["--renew", "500ms"]) as world:
        begun, go = world.dir / "begun", world.dir / "go"
        command = script(world, "fence", f"""
            test ! -e {begun} || exit 1
            touch {begun}
            while ! test -e {go}; do sleep 0.05; done
        """)
        leader, epoch, others = pair(world, *command)
        freeze(leader.pid)
        eventually("a command", begun.exists)
        before = lease(world)["renewed_at"]
        leader.signal(w.signal.SIGCONT)
        eventually("a renewal", lambda: lease(world)["renewed_at"] != before)
        go.touch()
        eventually("its word", lambda: any("is off" in c.words() for c in others))
        seen = lease(world)["renewed_at"]
        eventually("one more renewal", lambda: lease(world)["renewed_at"] != seen)
        assert world.table.top() == epoch


def test_a_leader_that_is_well_is_no_suspect():
    done = subprocess.run([TENURE, "run", "--name", "w", "--store", "noop:", "--fence-command", "true",
                           "--fence-after", "8s", "--", "true"], capture_output=True, text=True,
                          timeout=w.PATIENCE, check=False)
    assert done.returncode == 2
    assert "it is silent for renew 5s + 2 x request 2s + retry 500ms; give more than 9500ms" in done.stderr, done.stderr
