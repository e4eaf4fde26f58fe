"""A program on a terminal of its own, and what stands on that terminal's screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from process import die_with_parent

TAKEN, GIVEN_BACK = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    def __init__(self, *command, columns=80, rows=24, **env):
        self.columns, self.rows = columns, rows
        self.raw = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            die_with_parent()
            # Tests may run in the background, where keys that interrupt are ignored.
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.environ.pop("NO_COLOR", None)
            os.environ.update(TERM="xterm", TZ="UTC", **env)
            # Until it has its size.
            if os.read(0, 1):
                os.execv(command[0], [str(word) for word in command])
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.fd)
        os.write(self.fd, b"\n")
        self.code = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def kill(self, number):
        os.kill(self.pid, number)

    def read(self, seconds=0.1):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.raw += os.read(self.fd, 65536).decode()
            except OSError:  # its other end is closed
                return False
        return True

    def frames(self):
        """Each whole drawing, as lines without colours."""
        drawn = re.findall(r"\x1b\[H(?!\x1b\[2J)(.*?)\x1b\[J", self.raw, re.S)
        return [re.sub(r"\x1b\[[0-9;]*[mK]|\r", "", text) for text in drawn]

    def until(self, text, limit=180):
        """The first drawing from now on, in which that regular expression is found."""
        self.raw, end = "", time.monotonic() + limit
        while True:
            for frame in self.frames():
                if re.search(text, frame, re.M):
                    return frame
            assert time.monotonic() < end, f"no {text!r} in {self.raw!r}"
            assert self.read(), f"it ended: {self.raw!r}"

    def ends(self, limit=180):
        """Its exit code, as subprocess tells it."""
        end = time.monotonic() + limit
        while self.read():
            assert time.monotonic() < end, self.raw
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code
