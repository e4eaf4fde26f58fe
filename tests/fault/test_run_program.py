"""What a program meets under `tenure run`: its output, environment, code, descriptors."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile

import cgroup
import pytest
import world as w
from world import TENURE, WITNESS, World, eventually

IS_ROOT = os.geteuid() == 0
CONTAINS = ["group"] + (["pidns"] if IS_ROOT else [])


def run(*command, options=(), store="noop:", env=None, stdin=b"", cwd=None):
    return subprocess.run(
        [TENURE, "run", "--name", "w", "--store", store, *options, "--", *command],
        input=stdin,
        capture_output=True,
        env=env,
        cwd=cwd,
        timeout=w.PATIENCE,
    )


@pytest.mark.parametrize("contain", CONTAINS)
def test_output_input_and_code_pass_through(contain):
    script = "cat; echo to-stderr >&2; printf '\\0\\377raw'; exit 37"
    done = run("sh", "-c", script, options=["--contain", contain], stdin=b"from stdin\n")
    assert done.returncode == 37
    assert done.stdout == b"from stdin\n\0\xffraw"
    assert b"to-stderr\n" in done.stderr


def test_code_of_a_signal():
    assert run("sh", "-c", "kill -USR1 $$").returncode == 128 + signal.SIGUSR1


def test_environment_is_clean():
    env = {
        "PATH": os.environ["PATH"],
        "MINE": "kept",
        "TENURE_STORE": "noop:",
        "TENURE_SECRET": "canary-1",
        "TENURE_EPOCH": "stale",
        "NOTIFY_SOCKET": "/nowhere",
        "WATCHDOG_USEC": "1000000",
        "LISTEN_FDS": "1",
    }
    done = subprocess.run(
        [TENURE, "run", "--name", "w", "--id", "me", "--", "env"],
        capture_output=True,
        env=env,
        timeout=w.PATIENCE,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    assert int(seen.pop("TENURE_EPOCH")) > 1_600_000_000_000
    for shell in ("PWD", "SHLVL", "_"):
        seen.pop(shell, None)
    assert seen == {
        "PATH": env["PATH"],
        "MINE": "kept",
        "TENURE_NAME": "w",
        "TENURE_ID": "me",
    }
    assert b"canary" not in done.stdout + done.stderr


def test_no_stray_descriptors():
    read, write = os.pipe()
    os.set_inheritable(write, True)
    done = subprocess.run(
        [TENURE, "run", "--name", "w", "--store", "noop:", "--", "ls", "/proc/self/fd"],
        capture_output=True,
        pass_fds=[write],
        timeout=w.PATIENCE,
    )
    os.close(read)
    os.close(write)
    assert done.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the directory that ls reads


def test_signal_mask_and_dispositions_are_ours():
    done = run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    own = {}
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("SigBlk", "SigIgn")):
            own[line.split(":")[0]] = int(line.split()[1], 16)
    seen = {l.split(b":")[0].decode(): int(l.split()[1], 16) for l in done.stdout.splitlines()}
    assert seen["SigBlk"] == own["SigBlk"]
    # Python ignores SIGPIPE and SIGXFSZ, and subprocess gives them back.
    assert seen["SigIgn"] & ~own["SigIgn"] == 0


def test_priority_and_oom_score_are_not_the_guards():
    done = run("sh", "-c", "nice; cat /proc/self/oom_score_adj; chrt -p $$ | head -1")
    nice, score, policy = done.stdout.decode().splitlines()
    assert int(nice) == os.getpriority(os.PRIO_PROCESS, 0)
    assert int(score) == int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    assert "SCHED_OTHER" in policy


def test_no_new_privs():
    assert run("grep", "-q", "NoNewPrivs:.1", "/proc/self/status").returncode == 0
    allowed = run(
        "grep", "-q", "NoNewPrivs:.0", "/proc/self/status", options=["--allow-new-privs"]
    )
    assert allowed.returncode == 0


def test_directory(tmp_path):
    assert run("pwd", options=["--chdir", str(tmp_path)]).stdout.decode().strip() == str(tmp_path)
    missing = run("pwd", options=["--chdir", str(tmp_path / "nowhere")])
    assert missing.returncode == 126
    assert b"--chdir" in missing.stderr
    # A command is looked for from there, by us as by the system.
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    for path in (there / "only-there", here / "only-here"):
        path.write_text("#!/bin/sh\nexit 9\n")
        path.chmod(0o755)
    options = ["--chdir", str(there)]
    assert run("./only-there", options=options, cwd=here).returncode == 9
    assert run("./only-here", options=options, cwd=here).returncode == 127
    for path in (":/usr/bin:/bin", "/usr/bin:/bin:", "/usr/bin:.:/bin"):
        env = {**os.environ, "PATH": path}
        assert run("only-there", options=options, cwd=here, env=env).returncode == 9
        assert run("only-here", cwd=here, env=env).returncode == 9


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
def test_user():
    nobody = pwd.getpwnam("nobody")
    done = run("sh", "-c", "id -u; id -g; id -G; echo $USER", options=["--user", "nobody"])
    uid, gid, groups, user = done.stdout.decode().splitlines()
    assert (int(uid), int(gid), user) == (nobody.pw_uid, nobody.pw_gid, "nobody")
    assert "0" not in groups.split()
    assert run("id", "-g", options=["--user", "nobody:daemon"]).stdout.strip() == b"1"
    unknown = run("true", options=["--user", "no-such-user"])
    assert unknown.returncode == 2
    assert b"no-such-user" in unknown.stderr


@pytest.mark.skipif(not IS_ROOT, reason="a PID namespace needs privileges here")
def test_a_pid_file_is_right_for_everybody():
    """The program's own number is the one that the rest of the machine knows it by."""
    done = run("sh", "-c", "echo $$; grep NSpid /proc/self/status >/dev/null; cat /proc/$$/comm",
               options=["--contain", "pidns"])
    number, name = done.stdout.decode().split()
    assert int(number) > 1 and name == "sh"


