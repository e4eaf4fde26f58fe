"""committer TRACE TABLE - a supervised program that counts in its fenced state.

It loads the counter, then commits the next number, again and again, and writes
down what it found and what was acknowledged (tests/sim/tracefile.h). TABLE is
the witnesses' table: only there so that a World finds its processes.
"""

import json
import os
import signal
import sys
import time

from unix_http import UnixConnection

TARGET = "/v1/state/counter/n"


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def offset():
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as f:
            for line in f:
                clock, seconds, nanoseconds = line.split()
                if clock == "boottime":
                    return int(seconds) * 10**9 + int(nanoseconds)
    except OSError:
        pass
    return 0


def main():
    epoch = int(os.environ["TENURE_EPOCH"])
    out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(**members):
        os.write(out, (json.dumps(members) + "\n").encode())

    write(tenure_trace=1, judge=True, boot_offset_ns=offset())
    connection = UnixConnection(os.environ["TENURE_SOCKET"])
    connection.request("GET", TARGET)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status not in (200, 404):
        return 1
    value = int(body) if answer.status == 200 else 0
    write(at_ns=now(), event="loaded", epoch=epoch, value=value)
    while True:
        sent = now()
        connection.request("PUT", TARGET, str(value + 1).encode())
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            return 1
        value += 1
        at = now()
        write(at_ns=at, event="committed", epoch=epoch, value=value, took_ns=at - sent)
        time.sleep(0.005)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    sys.exit(main())
