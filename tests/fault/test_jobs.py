"""tenure jobs: an operator's hand on a group of jobs, by real processes.  Workers are records that the tests write."""

import json
import os
import signal
import subprocess
import time

import pytest
from rig import RIGS
from tenure import Store
from world import TENURE

NOBODY, SOMEBODY = "0" * 32, "ab" * 16


class Group:
    def __init__(self, url):
        self.url = url
        self.store = Store(url)

    def run(self, *args, code=0, **more):
        done = subprocess.run([TENURE, "jobs", *args, "--store", self.url, "--group", "g"], capture_output=True,
                              timeout=120, **more)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return (done.stdout if code == 0 else done.stderr).decode()

    def jobs(self):
        return {row["id"]: row for row in map(json.loads, self.run("list", "--json").splitlines())}

    def explain(self, job):
        return json.loads(self.run("explain", job, "--json"))

    def put(self, key, data, tombstone=False):
        answer = self.store.swap("g/" + key, self.store.read("g/" + key).token, data.encode(), tombstone=tombstone)
        assert answer.status == "ok", answer

    def job(self, name):
        return self.store.read("g/job/" + name)

    def own(self, name, worker, number=7, epoch=50, wanted="r", data="checkpoint"):
        self.put("job/" + name, f"tenure-job 1 {epoch} {SOMEBODY} 3 {wanted} {number} {SOMEBODY} 90000 {worker}\n{data}")

    def release(self, name, epoch=50, wanted="p", data="checkpoint"):
        self.put("job/" + name, f"tenure-job 1 {epoch} {SOMEBODY} 3 {wanted} 0 {NOBODY} 0 \n{data}")

    def worker(self, name, number=7, state="alive", mark="none", **more):
        self.put("member/" + name, json.dumps(
            {"format": 1, "id": name, "state": state, "mark": mark, "number": number, "incarnation": SOMEBODY,
             "ttl_ms": 90000, "renewals": 5, "renewed_ms": 1700000000000, **more}))


@pytest.fixture(params=["sqlite", "file"])
def group(request, tmp_path):
    url = f"sqlite:{tmp_path}/r.db" if request.param == "sqlite" else f"file:{tmp_path}/store"
    subprocess.run([TENURE, "jobs", "add", "first", "--store", url, "--group", "g"], check=True, capture_output=True)
    return Group(url)


def life(g):
    """add, own, pause, confirm, resume, remove: what every store must do."""
    assert "2 jobs added" in g.run("add", "a", "b", "--weight", "3", "--require", "zone=a", "--spec", "-", input=b"what")
    assert "there already" in g.run("add", "a")
    assert g.store.read("g/spec/a").data == b"what"
    g.worker("w1", labels="zone=a")
    g.own("a", "w1")
    row = g.jobs()["a"]
    assert (row["owner"], row["epoch"], row["weight"], row["require"]) == ("w1", 50, 3, "zone=a")
    assert row["owner_lease_expires"] == "2023-11-14T22:14:50.000Z"
    assert g.explain("a")["state"] == "owned"
    # A pause is recorded at once, and confirmed only when nobody has the job.
    assert "not confirmed" in g.run("pause", "a")
    assert "a worker still has" in g.run("pause", "a", "--wait", "--timeout", "5s", code=3)
    assert g.explain("a")["state"] == "stopping" and b" p 7 " in g.job("a").data
    waiting = subprocess.Popen([TENURE, "jobs", "pause", "a", "--wait", "--store", g.url, "--group", "g"],
                               stdout=subprocess.PIPE)
    g.release("a")
    assert waiting.wait(timeout=60) == 0
    waiting.stdout.close()
    assert g.explain("a")["state"] == "paused" and g.jobs()["a"]["owner"] is None
    g.run("resume", "a")
    assert g.explain("a")["state"] == "unplanned" and g.job("a").data.endswith(b"\ncheckpoint")
    # Removal keeps the epoch, and nothing else.
    g.run("remove", "a")
    gone = g.job("a")
    assert gone.tombstone and b"tenure-job 1 50 " in gone.data and b"checkpoint" not in gone.data
    assert g.store.read("g/spec/a").tombstone and "a" not in g.jobs()
    g.run("remove", "a")
    g.run("add", "a")
    assert not g.job("a").tombstone and g.jobs()["a"]["epoch"] == 50 and g.jobs()["a"]["weight"] == 1


def test_life(group):
    life(group)


