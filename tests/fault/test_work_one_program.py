"""tenure work --one-program: all jobs of a worker in one program, on real processes."""

import collections
import json
import os
import pathlib
import signal
import sys

import unix_http
from process import until
from work_fleet import fleet  # noqa: F401

MANY = pathlib.Path(__file__).resolve().parents[1] / "support" / "many_witness.py"


class Many:
    """The same worker as one program for all of its jobs."""

    def __init__(self, f):
        self.f = f

    def start(self, name, *options):
        return self.f.start(name, "--one-program", *options, command=[sys.executable, MANY, self.f.runs])

    def program(self, worker):
        """Its pid, socket, and nothing of a single job; None: it does not live."""
        for pid, args in self.f.processes():
            if str(MANY).encode() in args and b"--one-program" not in args:
                try:
                    pairs = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                env = dict(pair.decode().split("=", 1) for pair in pairs if b"=" in pair)
                if env.get("TENURE_ID") == worker:
                    return pid, env
        return None

    def ask(self, worker, method, path, body=None, epoch=None):
        answer = unix_http.ask(self.program(worker)[1]["TENURE_SOCKET"], method, path, body,
                               {"Tenure-Epoch": str(epoch)} if epoch else {})
        return answer.status, json.loads(answer.body)

    def jobs(self, worker):
        return {job["id"]: job for job in self.ask(worker, "GET", "/v1/jobs")[1]["jobs"]}

    def spread(self, **counts):
        """So many jobs run on each worker."""
        until(lambda: collections.Counter(self.f.owners().values()) == counts and self.f.all_run())

    def advance(self):
        """Each job goes on from here."""
        until(self.f.all_run)
        counts = {job: self.f.count(job) for job in self.f.names}
        until(lambda: all(self.f.count(job) > counts[job] for job in self.f.names))


def test_one_program_has_all_jobs_and_what_it_is_given(fleet):  # noqa: F811
    f = fleet(3)
    spec = f.dir / "spec"
    spec.write_text("feed: 7\n")
    f.jobs("add", "fed", "--spec", str(spec))
    f.names.append("fed")
    m = Many(f)
    m.start("a", "--capacity", "1000")  # far more than the kill time would cover of programs
    m.advance()
    pid, env = m.program("a")
    assert {k for k in env if k.startswith("TENURE_")} == {"TENURE_GROUP", "TENURE_ID", "TENURE_SOCKET"}
    jobs = m.jobs("a")
    assert set(jobs) == set(f.names) and jobs["fed"]["spec"] == "feed: 7\n" and jobs["fed"]["state"] == "assigned"
    epoch = jobs["job-0"]["epoch"]

    # One request for many: each has an answer of its own.
    commits = [{"id": "nowhere", "epoch": epoch, "data": "1"}, {"id": "job-0", "epoch": epoch - 1, "data": "1"}]
    status, answer = m.ask("a", "POST", "/v1/jobs", json.dumps({"commits": commits}).encode())
    assert status == 409 and [one["status"] for one in answer["results"]] == ["fenced", "fenced"]
    assert m.ask("a", "POST", "/v1/jobs", b'{"commits": [{"id": "job-0"}]}')[0] == 400
    assert m.ask("a", "POST", "/v1/jobs", b'{"commits": [], "more": 1}')[0] == 400
    assert m.ask("a", "POST", "/v1/jobs", b"no")[0] == 400

    # The end of an earlier run is not that of this one.
    assert m.ask("a", "POST", "/v1/jobs/job-0/stopped", b"", epoch - 1)[0] == 409
    assert m.ask("a", "POST", "/v1/jobs/job-0/stopped", b"")[0] == 400
    assert m.jobs("a")["job-0"]["epoch"] == epoch

    f.leave("a")
    assert not os.path.exists(f"/proc/{pid}") and f.living() == set() and not f.processes()
    assert not os.path.exists(os.path.dirname(env["TENURE_SOCKET"]))
    f.check()


def test_whatever_is_killed_each_job_is_active_once(fleet):  # noqa: F811
    f = fleet(8)
    m = Many(f)
    m.start("a")
    m.advance()
    pid = m.program("a")[0]
    m.start("b")
    m.spread(a=4, b=4)
    f.jobs("pause", "job-0", "--wait")
    assert "job-0" not in f.living()  # confirmed: nobody has it
    f.jobs("resume", "job-0")
    m.advance()
    assert m.program("a")[0] == pid  # what moved and what was paused was confirmed: it goes on

    os.kill(pid, signal.SIGKILL)  # the program: its jobs begin again, in another
    until(lambda: (m.program("a") or (pid,))[0] != pid)
    m.advance()

    f.workers["a"].kill()  # the worker: the program goes with it, and nobody waits for the ttl
    f.workers.pop("a").wait()
    m.spread(b=8)
    m.start("c")
    m.spread(b=4, c=4)
    f.workers["c"].send_signal(signal.SIGSTOP)  # longer than its lease: its guard ends the program
    m.spread(b=8)
    m.advance()
    f.workers["c"].send_signal(signal.SIGCONT)
    f.leave("b")
    f.check()


def test_a_program_that_keeps_a_revoked_job_is_killed(fleet):  # noqa: F811
    f = fleet(3)
    m = Many(f)
    m.start("a")
    m.advance()
    pid = m.program("a")[0]
    (f.runs / "keep-job-1").touch()
    f.jobs("pause", "job-1", "--wait")
    assert "job-1: its end was not confirmed by the deadline" in f.log("a") and not os.path.exists(f"/proc/{pid}")
    (f.runs / "keep-job-1").unlink()
    f.names.remove("job-1")
    m.advance()
    f.leave("a")
    f.check()


def test_a_request_takes_ten_thousand_commits(fleet):  # noqa: F811
    f = fleet(1)
    m = Many(f)
    m.start("a")
    m.advance()
    epoch = m.jobs("a")["job-0"]["epoch"]
    # Of a run that is over: each is answered, and what the program stores itself is not touched.
    commit = {"id": "job-0", "epoch": epoch - 1, "data": "x" * 1000}
    body = json.dumps({"commits": [commit] * 10000}).encode()
    assert 10 << 20 < len(body) < 16 << 20
    status, answer = m.ask("a", "POST", "/v1/jobs", body)
    assert status == 409 and [one["status"] for one in answer["results"]] == ["fenced"] * 10000
    status, answer = m.ask("a", "POST", "/v1/jobs", json.dumps({"commits": [commit] * 10001}).encode())
    assert status == 400 and "results" not in answer
    m.advance()
    f.leave("a")
    f.check()


def test_the_example_tries_again_what_was_refused_as_a_whole(monkeypatch):
    monkeypatch.syspath_prepend(str(MANY.parents[2] / "examples"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import many_jobs
    sizes, answers = [], [(503, b'{"error": "busy"}'), (413, b""), (400, b'{"error": "invalid"}')]

    def ask(method, path, body=None, epoch=None):
        commits = json.loads(body)["commits"]
        sizes.append(len(commits))
        return answers.pop(0) if answers else (200, json.dumps({"results": [{"status": "ok"}] * len(commits)}).encode())

    worker = many_jobs.Worker()
    worker.ask = ask
    worker.jobs = {f"job-{i}": many_jobs.Job(f"job-{i}", 7, None, b"41") for i in range(2500)}
    worker.step()
    assert sizes == [1000, 1000, 500] and all(job.count == 41 for job in worker.jobs.values())
    worker.step()
    assert len(worker.jobs) == 2500 and all(job.count == 42 for job in worker.jobs.values())
