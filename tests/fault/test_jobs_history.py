"""tenure jobs history: who owned a job when, why it moved, and at which epoch, on real processes."""

import json
import re

import pytest
from process import until
from tenure import Store
from work_fleet import fleet  # noqa: F401


PATIENT = ("--ttl", "30s", "--renew", "1s")  # no membership ends because the machine is busy


def events(f, *args):
    return [json.loads(line) for line in f.jobs("history", "--json", *args).splitlines()]


def told(f, job):
    """What is recorded of a job: (event, worker, cause, other), the oldest first."""
    return [(e["event"], e["worker"], e["cause"], e["other"]) for e in events(f, job)]


def in_order(wanted, found):
    rest = iter(found)
    return all(one in rest for one in wanted)


def test_a_job_is_followed_from_worker_to_worker(fleet):
    f = fleet(4)
    assert "nothing is recorded" in f.jobs("history")
    f.start("a", *PATIENT)
    until(f.all_run)
    until(lambda: all(told(f, job) for job in f.names))
    f.start("b", *PATIENT)
    until(lambda: f.spread() == [2, 2] and f.all_run())
    moved = next(job for job, owner in f.owners().items() if owner == "b")
    until(lambda: in_order([("claimed", "a", "placed", None), ("revoked", "a", "rebalanced", "b"),
                            ("released", "a", "rebalanced", "b"), ("claimed", "b", "placed", None)], told(f, moved)))
    epochs = {(e["event"], e["worker"]): e["epoch"] for e in events(f, moved)}
    assert epochs["revoked", "a"] == epochs["released", "a"] < epochs["claimed", "b"]
    # One that leaves says so, and the one that takes its jobs says from whom.
    f.leave("b")
    until(lambda: in_order([("leaving", "b", "left", None), ("claimed", "a", "left", "b")], told(f, moved)))
    assert all(e["worker"] == "b" for e in events(f, "--worker", "b")) and events(f, "--worker", "b")
    assert len(events(f, "--limit", "2")) == 2
    text = f.jobs("history", moved)
    assert re.search(rf"claimed  {moved} (\(one of 2 jobs\) )?from b \(left\) epoch", text), text
    assert "now: owned by a, epoch " in text
    f.jobs("pause", moved, "--wait")
    until(lambda: in_order([("revoked", "a", "paused", None), ("released", "a", "paused", None)], told(f, moved)))
    assert "now: nobody owns it" in f.jobs("history", moved)
    f.leave("a")
    f.check()


def test_a_burial_and_an_eviction(fleet):
    """The worker that is buried is a record that the test writes: nobody renews it."""
    f = fleet(2)
    store, nonce = Store(f.url), "ab" * 16
    ghost = {"format": 1, "id": "ghost", "state": "alive", "mark": "none", "number": 7, "incarnation": nonce,
             "ttl_ms": 2000, "renewals": 5}
    assert store.swap("g/member/ghost", None, json.dumps(ghost).encode()).status == "ok"
    job = store.read("g/job/job-0")
    assert store.swap("g/job/job-0", job.token, f"tenure-job 1 50 {nonce} 3 r 7 {nonce} 2000 ghost\n".encode()).status == "ok"
    f.start("a", *PATIENT)
    until(f.all_run)
    until(lambda: told(f, "job-0") == [("claimed", "a", "died", "ghost")])
    assert ("buried", "a", "died", "ghost") in [(e["event"], e["worker"], e["cause"], e["other"]) for e in events(f)]
    f.jobs("evict", "a")
    until(lambda: not f.living())
    f.leave("a")
    last = told(f, "job-0")[-1]
    assert last[:2] in [("lost", "a"), ("released", "a")] and last[2] in ("evicted", "expired", "unplaced"), last
    store.close()
    f.check()


def test_a_damaged_history_stops_nobody(fleet):
    f = fleet(2)
    store = Store(f.url)

    def put(data):
        seen = store.read("g/history/a")
        assert store.swap("g/history/a", seen.token, data).status == "ok"

    for data in (b"garbage", b"tenure-history 1 1\n1 claimed placed 5 2 0-3 \n"):
        put(data)
        f.jobs("history", code=1)  # the others are still printed
        f.start("a", *PATIENT)
        until(f.all_run)
        until(lambda: store.read("g/history/a").data != data and events(f))  # it was replaced
        f.leave("a")
        assert {e["event"] for e in events(f)} >= {"claimed", "leaving"}
    put(b"garbage")
    assert json.loads(f.jobs("repair", "--json"))[0]["key"] == "g/history/a"
    assert store.read("g/damaged/history-a").data == b"garbage"
    assert "nothing is recorded" in f.jobs("history")
    put(b"tenure-history 2 of a newer build\n")  # not damage: nobody replaces what is newer
    f.start("a", *PATIENT)
    until(f.all_run)
    f.leave("a")
    assert store.read("g/history/a").data.startswith(b"tenure-history 2")
    store.close()
    f.check()


@pytest.mark.parametrize("args", [("nobody",), ("job-0", "job-0"), ("job-0", "--worker", "a"), ("--limit", "many")])
def test_what_cannot_be_asked(fleet, args):
    fleet(1).jobs("history", *args, code=2)
