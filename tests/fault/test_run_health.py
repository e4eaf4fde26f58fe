"""Probes, crash loops, hooks, warm standbys."""

import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
import world as w
from test_run_control import candidates, leads, standby, tenure
from world import TENURE, WITNESS, World, eventually

QUICK = ["--probe-interval", "50ms", "--probe-timeout", "20s", "--probe-threshold", "2"]


# ---- Probes -----------------------------------------------------------------


def test_unhealthy_leader_hands_over_to_a_healthy_candidate(tmp_path):
    ill = tmp_path / "ill"
    probe = ["--probe", f"exec:test ! -e {ill}/$TENURE_ID", *QUICK]
    ill.mkdir()
    with World(ttl_ms=15000, options=probe) as world:
        leader = world.start()
        row = world.next_leader(0)
        other = standby(world, world.start())
        (ill / leader.name).touch()
        new = world.next_leader(row.epoch)
        leads(other, new.epoch)
        assert "handing over" in leader.words()
        assert leader.proc.poll() is None
        eventually("its word", lambda: "probe failed" in
                   candidates(world).get(leader.name, {}).get("trouble", ""))
        # Nobody had asked it to.
        eventually("why it ended", lambda: "gave leadership up: health probe failed" in
                   tenure(world, "history", code=None).stdout)


def test_unhealthy_leader_alone_restarts_its_program(tmp_path):
    ill = tmp_path / "ill"
    probe = ["--probe", f"exec:test ! -e {ill}", *QUICK]
    with World(ttl_ms=15000, options=probe) as world:
        c = world.start()
        world.next_leader(0)
        ill.touch()
        eventually("the verdict", lambda: "no healthy candidate stands by" in c.words())
        ill.unlink()  # before the next one is judged: it would be ended before it is there
        eventually("a restart", lambda: len(world.table.programs()) >= 2)
        rows = world.table.programs()
        assert rows[0].epoch == rows[1].epoch and rows[0].told == signal.SIGTERM
        assert rows[1].started > rows[0].last


def test_an_ill_leader_without_a_standby_calls_nobody(tmp_path):
    ill = tmp_path / "ill"
    with World(ttl_ms=15000, options=["--probe", f"exec:test ! -e {ill}", *QUICK]) as world:
        c = world.start()
        world.next_leader(0)
        eventually("its record", lambda: candidates(world).get(c.name))
        ill.touch()
        eventually("a restart", lambda: "no healthy candidate stands by" in c.words())
        ill.unlink()
        asked = [f for f in (world.dir / "store").rglob("*") if f.is_file() and b"call" in f.read_bytes()]
        assert not asked


def test_a_probe_of_the_program_before_condemns_nobody(tmp_path):
    """It hangs while its program ends and the next one starts, which has its --probe-delay."""
    asked = tmp_path / "asked"
    probe = f"exec:echo $$ > {asked}.new; mv {asked}.new {asked}; exec sleep 600"
    options = ["--probe", probe, "--probe-delay", "300ms", "--probe-timeout", "600s",
               "--probe-threshold", "1", "--log-level", "debug", "--on-exit", "restart"]
    with World(ttl_ms=15000, options=options) as world:
        c = world.start()
        world.next_leader(0)
        pid = int(eventually("the probe", lambda: asked.exists() and asked.read_text().strip()))
        asked.unlink()
        init = w.children(c.guard())[0]
        os.kill(w.children(init)[0], signal.SIGKILL)
        eventually("the next program", lambda: len(world.table.programs()) == 2)
        eventually("the end of the probe", lambda: not w.alive(pid))
        eventually("the next probe", asked.exists)
        assert "probe: failed" not in c.words()


