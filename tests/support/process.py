"""Servers of a test: private ports, a folder of their own, gone whatever happens."""

import contextlib
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def die_with_parent():
    """For preexec_fn: whatever ends the tests ends the child too."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_reserved = []  # until this process ends


def free_port():
    """A port of 127.0.0.1 that nobody uses right now, nor was given by this to anybody else who is
    still at work, and below those that the kernel gives to whoever connects: one of them could be
    taken before its server is up, or while it is down, even by the connection that looks for it."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.SystemRandom().randrange(low // 2, low)
                    if low >= 8192 else 0))
            name.bind(f"\0tenure-test-port-{s.getsockname()[1]}")
            _reserved.append(name)
            return s.getsockname()[1]
        name.close()


def until(what, limit=180.0, pause=0.02):
    """Call what() until it is true, and return that; fail after a generous limit."""
    patience = Patience(limit)
    while True:
        answer = what()
        if answer:
            return answer
        if patience.is_over():
            raise AssertionError(f"still not true after {limit} s: {what}")
        time.sleep(pause)


class Patience:
    """A limit in the time that this process could look: a machine that is stopped for a minute
    does not use it up, because what is waited for stood still as well."""

    STEP_MAX = 5.0  # between two looks

    def __init__(self, limit):
        self.left, self.looked = limit, time.monotonic()

    def is_over(self):
        now = time.monotonic()
        self.left -= min(now - self.looked, self.STEP_MAX)
        self.looked = now
        return self.left < 0


class Daemon:
    """One process in a folder of its own, killed by stop() or with the test run."""

    def __init__(self, name):
        self.name = name
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"tenure-{name}-"))
        self.process = None

    def spawn(self, argv, **options):
        log = open(self.dir / "log", "ab")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log,
                                        stderr=subprocess.STDOUT, cwd=self.dir,
                                        preexec_fn=die_with_parent, **options)
        log.close()

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        os.kill(self.process.pid, number)

    def pause(self):
        """Stop it, and return when all of its threads have really stopped."""
        self.signal(signal.SIGSTOP)
        until(lambda: all(state in "TtZX" for state in self.threads()))

    def threads(self):
        """The states of its threads."""
        states = []
        for stat in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # one that has ended
                states.append(stat.read_text().rsplit(")", 1)[1].split()[0])
        return states

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """At once, without a chance to save anything."""
        if self.alive():
            self.signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
