"""tenure work: a program for each job, on real processes."""

import json
import os
import signal

import pytest
import unix_http
import world
from process import until
from work_fleet import fleet  # noqa: F401


def test_one_worker_runs_every_job_and_leaves(fleet):
    f = fleet(3)
    f.start("a")
    until(f.all_run)
    until(lambda: all(f.count(job) > 0 for job in f.names))
    guard = f.guard("a")
    f.leave("a")
    assert f.living() == set()
    assert not f.processes()
    assert not os.path.exists(f"/proc/{guard}")
    f.start("b")  # one write has freed them all
    until(f.all_run)
    assert set(f.owners().values()) == {"b"}
    f.leave("b")
    f.check()


def test_after_a_crash_nobody_waits_for_the_ttl(fleet):
    f = fleet(3)
    f.start("a", "--ttl", "10m", "--renew", "2s")
    until(f.all_run)
    f.workers["a"].kill()
    f.workers["a"].wait()
    f.start("b")
    until(lambda: len(f.programs("b")) == 3 and f.all_run())
    f.leave("b")
    f.check()


def test_after_a_crash_of_one_that_joined_again_nobody_waits_either(fleet):
    f = fleet(3)
    f.start("a", "--ttl", "10m", "--renew", "1s")
    until(f.all_run)
    f.jobs("evict", "a")
    until(lambda: "membership lost" in f.log("a") and not f.living())
    f.jobs("admit", "a")
    until(f.all_run)
    f.workers["a"].kill()
    f.workers["a"].wait()
    f.start("b")
    until(lambda: len(f.programs("b")) == 3 and f.all_run())
    f.leave("b")
    f.check()


def test_a_launcher_that_is_killed_is_replaced(fleet):
    f = fleet(3)
    f.start("a", "--ttl", "10m", "--renew", "1s")
    until(f.all_run)
    before = f.programs("a").keys()
    os.kill(f.launcher("a"), signal.SIGKILL)
    until(lambda: "the launcher of the programs ended unexpectedly" in f.log("a"))
    until(lambda: not f.programs("a").keys() & before and f.all_run())
    f.leave("a")
    f.check()


def test_what_a_program_is_given(fleet):
    f = fleet(1)
    spec = f.dir / "spec"
    spec.write_text("feed: 7\n")
    f.jobs("add", "fed", "--spec", str(spec))
    f.start("a", command=["sh", "-c", f"env >{f.runs}/$TENURE_JOB.new; cat $TENURE_SPEC >{f.runs}/$TENURE_JOB.spec; "
                                      f"stat -c %a $TENURE_SPEC >>{f.runs}/$TENURE_JOB.spec; "
                                      f"mv {f.runs}/$TENURE_JOB.new {f.runs}/$TENURE_JOB.env; exec sleep 1000"])
    until((f.runs / "fed.env").exists)
    env = dict(line.split("=", 1) for line in (f.runs / "fed.env").read_text().splitlines() if "=" in line)
    assert (f.runs / "fed.spec").read_text() == "feed: 7\n600\n"
    assert {k for k in env if k.startswith("TENURE_")} == {
        "TENURE_JOB", "TENURE_EPOCH", "TENURE_GROUP", "TENURE_ID", "TENURE_SPEC", "TENURE_SOCKET"}

    def ask(method, path, body=None, epoch=None):
        answer = unix_http.ask(env["TENURE_SOCKET"], method, path, body, {"Tenure-Epoch": str(epoch)} if epoch else {})
        return answer.status, answer.body

    mine, epoch = "/v1/jobs/fed/checkpoint", int(env["TENURE_EPOCH"])
    assert ask("GET", mine, epoch=epoch)[0] == 404
    assert ask("PUT", mine, b"one", epoch)[0] == 200
    assert ask("GET", mine, epoch=epoch) == (200, b"one")
    assert ask("PUT", mine, b"two", epoch - 1)[0] == 409  # an older run
    assert ask("PUT", "/v1/jobs/elsewhere/checkpoint", b"two", epoch)[0] == 409
    assert ask("PUT", mine, b"two")[0] == 400
    assert ask("GET", mine) == (200, b"one")
    assert [job["epoch"] for job in json.loads(ask("GET", "/v1/jobs")[1])["jobs"] if job["id"] == "fed"] == [epoch]
    f.leave("a")
    assert not os.path.exists(os.path.dirname(env["TENURE_SOCKET"]))