def test_http_probe():
    answers = {"code": 200}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(answers["code"] if self.path == "/well" else 404)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    probe = ["--probe", f"http://127.0.0.1:{server.server_port}/well", *QUICK]
    with World(ttl_ms=15000, options=probe) as world:
        c = world.start()
        world.next_leader(0)
        time.sleep(0.3)
        assert "health probe failed" not in c.words()
        answers["code"] = 503
        eventually("the verdict", lambda: "health probe failed" in c.words())
        answers["code"] = 204
        eventually("a restart", lambda: len(world.table.programs()) >= 2)
    server.shutdown()


def test_tcp_probe():
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = listener.getsockname()[1]
    with World(ttl_ms=15000, options=["--probe", f"tcp:localhost:{port}", *QUICK]) as world:
        c = world.start()
        world.next_leader(0)
        time.sleep(0.3)
        assert "health probe failed" not in c.words()
        listener.close()
        eventually("the verdict", lambda: "health probe failed" in c.words())


def test_notify_probe(tmp_path):
    """The program says WATCHDOG=1 itself; when it stops saying so, it is restarted."""
    script = tmp_path / "says.py"
    script.write_text(
        "import os, socket, sys, time\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "s.connect(os.environ['NOTIFY_SOCKET'])\n"
        "assert int(os.environ['WATCHDOG_USEC']) == 500000\n"
        "open(sys.argv[1], 'a').write('start\\n')\n"
        "for i in range(8):\n"
        "    s.send(b'WATCHDOG=1')\n"
        "    time.sleep(0.1)\n"
        "time.sleep(1000)\n"
    )
    starts = tmp_path / "starts"
    options = ["--probe", "notify", "--probe-timeout", "500ms", "--probe-threshold", "1",
               "--probe-delay", "1s"]
    with World(ttl_ms=15000, options=options) as world:
        c = world.start(command=["/usr/bin/python3", str(script), str(starts)])
        eventually("a restart", lambda: starts.exists() and starts.read_text().count("start") >= 2)
        assert "health probe failed" in c.words()


SAYS = """
import os, pathlib, socket, sys, time
address = os.environ['NOTIFY_SOCKET']
pathlib.Path(sys.argv[1]).write_text(address)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while True:
    s.sendto(sys.argv[2].encode(), address)
    time.sleep(0.05)
"""
NOTIFY = ["--probe", "notify", "--probe-timeout", "1s", "--probe-threshold", "1",
          "--log-level", "debug"]
WELL, ILL = "program probe: healthy", "health probe failed"


def says(world, tmp_path, text, options=()):
    """A program that says so again and again; and where it was told to."""
    script, place = world.dir / "says.py", world.dir / "place"
    script.write_text(SAYS)
    place.touch()
    place.chmod(0o666)
    c = world.start(options=[*NOTIFY, *options],
                    command=["/usr/bin/python3", str(script), str(place), text])
    return c, lambda: place.read_text()


@pytest.mark.parametrize("text, well", [
    ("STATUS=x\nWATCHDOG=1\n", True),
    ("STATUS=no WATCHDOG=1\nWATCHDOG=10\nXREADY=1", False),
])
def test_notify_is_read_by_lines(tmp_path, text, well):
    with World(ttl_ms=15000) as world:
        c, _ = says(world, tmp_path, text)
        eventually("a verdict", lambda: WELL in c.words() or ILL in c.words())
        assert (WELL in c.words()) == well


@pytest.mark.parametrize("user", [None, pytest.param(65534, marks=pytest.mark.skipif(
    os.geteuid() != 0, reason="another user needs root"))])
def test_notify_believes_the_program_alone(tmp_path, user):
    """Neither its own user nor root speaks for it from outside of its tree; others cannot at all."""
    options = ["--user", str(user)] if user else []
    with World(ttl_ms=15000) as world:
        c, place = says(world, tmp_path, "WATCHDOG=1", options)
        eventually("it is well", lambda: WELL in c.words())
    with World(ttl_ms=15000) as world:
        c, place = says(world, tmp_path, "STATUS=ill", options)
        address = eventually("the place", place)
        assert os.stat(os.path.dirname(address)).st_mode & 0o777 == 0o700
        ends = subprocess.Popen(["/usr/bin/python3", "-c", SAYS, "/dev/null", "WATCHDOG=1"],
                                env={"NOTIFY_SOCKET": address}, user=user,
                                stderr=subprocess.DEVNULL)
        try:
            eventually("the verdict", lambda: ILL in c.words())
            assert WELL not in c.words()
        finally:
            ends.kill()
            ends.wait()
    assert not os.path.exists(os.path.dirname(address))


