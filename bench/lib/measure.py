"""What is measured of a contender; every figure is a median over rounds."""

import os
import signal
import statistics
import subprocess
import time

from .contenders import STAMP, boottime


def lines(path):
    try:
        with open(path) as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def await_stamp(path, count, limit=40):
    """The count-th time at which the program began."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        seen = lines(path)
        if len(seen) >= count:
            return int(seen[count - 1].split()[0])
        time.sleep(0.002)  # the program tells the time, and looking takes some
    raise RuntimeError(f"the program did not start {count} times within {limit} s")


def start(contender, log, *through):
    return subprocess.Popen([*through, *contender.command(log)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            start_new_session=True)


def end(contender, process):
    """End it, and all it started: a contender that leaves its program alive loses it here."""
    if contender.lock_lives_with_program:
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
                process.wait(5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
            break
        process.wait()
        return
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nothing was left


def exec_to_lead(contender, folder, fresh):
    """Nanoseconds from exec until the program runs, alone on an empty store; for a contender that
    can tell the moment at which it led, until then."""
    fresh()
    log = os.path.join(folder, "log")
    for path in (log, log + ".trace", log + ".exec"):
        if os.path.exists(path):
            os.unlink(path)
    p = start(contender, log, STAMP, log + ".exec", "exec")
    moment = await_stamp(log, 1)
    began = int(lines(log + ".exec")[0].split()[0])
    if hasattr(contender, "moment"):
        moment = contender.moment(log)
    end(contender, p)
    return moment - began


def hand_over(contender, folder, fresh):
    """Nanoseconds from the request to stop until the standby's program runs."""
    fresh()
    log = os.path.join(folder, "log")
    if os.path.exists(log):
        os.unlink(log)
    a = start(contender, log)
    await_stamp(log, 1)
    b = start(contender, log)
    time.sleep(0.4)
    program = int(lines(log)[0].split()[1])
    began = boottime()
    if contender.name == "etcdctl elect":
        os.killpg(a.pid, signal.SIGTERM)  # it resigns by itself, and runs nothing
    else:
        a.send_signal(signal.SIGTERM)
        if contender.lock_lives_with_program:
            os.kill(program, signal.SIGTERM)
    took = await_stamp(log, 2) - began
    end(contender, a)
    end(contender, b)
    return took


def tree(pid):
    """A process and everything below it."""
    found = [pid]
    for p in found:
        for task in os.listdir(f"/proc/{p}/task"):
            with open(f"/proc/{p}/task/{task}/children") as f:
                found += [int(c) for c in f.read().split()]
    return found


def comm(pid):
    with open(f"/proc/{pid}/comm") as f:
        return f.read().strip()


def private_kib(pid):
    """What would be free without it."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def cpu_ns(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def switches(pid):
    """Voluntary context switches: how often it went to sleep, so how often it woke."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as f:
            for line in f:
                if line.startswith("voluntary_ctxt_switches:"):
                    total += int(line.split()[1])
    return total


def idle(contender, folder, fresh, seconds):
    """Resident KiB, CPU ns and wake-ups of an idle leader and an idle standby, by process."""
    fresh()
    log = os.path.join(folder, "log")
    if os.path.exists(log):
        os.unlink(log)
    a = start(contender, log)
    await_stamp(log, 1)
    b = start(contender, log)
    time.sleep(1.5)
    groups = {}
    for role, p in (("leader", a), ("standby", b)):
        for pid in tree(p.pid):
            if comm(pid) != "stamp":
                groups[(role, comm(pid), pid)] = (cpu_ns(pid), switches(pid))
    time.sleep(seconds)
    out = []
    for (role, name, pid), (cpu, woken) in groups.items():
        if os.path.exists(f"/proc/{pid}"):
            out.append((role, name, resident_kib(pid), cpu_ns(pid) - cpu, switches(pid) - woken))
    end(contender, a)
    end(contender, b)
    return out


def median_ms(values):
    return statistics.median(values) / 1e6
