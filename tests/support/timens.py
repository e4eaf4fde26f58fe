"""timens SECONDS COMMAND ... - run a command whose boot clock is that far ahead.

As `unshare --time --fork`, but a command that is stopped stays stopped: unshare
of util-linux 2.38 ends when its child is.
"""

import ctypes
import os
import signal
import sys

CLONE_NEWTIME, PR_SET_PDEATHSIG = 0x80, 1


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME) != 0:
        sys.exit(f"timens: {os.strerror(ctypes.get_errno())}")
    with open("/proc/self/timens_offsets", "w", encoding="ascii") as f:
        f.write(f"monotonic {sys.argv[1]} 0\nboottime {sys.argv[1]} 0\n")
    pid = os.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execvp(sys.argv[2], sys.argv[2:])
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xff)


if __name__ == "__main__":
    main()
