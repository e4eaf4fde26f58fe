"""tenure work --listen: what a worker shows of its group."""

import json
import re
import subprocess

import pytest
import unix_http
from process import until
from test_api import check
from test_page_files import check_document
from work_fleet import Fleet
from world import BUILD, TENURE

pytestmark = pytest.mark.skipif(not (BUILD / "tenure-http.so").exists(), reason="without libmicrohttpd")


class Watched(Fleet):
    """Each worker listens on a socket of its own."""

    def start(self, name, *options, **more):
        return super().start(name, "--listen", f"unix:{self.dir}/{name}.sock", "--ttl", "5m", *options, **more)

    def ask(self, name, path, **headers):
        return unix_http.ask(str(self.dir / f"{name}.sock"), "GET", path, headers=headers)

    def view(self, name):
        try:
            answer = self.ask(name, "/v1/jobs")
        except OSError:
            return None  # it does not listen yet
        return answer.json() if answer.status == 200 else None

    def metrics(self, name):
        """{(name, the labels that are not of the worker itself): value}"""
        text = self.ask(name, "/metrics").body.decode()
        found = {}
        for sample, labels, value in re.findall(r"^(\w+)\{([^}]*)\} (\S+)$", text, re.M):
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            assert pairs.pop("group", "g") == "g"
            assert pairs.pop("worker", name) == name and pairs.pop("worker_id", name) == name
            found[sample, *pairs.values()] = float(value)
        return found


    def moves(self, name):
        """Jobs that came to a worker: it may have joined so late that it does not know why."""
        return sum(value for key, value in self.metrics(name).items() if key[0] == "tenure_job_moves_total")


@pytest.fixture
def watched():
    made = []

    def make(jobs):
        made.append(Watched(None, jobs))
        return made[-1]

    yield make
    for one in made:
        one.end()


def described(answer, schema):
    """The answer is what the description of the interface says."""
    check(answer, {"$ref": f"#/components/schemas/{schema}"}, schema)


def runs(f, name, count):
    view = f.view(name)
    return view and view.get("jobs", {}).get("running_here") == count and view


def test_a_worker_shows_its_jobs_its_members_and_what_moves(watched):
    f = watched(6)
    f.start("a")
    view = until(lambda: runs(f, "a", 6))
    assert (view["group"], view["worker"], view["phase"]) == ("g", "a", "member")
    assert f.ask("a", "/livez").status == f.ask("a", "/readyz").status == 200
    assert {job["id"] for job in view["own"]} == set(f.names) and view["own_count"] == 6
    owned = {row["id"]: row for row in map(json.loads, f.jobs("list", "--json").splitlines())}
    for job in view["own"]:
        assert job["state"] == "running" and job["epoch"] == owned[job["id"]]["epoch"] and job["since_ms"] > 0

    f.start("b")
    view = until(lambda: runs(f, "a", 3))
    until(lambda: runs(f, "b", 3))
    both = until(lambda: len(found := f.view("b")["members"]) == 2 and found)
    members = {m["id"]: m for m in both}
    assert {name: (m["jobs"], m["load"], m["fair"], m["self"]) for name, m in members.items()} == \
        {"a": (3, 3, 3, False), "b": (3, 3, 3, True)}
    moved = [m for m in f.view("a")["moves"] if m["cause"] == "rebalanced"]  # before it has stopped them
    assert sum(m["count"] for m in moved) == 3 and {(m["from"], m["to"]) for m in moved} == {("a", "b")}
    assert set(moved[0]["jobs"]) <= set(f.names)
    until(lambda: f.moves("b") == 3)

    f.leave("b")
    until(lambda: runs(f, "a", 6))
    until(lambda: f.metrics("a")["tenure_job_moves_total", "left"] == 3)
    assert any((m["cause"], m["from"], m["to"], m["count"]) == ("left", "b", "a", 3) for m in f.view("a")["moves"])
    described(f.view("a"), "JobsView")
    metrics = until(lambda: (m := f.metrics("a"))["tenure_job_unowned_seconds",] == 0 and m)
    assert metrics["job_lease_renewals_total",] > 0 and metrics["job_lease_expired_total",] == 0
    assert metrics["tenure_job_member",] == 1 and metrics["tenure_job_running",] == metrics["tenure_job_planned",] == 6
    assert metrics["tenure_job_load",] == metrics["tenure_job_load_fair",] == 6
    assert metrics["tenure_job_in_doubt",] == metrics["tenure_job_unplaced",] == 0
    assert metrics["tenure_job_plan_changes_total",] >= 3
    f.check()