def test_a_program_that_fails_is_started_again_later_and_later(fleet):
    f = fleet(1)
    f.start("a", command=["sh", "-c", f"echo $TENURE_EPOCH >>{f.runs}/epochs; exit 3"])
    until(lambda: "times in a row" in f.log("a"))
    epochs = [int(line) for line in (f.runs / "epochs").read_text().split()]
    assert epochs == sorted(set(epochs)) and len(epochs) >= 5  # each run has one of its own
    f.leave("a")


@pytest.mark.parametrize("options, words", [
    (["--capacity", "1000"], "a kill time of 400ms covers 150 programs"),
    (["--ttl", "1s", "--renew", "300ms", "--kill-time", "50ms"], "covers 0 programs"),
    (["--renew", "3s"], "renew"),
    (["--label", "novalue"], "--label"),
])
def test_settings_that_cannot_work_are_refused(fleet, options, words):
    f = fleet(1)
    assert f.start("a", *options).wait(world.PATIENCE) == 2
    assert words in f.log("a")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    if request.param == "sqlite":
        yield None
        return
    import server_postgres
    if server_postgres.MISSING:
        pytest.skip(server_postgres.MISSING)
    server = server_postgres.Postgres()
    yield server.url()
    server.stop()


def kill_everything(f):
    """Three workers; each kind of kill, one after the other.  Judged by the witnesses: no program twice at any instant."""
    for name in "abc":
        f.start(name)
    share = len(f.names) // 3
    until(lambda: f.all_run() and f.spread() == [share] * 3)

    def kill(find):
        """Whoever that is, at a moment when it is there."""
        def strike():
            try:
                pid = find()
                os.kill(pid, signal.SIGKILL)
                return pid
            except (OSError, StopIteration, AssertionError):
                return None  # it is just being replaced
        return until(strike)

    def take_over_from(name, strike):
        """What a worker had is dead, and all of it runs somewhere."""
        until(lambda: f.all_run() and f.programs(name))
        before = f.programs(name).keys()
        strike()
        until(lambda: not f.programs(name).keys() & before and f.all_run())  # first dead, then there again

    take_over_from("a", f.workers["a"].kill)
    take_over_from("b", lambda: kill(lambda: f.guard("b")))
    assert f.workers["b"].poll() is None, f.log("b")
    # Longer than its lease: its guard ends its programs by the deadline, and then itself.
    take_over_from("c", lambda: f.workers["c"].send_signal(signal.SIGSTOP))
    f.workers["c"].send_signal(signal.SIGCONT)
    take_over_from("b", lambda: kill(lambda: f.launcher("b")))

    pid = kill(lambda: next(iter(f.programs("b"))))
    until(lambda: pid not in f.programs("b") and f.all_run())
    counts = {job: f.count(job) for job in f.names}
    until(lambda: all(f.count(job) > counts[job] for job in f.names))
    for worker in f.workers.values():
        worker.send_signal(signal.SIGTERM)
    assert f.workers["b"].wait(world.PATIENCE) == 0, f.log("b")
    f.workers["a"].wait(world.PATIENCE)
    f.workers["c"].wait(world.PATIENCE)
    until(lambda: not f.processes())
    f.check()


def test_whatever_is_killed_each_job_runs_once(fleet):  # noqa: F811
    kill_everything(fleet(9))


@pytest.mark.skipif(not world.TRIALS, reason="a minute on a busy machine: with TRIALS=1")
def test_whatever_is_killed_each_of_many_jobs_runs_once(fleet, url):  # noqa: F811
    kill_everything(fleet(60, url))


def test_an_operator_pauses_moves_and_drains(fleet):
    f = fleet(12)
    for name in "ab":
        f.start(name)
    until(lambda: f.all_run() and f.spread() == [6, 6])
    job = f.names[0]

    f.jobs("pause", job, "--wait")
    assert job not in f.living()  # confirmed: nobody has it
    f.jobs("resume", job)
    until(f.all_run)

    target = "a" if job in f.programs("b").values() else "b"
    f.jobs("move", job, "--to", target)
    until(lambda: job in f.programs(target).values() and f.all_run())
    f.jobs("unpin", job)

    f.jobs("drain", "a")
    until(lambda: not f.programs("a") and f.all_run())
    f.jobs("drain", "a", "--undo")

    for name in "ab":  # a rolling restart
        f.leave(name)
        until(f.all_run)
        f.start(name)
        until(lambda: f.all_run() and "joined" in f.log(name).split("left the group")[-1])
    f.leave("a")
    f.leave("b")
    assert not f.processes()
    f.check()