def test_unhealthy_candidate_does_not_contend(tmp_path):
    fit = tmp_path / "fit"
    options = ["--candidate-probe", f"exec:test -e {fit}", *QUICK]
    with World(ttl_ms=15000, options=options) as world:
        c = world.start()
        eventually("its word", lambda: candidates(world).get(c.name, {}).get("state") == "unhealthy")
        assert not world.table.rows()
        fit.touch()
        world.next_leader(0)


@pytest.mark.parametrize("spec", ["ftp://x", "tcp:nowhere", "tcp:no.such.host.invalid:80", "exec:"])
def test_probes_that_cannot_work(spec):
    done = subprocess.run(
        [TENURE, "run", "--name", "w", "--store", "noop:", "--probe", spec, "--", "true"],
        capture_output=True,
        timeout=w.PATIENCE,
    )
    assert done.returncode == 2
    assert b"probe" in done.stderr


def test_crash_loop_yields_with_the_reason():
    options = ["--on-exit", "restart", "--crash-limit", "2"]
    with World(ttl_ms=15000, options=options) as world:
        bad = world.start(command=[str(WITNESS), str(world.table.path), "exit=1"])
        row = world.next_leader(0)
        good = world.start()
        new = eventually(
            "the other's turn",
            lambda: next((r for r in world.table.programs() if r.epoch > row.epoch), None)
            and "leading" in good.words(),
        )
        assert new
        eventually(
            "the reason",
            lambda: "2 times in a row" in candidates(world).get(bad.name, {}).get("trouble", ""),
        )


# ---- Hooks ------------------------------------------------------------------


def test_hooks(tmp_path):
    said = tmp_path / "said"
    word = f"echo $TENURE_EVENT $TENURE_ID $TENURE_LEADER ${{TENURE_EPOCH:-none}} >> {said}"
    options = ["--on-started", word, "--on-stopped", word, "--on-new-leader", word]
    with World(ttl_ms=15000) as world:
        c = world.start(options=options)
        row = world.next_leader(0)
        for event in ("started", "new-leader"):
            eventually(event, lambda: said.exists() and event in said.read_text())
        c.signal(signal.SIGTERM)
        c.wait()
        lines = said.read_text().splitlines()
        assert f"started {c.name} {c.name} {row.epoch}" in lines
        assert f"stopped {c.name} {c.name} {row.epoch}" in lines
        assert f"new-leader {c.name} {c.name} none" in lines


def test_a_hook_belongs_to_its_term(tmp_path):
    """What --on-started does, or has left to a daemon, is over before --on-stopped."""
    said = tmp_path / "said"
    add = f"while :; do echo add >> {said}; sleep 0.01; done"
    options = ["--on-started", f"setsid sh -c '{add}' & {add}", "--on-stopped", f"echo del >> {said}"]
    with World(ttl_ms=15000) as world:
        first = world.start(options=options, command=["sleep", "1000"])
        eventually("it acts", lambda: said.exists() and said.read_text().count("add") > 3)
        second = world.start(options=["--on-started", f"echo next >> {said}"])
        standby(world, second)
        first.signal(signal.SIGTERM)
        eventually("the next one", lambda: "next" in said.read_text())
        first.wait()
        assert said.read_text().partition("del\n")[2] == "next\n"


def test_the_lease_is_kept_if_on_stopped_cannot_run():
    with World(ttl_ms=15000) as world:
        first = world.start(options=["--on-stopped", "no-such-command", "--grace", "1s"])
        row = world.next_leader(0)
        standby(world, world.start())
        asked = w.now()
        first.signal(signal.SIGTERM)
        new = world.next_leader(row.epoch)
        assert new.started - asked >= w.NS  # a drain lowers the deadline to its grace
        assert "the lease is kept until its deadline" in first.words()


