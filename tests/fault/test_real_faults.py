"""Real faults, judged by the simulator's checkers (tests/sim, tenure-sim --check).

Every test ends with all traces of its candidates, the lives that the programs
proved, and the faults as they were injected before the same I1 ... I12 that the
simulated histories are judged by. The last tests plant bugs in the product, and
see the same checkers find them in traces of real processes.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import pytest
import server_redis
from judge import Disk, Judged, check, committer, in_time, planted, works
from proxy import Proxy
from world import BUILD, MEMORY, eventually

TTL_MS = 2000
LONGER = TTL_MS / 1000 * 1.5  # than a ttl

no_time = works(*in_time(1000), "true")
no_mount = works("unshare", "--mount", "--propagation", "private", "true")
needs_time = pytest.mark.skipif(no_time is not None, reason=f"no time namespaces: {no_time}")
needs_mount = pytest.mark.skipif(no_mount is not None, reason=f"no mount namespaces: {no_mount}")
needs_redis = pytest.mark.skipif(server_redis.MISSING is not None,
                                 reason=str(server_redis.MISSING))


# ---- Processes -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_stopped_and_killed(scheme):
    with Judged(scheme, ttl_ms=TTL_MS) as w:
        for _ in range(3):
            w.start()
        leader, epoch = w.leads()
        w.stop(leader, LONGER)  # its guard ends the program; another leads
        w.calm()
        leader, epoch = w.leads(epoch)
        w.kill(leader)
        leader.again()  # the same id, another incarnation (I6b)
        w.calm()
        leader, epoch = w.leads(epoch)
        w.stop(leader, 0.2)  # too short to cost anything
        w.order(leader)
        w.leads(epoch)


def test_the_guard_is_killed():
    with Judged("file", ttl_ms=TTL_MS) as w:
        for _ in range(2):
            w.start()
        leader, epoch = w.leads()
        with w.fault(leader):
            os.kill(leader.guard(), signal.SIGKILL)
        w.calm()
        w.leads(epoch)


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_library_users_that_are_killed(scheme):
    """Candidates of the library, hundreds of terms: judged by what they believed."""
    with tempfile.TemporaryDirectory(prefix="tenure-traces-", dir=MEMORY) as folder:
        done = subprocess.run(
            [BUILD / "tests" / "fault" / "race_elect", f"{scheme}:{folder}/store", "--dir", BUILD,
             "--processes", "5", "--terms", "200", "--kills", "1", "--traces", folder],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout
        code, text = check(sorted(pathlib.Path(folder).glob("r*.trace")))
    assert code == 0, text
    assert re.search(r" [1-9]\d\d grants", text), text


# ---- The network -----------------------------------------------------------------


@needs_redis
def test_delayed_dropped_and_half_closed():
    with server_redis.Redis() as redis, Proxy(("127.0.0.1", redis.port)) as bad, \
            Judged(url=redis.url(), ttl_ms=5000, options=["--renew", "300ms", "--grace", "200ms"]) as w:
        good_url = w.url
        w.url = good_url.replace(str(redis.port), str(bad.port))
        first = w.start()
        leader, epoch = w.leads()
        assert leader is first
        w.url = good_url
        w.start()
        bad.delay = 0.05  # slow, and no reason to stop
        time.sleep(1)
        bad.delay = 0.0
        with w.fault(first):
            bad.cut()  # at once renewed over a new connection
        with w.fault(first):
            bad.half_close()
        time.sleep(0.5)
        epoch = w.table.top()
        with w.fault(first):
            bad.hold("down")  # requests arrive, answers do not: unknown outcomes (I6)
            bad.black_hole = True
            w.next_leader(epoch)
            bad.black_hole = False
            bad.release()
        w.calm()
        epoch = w.table.top()
        w.order(w.leader())
        w.leads(epoch)  # the one that was cut off contends again (I11)


# ---- Disks -----------------------------------------------------------------------


@needs_mount
@pytest.mark.parametrize("what", ["full", "read-only"])
def test_disks(tmp_path, what):
    with Disk(tmp_path / "disk") as disk, \
            Judged(url=f"file:{disk.path}/store", ttl_ms=TTL_MS) as w:
        if disk.run("test", "-d", str(disk.path / "..")).returncode != 0:
            pytest.skip("mount namespaces lead out of here (a chroot?)")
        a, b = w.start(wrap=disk.wrap), w.start(wrap=disk.wrap)
        leader, epoch = w.leads()
        with w.fault(a, b):
            if what == "full":
                # Again and again: old slots are cleaned up meanwhile.
                eventually("its end", lambda: disk.fill() or not w.processes())
                disk.empty()
            else:
                disk.read_only(True)
                w.dead(epoch)  # nobody can renew: it ends by D
                disk.read_only(False)
        w.calm()
        w.leads(epoch)


# ---- Clocks ----------------------------------------------------------------------


@needs_time
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_clocks_that_have_nothing_in_common(scheme):
    """Boot times of two processes may not be compared: here they are hours apart."""
    with Judged(scheme, ttl_ms=TTL_MS) as w:
        for ahead in (0, 7200, 360000):
            w.start(wrap=in_time(ahead) if ahead else ())
        leader, epoch = w.leads()
        for round in range(3):
            if round % 2:
                w.stop(leader, LONGER)
            else:
                w.kill(leader)
                w.start(name=leader.name, wrap=in_time(7200 * (round + 2)))
            w.calm()
            leader, epoch = w.leads(epoch)
        headers = [json.loads(path.read_text().split("\n", 1)[0])
                   for path in w.traces.glob("c*.trace")]
        assert len({h["boot_offset_ns"] for h in headers}) > 1


# ---- The state -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_commits_over_kills_and_stops(scheme):
    with Judged(scheme, ttl_ms=TTL_MS, options=["--state", "store"]) as w:
        def commits(epoch):
            return sum(e.get("event") == "committed" and e["epoch"] == epoch
                       for e in w.told("*.commits.trace"))

        def busy(above=0):
            """A leader that has committed.  On a machine that stands still it may be the next one."""
            found = []

            def look():
                found[:] = w.leads(above)
                return commits(found[1]) > 5

            eventually("commits", look)
            return found

        for name in ("c1", "c2"):
            w.start(name=name, command=committer(w, name))
        leader, epoch = busy()
        for fault in ("kill", "stop", "kill"):
            if fault == "stop":
                w.stop(leader, LONGER)
            else:
                w.kill(leader)
                leader.again()
            w.calm()
            leader, epoch = busy(epoch)
    assert re.search(r" [1-9]\d+ commits and loads", w.said)


# ---- Traces that are none --------------------------------------------------------


HEADER = {"tenure_trace": 1, "name": "w", "boot_offset_ns": 0, "ttl_ns": 2 * 10**9,
          "hold_ns": 10**9, "kill_ns": 10**8, "grace_ns": 10**8, "poll_ns": 10**8,
          "rho_ppm": 100000}


def write(path, *lines, tail=""):
    path.write_text("".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in lines) + tail)
    return path


@pytest.mark.parametrize("lines,word", [
    ([], "is empty: not a trace"),
    (["hello"], ":1: not a trace: the first line is no header"),
    ([{"at_ns": 1, "id": "a", "event": "granted"}], ":1: not a trace: the first line is no header"),
    ([{**HEADER, "tenure_trace": 2}], ":1: a trace of version 2; this program reads version 1"),
    ([{**HEADER, "grace_ns": -1}], ":1: the header lacks the times in force"),
    ([{**HEADER, "boot_offset_ns": 2**62}], ":1: 'boot_offset_ns' is out of range"),
    ([{**HEADER, "hold_ns": 0}], ":1: the header lacks the times in force"),
    ([HEADER, "{\"at_ns\": 7, \"id\": \"a", "{}"], ":2: the trace is damaged"),
    ([HEADER, {"at_ns": 7, "id": "a", "event": "dreamt"}], ":2: no event is called 'dreamt'"),
    ([HEADER, {"id": "a", "event": "granted"}], ":2: an event without a time or an id"),
    ([HEADER, {"at_ns": -1, "id": "a", "event": "granted"}], ":2: 'at_ns' is out of range"),
    ([HEADER, {"at_ns": "x", "id": "a", "event": "granted"}], ":2: 'at_ns' is not a whole number"),
    ([HEADER, {"at_ns": 1, "id": "a", "event": "granted", "lost": 3}], "3 lines are missing"),
    ([HEADER, {"at_ns": 1, "id": "a" * 200, "event": "granted"}], ":2: 'id' is not a text"),
])
def test_traces_that_are_none(tmp_path, lines, word):
    code, text = check([write(tmp_path / "t", *lines)])
    assert code == 2
    assert word in text
    assert text.count("\n") == 1


def test_a_last_line_that_was_cut_short(tmp_path):
    code, text = check([write(tmp_path / "t", HEADER, tail='{"at_ns": 7, "id": "a", "ev')])
    assert code == 0, text


def term(at, epoch, name="a", **more):
    """A grant and its start, with D = 1 s."""
    s = 10**9
    return [{"at_ns": int(at * s), "id": name, "event": event, "epoch": epoch,
             "deadline_ns": int((at + 1) * s), **more} for event in ("granted", "started")]


def at(seconds, event, epoch=5, name="a", **more):
    return {"at_ns": int(seconds * 10**9), "id": name, "event": event, "epoch": epoch, **more}


DEADLINE = {"deadline_ns": 11 * 10**9}


@pytest.mark.parametrize("expected,events", [
    ("I1", [*term(10, 5), *term(10.9, 6, "b")]),  # a believes until 11
    (None, [*term(10, 5), *term(11.1, 6, "b")]),
    (None, [*term(10, 5), at(10.5, "stopping", text="asked to step down", **DEADLINE),
            *term(10.9, 6, "b")]),
    ("I2", [*term(10, 5), *term(13, 5, "b")]),
    ("I2", [*term(10, 5), *term(13, 4, "b")]),
    ("I2", [*term(10, 5), *term(13, 5)]),
    ("I6b", [*term(10, 5), at(11.5, "renewed", took_ns=10**8, **DEADLINE)]),
    ("I6", [*term(10, 5), at(10.2, "renewed", took_ns=10**7, **DEADLINE),
            at(10.4, "renewed", took_ns=10**7, deadline_ns=int(11.3 * 10**9))]),
    (None, [*term(10, 5), at(10.2, "renewed", took_ns=10**7, **DEADLINE),
            at(10.4, "renewed", took_ns=10**7, deadline_ns=int(11.19 * 10**9))]),
    ("I7", [*term(10, 5), at(10.2, "released", took_ns=1)]),
    ("I9", [*term(10, 5), at(10.2, "stopping", text="the store no longer shows this grant",
                             **DEADLINE)]),
    (None, [*term(10, 5), at(10.2, "stopping", text="the store no longer shows this grant",
                             **DEADLINE), at(10.3, "leader", 6, leader="b")]),
    ("I12", [*term(10, 5), at(10.9, "stopping", text="renewals failed until the deadline",
                              **DEADLINE)]),
    ("I12", [*term(10, 5), at(10.3, "trouble"), at(10.8, "stopping",
                                                   text="renewals failed until the deadline",
                                                   **DEADLINE)]),
    (None, [*term(10, 5), at(10.3, "trouble"), at(10.9, "stopping",
                                                  text="renewals failed until the deadline",
                                                  **DEADLINE)]),
    ("I11", [*term(10, 5), at(10.2, "halted")]),
])
def test_what_the_checkers_see_in_a_trace(tmp_path, expected, events):
    names = sorted({e["id"] for e in events})
    paths = [write(tmp_path / name, HEADER, *(e for e in events if e["id"] == name))
             for name in names]
    paths.append(write(tmp_path / "judge", {"tenure_trace": 1, "judge": True},
                       *(at(10.1, "order") for _ in range(1)
                         if expected != "I11")))
    code, text = check(paths)
    if expected:
        assert code == 1 and f"VIOLATION {expected}:" in text, text
    else:
        assert code == 0, text


JUDGE = {"tenure_trace": 1, "judge": True, "boot_offset_ns": 0}


@pytest.mark.parametrize("expected,events", [
    ("I1", [at(10, "acts", 5, "", until_ns=13 * 10**9), at(12.9, "acts", 6, "", until_ns=14 * 10**9)]),
    (None, [at(10, "acts", 5, "", until_ns=12 * 10**9), at(12.9, "acts", 6, "", until_ns=14 * 10**9)]),
    ("I3", [at(11, "loaded", 6, "", value=3), at(12, "committed", 5, "", value=4, took_ns=10**8)]),
    ("I4", [at(10.5, "committed", 5, "", value=4, took_ns=10**8), at(13, "loaded", 6, "", value=3)]),
    (None, [at(10.5, "committed", 5, "", value=4, took_ns=10**8), at(13, "loaded", 6, "", value=4)]),
    ("I10", [at(13.5, "killed", 0, "b"), at(13.6, "calm", 0, ""), at(30, "fault", 0, "")]),
    (None, [at(13.5, "killed", 0, "b"), at(13.6, "calm", 0, ""), at(15, "fault", 0, "")]),
])
def test_what_the_checkers_see_in_a_judge(tmp_path, expected, events):
    """Candidates a (epoch 5, from 10 s) and b (epoch 6, from 13 s, an hour ahead)."""
    hour = 3600
    a = write(tmp_path / "a", HEADER, *term(10, 5))
    b = write(tmp_path / "b", {**HEADER, "boot_offset_ns": hour * 10**9},
              *term(hour + 12.8, 6, "b"))
    for e in events:  # a program's stamps are its candidate's
        if e["event"] == "acts" and e["epoch"] == 6:
            e = e.update(at_ns=e["at_ns"] + hour * 10**9, until_ns=e["until_ns"] + hour * 10**9)
    code, text = check([a, b, write(tmp_path / "judge", JUDGE, *events)], "--allow", "1")
    if expected:
        assert code == 1 and f"VIOLATION {expected}:" in text, text
    else:
        assert code == 0, text


# ---- Planted bugs ----------------------------------------------------------------


def test_planted_deadline_from_the_answer(tmp_path):
    with Judged("file", ttl_ms=TTL_MS, binary=planted(tmp_path, 1), expect=["I6"]) as w:
        w.start()
        w.leads()
        eventually("renewals", lambda: sum(e.get("event") == "renewed" for e in w.told()) > 2)


def test_planted_own_ttl(tmp_path):
    """An observer that waits by its own ttl takes over while the other still may act."""
    with Judged("file", ttl_ms=12000, binary=planted(tmp_path, 3), expect=["I1"]) as w:
        w.start()
        leader, epoch = w.leads()
        w.start(options=["--ttl", "1s"])
        with w.fault(leader):
            leader.signal(signal.SIGSTOP)  # its guard is not stopped, and acts at D: after 8.6 s
            w.leads(epoch)
            time.sleep(0.1)
            leader.signal(signal.SIGCONT)


def test_planted_epoch_in_memory(tmp_path):
    with Judged("file", ttl_ms=TTL_MS, binary=planted(tmp_path, 13), expect=["I2"]) as w:
        first = w.start()
        w.leads()
        w.order(first)
        first.wait()
        w.start()
        eventually("a second term",
                   lambda: sum(e.get("event") == "granted" for e in w.told()) > 1)