def test_a_command_that_is_not_there(tmp_path):
    for command in ("no-such-command-here", str(tmp_path / "missing")):
        done = run(command)
        assert done.returncode == 127, done.stderr
        assert len(done.stderr.splitlines()) == 1
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    assert run(str(plain)).returncode == 126
    assert run(str(tmp_path)).returncode == 126
    plain.chmod(0o755)  # executable, but nothing that the kernel or a shell understands
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    done = run(str(broken))
    assert done.returncode == 127
    assert b"cannot be executed" in done.stderr


def test_a_guard_that_does_not_start(tmp_path):
    """It is told and the lease is free, also if it was won while the guard was being started."""
    with World(ttl_ms=15000) as world:
        shutil.copy2(TENURE, tmp_path / "tenure")
        guard = tmp_path / "tenure-guard"
        guard.write_text(f"#!/bin/sh\nuntil grep -rqs '\"holder\":\"c1\"' {world.dir}/store; do "
                         "sleep 0.01; done\nsleep 0.1\nexit 1\n")
        guard.chmod(0o755)
        c = world.start(binary=tmp_path / "tenure")
        assert c.wait() == 125
        assert "the guard did not start" in c.words()
        status = subprocess.run(
            [TENURE, "status", "--name", "w", "--store", world.url, "--json"], capture_output=True
        )
        assert b'"state":"free"' in status.stdout


@pytest.mark.parametrize("descriptors", [12, 20, 40])
def test_what_tenure_itself_lacks(descriptors):
    """Is told as such: the store is not to blame."""
    done = subprocess.run(
        ["prlimit", f"--nofile={descriptors}", TENURE, "run", "--name", "w", "--store", "noop:",
         "--", "true"], capture_output=True, timeout=w.PATIENCE)
    assert done.returncode == 125, done.stderr


def skip_if_closed(become):
    """Another user runs what was built here, if he can reach it."""
    if subprocess.run([*become, "test", "-x", TENURE]).returncode != 0:
        pytest.skip("the build folder is not open to other users")


@pytest.mark.skipif(not IS_ROOT, reason="root makes a user whose processes nobody else counts")
def test_processes_are_short_for_a_while():
    """With --on-exit restart a program that cannot be started now is tried again later."""
    user = 64998
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    skip_if_closed(become)
    with World(ttl_ms=15000, options=["--on-exit", "restart", "--contain", "group"]) as world:
        for path in (world.dir, world.table.path):
            os.chown(path, user, user)
        c = world.start(wrap=become)
        row = world.next_leader(0)
        limit = [*become, "prlimit", f"--pid={c.guard()}"]
        before = subprocess.check_output(
            [*limit, "--nproc", "--noheadings", "--raw", "--output=SOFT"], text=True).strip()
        subprocess.check_call([*limit, "--nproc=1:"])
        os.kill(row.pid, signal.SIGKILL)
        eventually("a vain try", lambda: "Resource temporarily unavailable" in c.words())
        subprocess.check_call([*limit, f"--nproc={before}:"])
        eventually("another program", lambda: len(world.table.programs()) >= 2
                   or c.proc.poll() is not None)
        assert c.proc.poll() is None, c.words()


