"""What tenure knows of the store is not the program's to read, and the releaser knows it all the same.

The program has tenure's user, and so has the reader here: one without privileges.
"""

import os
import pathlib
import signal
import subprocess

import pytest
import server_redis
import world as w
from world import World, eventually

CANARY = "cAnArY-secret-25"
HOUR_MS = 3_600_000
PLAIN = (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
         if os.geteuid() == 0 else [])


@pytest.fixture(scope="module")
def redis():
    with server_redis.Redis() as made:
        client = server_redis.Client(made.port)
        client("CONFIG", "SET", "requirepass", CANARY)
        client.close()
        yield f"redis://127.0.0.1:{made.port}?password_env=APP_PASSWORD"


def able(*command):
    return subprocess.run([*PLAIN, *map(str, command)], capture_output=True).returncode == 0


def reads(path):
    return able("cat", path)


pytestmark = [
    pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING)),
    pytest.mark.skipif(not able(w.TENURE, "--version"), reason="the build is not for every user"),
]
USERNS = [pytest.param("userns", marks=pytest.mark.skipif(
    not able("unshare", "--user", "--pid", "--fork", "--mount-proc", "true"),
    reason="user namespaces cannot be had here"))]


@pytest.mark.parametrize("contain", ["group", *USERNS])
@pytest.mark.parametrize("releaser", ["prepared", "executed"])
def test_secrets(redis, releaser, contain):
    env = {**os.environ, "APP_PASSWORD": CANARY, "TENURE_STORE": f"redis://:{CANARY}@localhost"}
    with World(ttl_ms=HOUR_MS, url=redis, options=["--contain", contain]) as world:
        world.table.path.chmod(0o666)
        leader = world.start(env=env, wrap=PLAIN)
        row = world.next_leader(0)
        guard = leader.guard()
        init = eventually("an init", lambda: w.children(guard))[0]
        program = eventually("the program", lambda: w.children(init))[0]
        prepared = eventually("a releaser", lambda: next(
            (p for p in w.children(leader.pid) if w.comm(p) == "tenure-releaser"), None))

        assert reads(f"/proc/{program}/environ")  # so the reader could
        for pid in (leader.pid, guard, init, prepared):
            assert not reads(f"/proc/{pid}/environ"), w.comm(pid)
        assert not reads(f"/proc/{guard}/fd/8") and not reads(f"/proc/{prepared}/fd/8")
        if os.geteuid() == 0:
            for pid in (guard, init, prepared, program):
                text = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                assert CANARY.encode() not in text and (pid == program or text == b"")

        standby = world.start(env=env, wrap=PLAIN)
        eventually("it stands by", lambda: f"leads, epoch {row.epoch}" in standby.words())
        if releaser == "executed":
            os.kill(prepared, signal.SIGKILL)
            eventually("it is reaped", lambda: prepared not in w.children(leader.pid))
        leader.signal(signal.SIGKILL)
        world.next_leader(row.epoch)
        world.forget(leader)
        subprocess.run([w.TENURE, "reset", "--force", "--name", "w", "--store", redis], env=env,
                       check=True, capture_output=True)