@pytest.mark.parametrize("name", ["postgres", "redis", "etcd", "zookeeper"])
def test_life_on_a_server(name):
    kind = RIGS[name]
    if kind.missing:
        pytest.skip(kind.missing)
    rig = kind()
    try:
        g = Group(rig.url())
        life(g)
        rows = "".join(json.dumps({"id": f"t{i}", "spec": f"feed {i}"}) + "\n" for i in range(3000))
        assert "3000 jobs added" in g.run("import", "-", input=rows.encode())
        assert len(g.jobs()) == 3002 and g.store.read("g/spec/t2999").data == b"feed 2999"
        g.store.close()
    finally:
        rig.close()


def test_the_owner_is_gone(group):
    """Dead, left, or another incarnation: facts that are final, so a pause is confirmed over them."""
    group.run("add", "dead", "left", "later", "alive", "lost", "marked")
    group.worker("w1", state="dead")
    group.worker("w2", state="left")
    group.worker("w3", number=8)
    group.worker("w4")
    group.worker("w6", number=9, mark="placeholder")
    for job, worker in zip(("dead", "left", "later", "alive", "lost", "marked"), ("w1", "w2", "w3", "w4", "w5", "w6")):
        group.own(job, worker)
    group.run("pause", "dead", "left", "later", "--wait")
    assert all(group.jobs()[job]["owner"] is None for job in ("dead", "left", "later"))
    assert group.job("dead").data.endswith(b"\ncheckpoint")
    owned = ("alive", "lost", "marked")
    group.run("pause", *owned, "--wait", "--timeout", "3s", code=3)
    group.run("remove", *owned, "--timeout", "3s", code=3)
    assert all(group.jobs()[job]["owner"] for job in owned)
    assert "record of its owner is lost" in group.explain("lost")["text"]


def test_workers(group):
    group.run("add", "a", "b", "c", "d")
    group.worker("w1", labels="zone=a")
    group.worker("w2")
    planned = json.loads(group.run("plan", "--json"))
    assert planned["unplaced"] == 0 and {move["to"] for move in planned["moves"]} == {"w1", "w2"}
    assert {move["to"] for move in json.loads(group.run("plan", "--if-leaves", "w1", "--json"))["moves"]} == {"w2"}
    assert "no worker 'w9'" in group.run("plan", "--if-leaves", "w9", code=2)
    assert group.explain("a")["state"] == "unplanned"
    group.run("move", "a", "--to", "nobody")
    assert group.explain("a")["state"] == "unplaceable" and "pinned to another" in group.explain("a")["text"]
    assert json.loads(group.run("plan", "--json"))["unplaced"] == 1
    group.run("unpin", "a")
    group.run("drain", "w1")
    states = lambda: {row["id"]: row["state"] for row in map(json.loads, group.run("workers", "--json").splitlines())}
    assert states() == {"w1": "draining", "w2": "alive"}
    assert {move["to"] for move in json.loads(group.run("plan", "--json"))["moves"]} == {"w2"}
    group.run("drain", "w1", "--undo")
    # Evict marks, and nothing else: the incarnation stays, so that nothing is free before its time.
    before = json.loads(group.store.read("g/member/w1").data)
    group.run("evict", "w1")
    after = json.loads(group.store.read("g/member/w1").data)
    changed = {key for key in after if after[key] != before.get(key)} - {"lease_expires"}
    assert changed == {"mark"} and after["state"] == "alive"
    group.own("b", "w1")
    assert "evicted" in group.explain("b")["text"] and group.explain("b")["state"] == "owned"
    group.run("admit", "w1")
    assert states()["w1"] == "alive"
    assert "no worker 'w9'" in group.run("evict", "w9", code=2)


def test_bad_input(group, tmp_path):
    revision = group.store.read("g/catalogue").token
    spec = tmp_path / "spec"
    spec.write_bytes(b"x" * ((1 << 20) + 1))
    for text, says in (
            ('[{"id": "x"}, {"id": "y"}, {"id": "x"}]', "'x' occurs twice (entries 1 and 3)"),
            ('[{"id": "x", "wieght": 2}]', "entry 1: unknown key 'wieght'"),
            ('[{"id": "x", "weight": 0}]', "entry 1: weight"),
            ('[{"id": "x", "weight": 1001}]', "entry 1: weight"),
            ('[{"id": ""}]', "entry 1: '' cannot be the id"),
            ('["x"]', "entry 1"),
            ('[{"id": "x", "require": "zone"}]', "'zone' is not a label"),
            ('[{"id": "x", "require": "a=1,a=2"}]', "'a' occurs twice"),
            ("- id: x\n  require: {zone: [1]}\n", "is not a label"),
            ("- id: x\n- &a {id: y}\n", "line 2: anchors"),
            ("jobs:\n  x: 1\n", "list of jobs"),
            ("- id: x\n  spec: [1]\n", "spec: a text"),
            ('[{"id": "x"', "line 1")):
        assert says in group.run("import", "-", code=2, input=text.encode()), text
    assert "holds 1048576" in group.run("add", "x", "--spec", str(spec), code=2)
    assert "not a label" in group.run("add", "x", "--prefer", "zone=", "--require", "zone", code=2)
    assert "127 bytes" in group.run("add", "x" * 128, code=2)
    assert "no job 'x'" in group.run("pause", "x", code=2)
    assert "no job 'x'" in group.run("weigh", "x", "--weight", "2", code=2)
    assert "no job 'x'" in group.run("explain", "x", code=2)
    assert "no job 'x'" in group.run("remove", "x", code=2)
    assert "1 to 1000" in group.run("weigh", "first", code=2)
    assert "did you mean 'list'" in group.run("lst", code=2)
    # Nothing of all this was written.
    assert str(group.store.read("g/catalogue").token) == str(revision) and list(group.jobs()) == ["first"]