def test_a_missing_command_leaves_the_lease_free(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    store = f"file:{tmp_path}/store"
    assert run(str(broken), store=store).returncode == 127
    status = subprocess.run(
        [TENURE, "status", "--name", "w", "--store", store, "--json"], capture_output=True
    )
    assert b'"state":"free"' in status.stdout


def test_a_program_that_ends_at_once_frees_the_lease():
    with World(options=["--on-exit", "yield"], words=["exit=0"]) as world:
        first, second = world.start(), world.start()
        # Both get their turns: who lets go is taken over from.
        eventually("ten terms", lambda: len(world.table.programs()) >= 10)
        for c in (first, second):
            eventually("its turn", lambda: "leading" in c.words())
            assert c.proc.poll() is None


def test_restart_with_pauses_then_yield():
    with World(
        options=["--on-exit", "restart", "--crash-limit", "3"], words=["exit=3"], ttl_ms=15000
    ) as world:
        c = world.start()
        eventually("a yield", lambda: "giving leadership up" in c.words())
        rows = world.table.programs()
        assert len(rows) >= 3
        assert len({r.epoch for r in rows[:3]}) == 1  # restarted within one term


@pytest.mark.parametrize("contain", CONTAINS)
@pytest.mark.parametrize("word", ["daemon", "brood"])
def test_what_a_program_leaves_behind_is_ended(contain, word):
    with World(ttl_ms=15000, options=["--contain", contain], words=[word, "after=50"]) as world:
        c = world.start()
        assert c.wait() == 0
        assert not w.eventually_none(world.processes)
        assert any(r.kind == 1 for r in world.table.rows())


@pytest.mark.skipif(cgroup.missing() is not None, reason=str(cgroup.missing()))
def test_cgroup():
    with World(ttl_ms=15000, options=["--contain", "cgroup"],
               words=["daemon", "stubborn"]) as world:
        c = world.start()
        world.next_leader(0)
        eventually("the word", lambda: "cgroup v2" in c.words())
        eventually("its daemon", lambda: any(r.kind == 1 for r in world.table.rows()))
        members = set()
        for pid in world.processes():
            with contextlib.suppress(OSError):  # who made the daemon goes
                members.add(pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1])
        assert len(members) == 1 and f"/tenure-{c.guard()}-" in members.pop()
        c.signal(signal.SIGKILL)
        c.wait()
        assert not w.eventually_none(world.processes)


@pytest.mark.skipif(IS_ROOT is False, reason="drops privileges")
def test_user_namespace_and_plain_user():
    """Somebody without privileges: a namespace on demand, the process group otherwise."""
    with World(ttl_ms=15000) as world:
        os.chmod(world.dir, 0o777)
        os.chmod(world.table.path, 0o666)
        nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        skip_if_closed(nobody)
        for contain, word in (("auto", "process group"), ("userns", "user namespace")):
            above = world.table.top()
            c = world.start(options=["--contain", contain], wrap=nobody)
            eventually("the word", lambda: word in c.words() or c.proc.poll() is not None)
            if contain == "userns" and c.proc.poll() == 2:
                pytest.skip("user namespaces are not allowed here")
            world.next_leader(above)
            c.signal(signal.SIGTERM)
            assert c.wait() in (0, 143)


def test_containment_that_cannot_be_had():
    nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if IS_ROOT else []
    with tempfile.TemporaryDirectory() as place:  # the build folder may be closed to others
        os.chmod(place, 0o755)
        for name in ("tenure", "tenure-guard"):
            shutil.copy(TENURE.parent / name, place)
        done = subprocess.run(
            [*nobody, os.path.join(place, "tenure"), "run", "--name", "w", "--store", "noop:",
             "--contain", "pidns", "--", "true"],
            capture_output=True,
            timeout=w.PATIENCE,
        )
    assert done.returncode == 2
    assert b"containment" in done.stderr


def test_watchdog(tmp_path):
    device = tmp_path / "watchdog"
    device.write_text("")
    done = run("sleep", "0.2", options=["--watchdog", "required", "--watchdog-device", str(device)])
    assert done.returncode == 0
    said = device.read_text()
    assert said.startswith("p") and said.endswith("V")  # petted, and told to stop
    missing = run(
        "true", options=["--watchdog", "required", "--watchdog-device", str(tmp_path / "none")]
    )
    assert missing.returncode == 2
    assert b"watchdog" in missing.stderr
    optional = run(
        "true", options=["--watchdog", "auto", "--watchdog-device", str(tmp_path / "none")]
    )
    assert optional.returncode == 0


@pytest.mark.parametrize(
    "options, word",
    [
        (["--ttl", "10"], b"duration"),
        (["--ttl", "10ms"], b"ttl"),
        (["--on-loss", "panic"], b"standby, exit"),
        (["--stop-signal", "KILL"], b"--stop-signal"),
        (["--frobnicate"], b"unrecognized option"),
        (["--store", "nosuch:x"], b"no store is called"),
        (["--renew", "14s"], b"renew"),
    ],
)
def test_settings_that_cannot_work(options, word):
    done = run("true", options=options)
    assert done.returncode == 2
    assert word in done.stderr


def test_a_store_that_says_no(tmp_path):
    flat = tmp_path / "flat"
    flat.write_text("not a directory")
    done = run("true", store=f"file:{flat}/below")
    assert done.returncode in (1, 2)
    assert done.stderr.count(b"\n") == 1


def test_two_threads_are_enough():
    """The loop, and the one that talks to the store: others exist only while something blocks."""
    with World() as world:
        c = world.start()
        world.next_leader(0)

        def names():
            found = set()
            for thread in pathlib.Path(f"/proc/{c.proc.pid}/task").iterdir():
                with contextlib.suppress(OSError):  # one that has just ended
                    found.add((thread / "comm").read_text().strip())
            return found
        eventually("two threads", lambda: names() == {"tenure", "tenure-driver"})