def test_a_lease_that_is_kept_on_purpose_is_no_hang():
    """After a loss too: the guard waits with tenure until the deadline, and does not end it."""
    with World(ttl_ms=4000, options=["--renew", "100ms", "--on-stopped", "no-such-command"]) as world:
        first = world.start()
        row = world.next_leader(0)
        with world.outage():
            eventually("it is kept", lambda: "kept until its deadline" in first.words())
            w.eventually("that has passed", lambda: w.now() > row.started + 4 * w.NS)
        world.next_leader(row.epoch)
        assert first.proc.poll() is None


def test_release_waits_for_on_stopped(tmp_path):
    done = tmp_path / "done"
    options = ["--on-stopped", f"sleep 0.4; date +%s%N > {done}"]
    with World(ttl_ms=15000) as world:
        first = world.start(options=options)
        row = world.next_leader(0)
        standby(world, world.start())
        first.signal(signal.SIGTERM)
        new = world.next_leader(row.epoch)
        first.wait()
        wall = time.time_ns() - w.now()
        assert new.started > int(done.read_text()) - wall


def test_a_guard_does_not_take_a_slow_hook_for_a_hang(tmp_path):
    """--on-stopped has as long as the lease, after a loss too: who waits for it does not hang."""
    begun = tmp_path / "begun"
    # TERM comes 3 s before the deadline or more, and the hook has the rest; a guard is patient for 1 s.
    options = ["--on-stopped", f"touch {begun}; sleep 100", "--renew", "100ms"]
    with World(ttl_ms=8000, options=options) as world:
        c = world.start()
        row = world.next_leader(0)
        with world.outage():
            eventually("the hook", begun.exists)
            eventually("its end", lambda: "a hook was ended" in c.words() or c.proc.poll() is not None)
        assert c.proc.poll() is None, c.words()
        world.next_leader(row.epoch)


def test_a_hook_has_what_is_left_of_the_grace(tmp_path):
    """And nobody is told that the guard ended a program that had ended."""
    begun, done = tmp_path / "begun", tmp_path / "done"
    options = ["--grace", "4s", "--on-stopped", f"touch {begun}; sleep 60; touch {done}"]
    with World(ttl_ms=15000, options=options) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(signal.SIGTERM)
        c.wait()
        assert begun.exists() and not done.exists()
        assert "took too long" in c.words() and "the deadline has come" not in c.words()


def test_a_hook_that_hangs_delays_no_renewal_and_is_killed(tmp_path):
    pids = tmp_path / "pids"
    hang = f"echo $$ >> {pids}; trap '' TERM; while :; do sleep 1; done"
    options = ["--on-started", hang, "--on-new-leader", hang, "--on-stopped", hang,
               "--hook-timeout", "2500ms", "--renew", "200ms", "--grace", "500ms"]
    # Two of them take longer than a grant lasts without a renewal; a machine that stands still for a
    # while does not.
    with World(ttl_ms=6000, options=options) as world:
        c = world.start()
        row = world.next_leader(0)
        time.sleep(6.5)  # longer than the ttl
        seen = w.now()
        eventually("it lives", lambda: world.table.programs()[0].last > seen)
        assert world.table.top() == row.epoch
        c.signal(signal.SIGTERM)
        assert c.wait() == 0
        for pid in pids.read_text().split():
            eventually("the hook's end", lambda: not w.alive(int(pid)))


def test_hooks_get_no_secrets(tmp_path):
    said = tmp_path / "said"
    env = dict(os.environ, TENURE_SECRET="canary-2")
    with World(ttl_ms=15000) as world:
        world.start(options=["--on-started", f"env > {said}.new; mv {said}.new {said}"], env=env)
        eventually("the hook", said.exists)
        assert "canary" not in said.read_text()
        assert world.url not in said.read_text()