def test_a_job_that_nobody_can_take_is_shown_with_the_reason(watched):
    f = watched(2)
    f.jobs("add", "gpu-1", "--require", "gpu=yes")
    f.jobs("add", "pinned-1")
    f.jobs("move", "pinned-1", "--to", "elsewhere")
    f.names += ["gpu-1", "pinned-1"]
    f.start("a")
    view = until(lambda: (v := runs(f, "a", 2)) and len(v["unplaced"]) == 2 and v)
    assert {(one["reason"], one["count"], *one["jobs"]) for one in view["unplaced"]} == {
        ("no active worker has the labels gpu=yes", 1, "gpu-1"),
        ("pinned to elsewhere, which is not active", 1, "pinned-1")}
    metrics = until(lambda: (m := f.metrics("a"))["tenure_job_unowned_seconds",] > 0 and m)
    assert metrics["tenure_job_unplaced",] == metrics["tenure_job_unowned",] == 2
    described(view, "JobsView")
    found = f.ask("a", "/v1/jobs?search=gpu").json()
    described(found, "JobsFound")
    assert found["count"] == 1 and found["jobs"][0]["id"] == "gpu-1"
    assert found["jobs"][0]["worker"] is None and found["jobs"][0]["reason"].endswith("gpu=yes")
    found = f.ask("a", "/v1/jobs?search=job-&limit=1").json()
    assert found["count"] == 2 and len(found["jobs"]) == 1 and found["jobs"][0]["worker"] == "a"
    f.start("g", "--label", "gpu=yes")
    until(lambda: any((m["cause"], m["to"], m["jobs"]) == ("placed", "g", ["gpu-1"]) for m in f.view("a")["moves"]))
    until(lambda: f.metrics("g")["tenure_job_moves_total", "placed"] == 1)


def test_metrics_the_page_and_what_is_refused(watched):
    f = watched(1)
    f.start("a")
    until(lambda: runs(f, "a", 1))
    answer = f.ask("a", "/metrics", Accept="application/openmetrics-text")
    text = answer.body.decode()
    assert text.endswith("# EOF\n") and "# TYPE tenure_job_moves counter\n" in text
    page = f.ask("a", "/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    check_document(page.body.decode(), page.headers["Content-Security-Policy"], "jobs.html")
    for wrong in ("/v1/jobs?limit=x", "/v1/jobs?limit=-1", "/v1/jobs?limit=10001", "/v1/jobs?serch=a"):
        assert f.ask("a", wrong).status == 400, wrong
    assert f.ask("a", "/v1/elections").status == 404


def test_a_worker_that_is_out_is_not_ready(watched):
    f = watched(1)
    f.start("a")
    until(lambda: runs(f, "a", 1))
    f.jobs("evict", "a")
    answer = until(lambda: (r := f.ask("a", "/readyz")).status == 503 and r)
    assert answer.body.startswith(b"not a member: ")
    until(lambda: f.metrics("a")["job_lease_expired_total",] == 1)
    assert f.ask("a", "/livez").status == 200


def test_the_rules_of_addresses_are_those_of_run(watched):
    f = watched(1)
    command = [TENURE, "work", "--store", f.url, "--group", "g", "--listen", "nonsense", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "nonsense" in done.stderr
    assert not f.jobs("workers").count("alive")  # it has not joined first