def test_too_many_for_the_plan(tmp_path):
    """Refused as a whole, with what fits: beside the names of so many workers there is room for few jobs."""
    g = Group(f"sqlite:{tmp_path}/r.db")
    status, answers, _ = g.store.swap_many([(f"g/member/w{i}", None, b"{}") for i in range(8190)])
    assert status == "ok" and {answer.status for answer in answers.values()} == {"ok"}
    text = "\n".join(f'{{"id":"{i}"}}' for i in range(100))
    assert "100 jobs: a plan for 8190 workers in sqlite: has room for 48" in g.run(
        "import", "-", code=2, input=text.encode())
    assert "has no jobs" in g.run("list") and not g.job("1").token.version


def test_damage_and_repair(group):
    group.run("add", "a", "b", "c")
    group.put("job/a", "garbage")
    listed = group.run("list", "--json", code=1)
    assert "tenure jobs repair" in listed
    assert group.explain("a")["state"] == "damaged"
    for action in ("pause", "resume"):
        assert "g/job/a" in group.run(action, "a", code=1)
    found = json.loads(group.run("repair", "--json"))
    assert [row["key"] for row in found] == ["g/job/a"] and "damaged" in found[0]["what"]
    assert group.store.read("g/damaged/a").data == b"garbage"
    row = group.jobs()["a"]
    assert row["wanted"] == "paused" and row["epoch"] > 1_700_000_000_000
    assert "nothing to repair" in group.run("repair")
    group.put("job/a", "tenure-job 2 whatever\n")  # not damage: nobody replaces what is newer
    assert "upgrade tenure" in group.run("repair", code=1)
    group.put("catalogue/0000", "tenure-page 1 0 9 1\nx\t0\n")
    assert "g/catalogue/0000" in group.run("list", code=1)


def test_a_damaged_member_gets_a_placeholder(group):
    group.run("add", "a")
    group.worker("w1")
    group.own("a", "w1")
    group.put("member/w1", "garbage")
    group.put("member/idle", "garbage")  # it owns no job: nobody knows for how long its lease lasts
    found = {row["key"]: row["what"] for row in json.loads(group.run("repair", "--json"))}
    assert set(found) == {"g/member/w1", "g/member/idle"}
    assert "in 90s " in found["g/member/w1"] and "in 3600s " in found["g/member/idle"], found
    assert group.store.read("g/damaged/member-w1").data == b"garbage"
    record = json.loads(group.store.read("g/member/w1").data)
    assert (record["state"], record["mark"], record["ttl_ms"]) == ("alive", "placeholder", 90000)
    assert record["number"] > 1_700_000_000_000 and record["incarnation"] != SOMEBODY
    assert group.jobs()["a"]["owner"] == "w1"  # nothing is free before that
    assert "nothing to repair" in group.run("repair")
    group.put("member/w1", json.dumps({"format": 9}))  # not damage: nobody replaces what is newer
    group.run("repair", code=1)
    assert json.loads(group.store.read("g/member/w1").data) == {"format": 9}


def test_repair_leaves_others_alone(group):
    """Elections and groups whose names are below this one's have keys among its registers."""
    lease = json.dumps({"holder": "h", "epoch": 5, "ttl_ms": 9000, "incarnation": SOMEBODY, "grant": SOMEBODY})
    for folder in ("history/", "member/"):
        group.put(folder + "lease", lease)
        group.put(folder + "control", json.dumps({"paused": False}))
        group.put(folder + "history", json.dumps({"terms": []}))
        group.put(folder + "bell", "tenure-bell 1 3\n")
        group.put(folder + "candidates/a", json.dumps({"id": "a"}))
        group.put(folder + "job/a", f"tenure-job 1 0 {NOBODY} 0 r 0 {NOBODY} 0 \n")
        group.put(folder + "spec/a", "anything")
    keys = [f"g/{folder}{tail}" for folder in ("history/", "member/")
            for tail in ("lease", "control", "history", "bell", "candidates/a", "job/a", "spec/a")]
    before = [group.store.read(key).data for key in keys]
    assert "nothing to repair" in group.run("repair")
    assert [group.store.read(key).data for key in keys] == before
    assert "lease" not in group.run("workers", "--json")