# ---- Warm standbys ---------------------------------------------------------


def warm_script(tmp_path):
    script = tmp_path / "warm.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "told = []\n"
        "signal.signal(signal.SIGUSR1, lambda *a: told.append(1))\n"
        "def leads():\n"
        "    return told or 'leading' in open(os.environ['TENURE_ROLE_FILE']).read()\n"
        "out = sys.argv[1]\n"
        "def say(word):\n"
        "    with open(out, 'a') as f: f.write(f'{word} {os.getpid()}\\n')\n"
        "say('up')\n"
        "while not leads(): time.sleep(0.01)\n"
        "say('told ' + open(os.environ['TENURE_ROLE_FILE']).read().strip())\n"
        "while True: time.sleep(0.01)\n"
    )
    return script


def test_warm(tmp_path):
    script = warm_script(tmp_path)
    with World(ttl_ms=15000) as world:
        said, members = [], []
        for i in range(2):
            said.append(tmp_path / f"said{i}")
            members.append(
                world.start(
                    options=["--warm-file", str(tmp_path / f"role{i}"), "--warm-signal", "USR1"],
                    command=["/usr/bin/python3", str(script), str(said[i])],
                )
            )
            eventually("it runs", said[i].exists)

        def read(i):
            return said[i].read_text() if said[i].exists() else ""

        eventually("one of them leads", lambda: any("leading, epoch" in m.words() for m in members))
        leader = next(i for i in range(2) if "leading, epoch" in members[i].words())
        other = 1 - leader
        # The standby's program runs too, and has not been told.
        eventually("both run", lambda: "up" in read(other))
        assert "told" not in read(other)
        role = eventually("the role", lambda: (tmp_path / f"role{leader}").read_text().split()[1:])
        epoch = int(role[0])
        before = read(other).split()[1]
        members[leader].signal(signal.SIGKILL)
        eventually("the word", lambda: "told leading" in read(other))
        line = [l for l in read(other).splitlines() if l.startswith("told")][0].split()
        assert int(line[2]) > epoch
        assert line[3] == before  # the same process: it was warm


def test_warm_program_is_ended_on_loss_and_warmed_again(tmp_path):
    script = warm_script(tmp_path)
    said, role = tmp_path / "said", tmp_path / "role"
    with World(ttl_ms=1000) as world:
        c = world.start(
            options=["--warm-file", str(role), "--warm-signal", "USR1", "--on-loss",
                     "restart-program"],
            command=["/usr/bin/python3", str(script), str(said)],
        )
        eventually("it leads", lambda: role.exists() and "leading" in role.read_text())
        eventually("it runs", said.exists)
        with world.outage():
            before = said.read_text().count("up")
            # From here on it cannot lead again, whatever a slow machine has cost it before.
            eventually("another process, which stands by", lambda: said.read_text().count("up") > before
                       and role.read_text() == "standby\n")
        eventually("it leads again", lambda: "leading" in role.read_text())
        assert c.proc.poll() is None


def test_the_program_of_a_warm_standby_has_its_grace(tmp_path):
    """There is nothing to drain and nothing to release; but the program is asked, and waited for."""
    up, done = tmp_path / "up", tmp_path / "done"
    script = f"trap 'sleep 0.4; touch {done}; exit 7' TERM; touch {up}; while :; do sleep 0.01; done"
    with World(ttl_ms=15000) as world:
        world.start()
        world.next_leader(0)
        c = world.start(options=["--warm-file", str(tmp_path / "role"), "--grace", "10m"],
                        command=["bash", "-c", script])
        eventually("it runs", up.exists)
        c.signal(signal.SIGTERM)
        assert c.wait() == 7
        assert done.exists()


def test_warm_needs_a_way_to_tell():
    done = subprocess.run(
        [TENURE, "run", "--name", "w", "--store", "noop:", "--warm", "--", "true"],
        capture_output=True,
    )
    assert done.returncode == 2