def test_interrupted(group):
    """What an operator leaves that dies between any two of its writes, the same action completes."""
    def page(rows, revision=99):
        group.put("catalogue/0000", f"tenure-page 1 0 {revision} {len(rows)}\n" + "".join(
            row + "\n" for row in rows))
    # add: the registers are there, the catalogue does not name the job.
    group.put("spec/a", "spec")
    group.put("job/a", f"tenure-job 1 0 {NOBODY} 0 r 0 {NOBODY} 0 \n")
    assert "1 job added" in group.run("add", "a", "--spec", "-", input=b"spec")
    # The page names it, the root does not know the page's revision.
    page(["first\t1\tr\t-\t\t\t", "a\t1\tr\ts\t\t\t", "b\t1\tr\t-\t\t\t"])
    group.put("job/b", f"tenure-job 1 0 {NOBODY} 0 r 0 {NOBODY} 0 \n")
    assert "half done" in group.run("repair") and set(group.jobs()) == {"first", "a", "b"}
    assert group.store.read("g/catalogue").data.endswith(b"\n99\n")
    # pause: the catalogue says so, the register does not.
    page(["first\t1\tr\t-\t\t\t", "a\t1\tp\ts\t\t\t", "b\t1\tp\t-\t\t\t"], 200)
    group.run("pause", "a")
    assert b" p " in group.job("a").data
    assert "pause was completed" in group.run("repair") and b" p " in group.job("b").data
    # resume: the register runs, the catalogue does not know.
    group.put("job/a", f"tenure-job 1 4 {NOBODY} 0 r 0 {NOBODY} 0 \n")
    group.run("resume", "a")
    assert group.jobs()["a"]["wanted"] == "running"
    # remove: at every step.
    group.put("job/a", f"tenure-job 1 4 {NOBODY} 0 x 0 {NOBODY} 0 \n", tombstone=True)
    group.run("remove", "a")
    assert "a" not in group.jobs() and group.job("a").tombstone
    page(["first\t1\tr\t-\t\t\t", "", "b\t1\tx\t-\t\t\t"], 400)
    assert "being removed" in group.run("add", "b", code=1)
    assert "removal was completed" in group.run("repair")
    assert list(group.jobs()) == ["first"] and group.job("b").tombstone


def test_killed(tmp_path):
    """Real kills at any moment of an import, and the same command again."""
    g = Group(f"sqlite:{tmp_path}/r.db")
    source = tmp_path / "jobs.json"
    source.write_text(json.dumps([{"id": f"t{i}", "spec": f"feed {i}"} for i in range(2000)]))
    for i in range(6):
        running = subprocess.Popen([TENURE, "jobs", "import", source, "--store", g.url, "--group", "g"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.01 + 0.015 * i)  # any moment will do
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    g.run("import", str(source))
    rows = g.jobs()
    assert len(rows) == 2000 and not any(row["trouble"] for row in rows.values())
    assert sorted(row["number"] for row in rows.values()) == list(range(2000))
    assert "nothing to repair" in g.run("repair")


def test_two_operators(group):
    """At once, over the same pages: nobody's edit is lost."""
    def start(i):
        return subprocess.Popen([TENURE, "jobs", "add", *(f"{i}-{k}" for k in range(50)), "--store", group.url,
                                 "--group", "g"], stdout=subprocess.PIPE)
    running = [start(i) for i in range(4)]
    for one in running:
        assert one.wait(timeout=120) == 0
        one.stdout.close()
    rows = group.jobs()
    assert len(rows) == 201 and len({row["number"] for row in rows.values()}) == 201


def test_watch(group):
    watching = subprocess.Popen([TENURE, "jobs", "watch", "--store", group.url, "--group", "g"], stdout=subprocess.PIPE,
                                text=True)
    try:
        assert "catalogue" in watching.stdout.readline()
        group.worker("w1")
        assert "w1 is alive" in watching.stdout.readline()
        group.run("add", "a")
        assert "2 jobs" in watching.stdout.readline()
    finally:
        watching.terminate()
        watching.wait()
        watching.stdout.close()
