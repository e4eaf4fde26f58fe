"""`tenure status` and `tenure watch`: what stands on the terminal, to the letter.

The registers are written by hand, so that nothing in them moves.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import server_redis  # noqa: E402
from process import until  # noqa: E402
from tenure import Store  # noqa: E402
from terminal import GIVEN_BACK, TAKEN, Terminal  # noqa: E402

TENURE = pathlib.Path(os.environ["TENURE_BUILD"]) / "tenure"
DAY = 86400000


def lease(holder, epoch, age_s=0.0, **more):
    when = time.time() - age_s
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when)) + f".{int(when * 1000) % 1000:03}Z"
    return {"holder": holder, "epoch": epoch, "ttl_ms": 90000, "incarnation": "1" * 32,
            "grant": f"{epoch:032x}", "transitions": 3, "priority": 0, "address": "", "build": "",
            "cause": "expired", "acquired_at": "2024-01-01T00:00:00.000Z", "renewed_at": stamp,
            **more}


def candidate(ident, state="standby", **more):
    return {"id": ident, "state": state, "healthy": True, "priority": 0, "build": "1.2", **more}


def put(store, key, value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    answer = store.swap(key, store.read(key).token, data)
    assert answer.status == "ok", answer


def fill(store):
    """Four elections: one well, one overdue and paused, one free, one damaged; and a decoy."""
    put(store, "web/lease", lease("node-a", 1700000000003, build="1.2", address="10.0.0.1:80"))
    put(store, "web/candidates/node-a", candidate("node-a", "leading"))
    put(store, "web/candidates/node-b", candidate("node-b", priority=10))
    put(store, "web/candidates/node-c", candidate("node-c", "unhealthy", healthy=False,
                                                  trouble="the probe failed"))
    put(store, "web/history", {"terms": [
        {"epoch": 1700000000001, "holder": "node-b", "from_ms": DAY, "to_ms": DAY + 5000,
         "cause": "first", "end": "asked to stop"},
        {"epoch": 1700000000002, "holder": "node-c", "from_ms": DAY + 5050, "to_ms": DAY + 3605050,
         "cause": "released", "estimated": True},
        {"epoch": 1700000000003, "holder": "node-a", "from_ms": DAY + 3620050,
         "cause": "expired"}]})
    put(store, "web/state/jobs/lease", b"a document")
    put(store, "billing/night/lease", lease("a-machine-with-a-long-name.example.com", 1700000000009,
                                            age_s=3600))
    put(store, "billing/night/control", {"paused": True, "paused_by": "ops", "reason": "moving",
                                         "paused_at": "2024-01-01T00:00:00.000Z"})
    put(store, "mail/lease", lease("", 1700000000004))
    put(store, "odd/lease", b"not a lease")


@pytest.fixture
def place(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    with Store(url) as store:
        fill(store)
        yield url, store


def tenure(*args, **env):
    done = subprocess.run([TENURE, *args], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, "TZ": "UTC", **env})
    return done


def still(text):
    """Without what moves: ages and remaining times keep their width."""
    text = re.sub(r"(?<!expired     )~\d+\.\d s", lambda m: "~LEFT".rjust(len(m[0])), text)
    text = re.sub(r" *\d+\.\d d\b", lambda m: "AGE".rjust(len(m[0])), text)
    text = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  (tenure watch, q quits)  .*", r"TIME  \1  STORE", text)
    return re.sub(r"(renewed +)20\S+", r"\1STAMP", text)


ALL = """\
election      state   leader                                         epoch      for    left healthy
billing/night held    a-machine-with-a-long-name.example.com 1700000000009      AGE    over     0/0
  PAUSED by ops: moving; nobody takes over until `tenure resume` (since 2024-01-01T00:00:00.000Z)
mail          free                                           1700000000004                      0/0
odd           refused                                                                           0/0
  lease record: '[' or '{' expected near 'not' at byte 3
web           held    node-a                                 1700000000003      AGE   ~LEFT     2/3
  node-c: the probe failed
"""

WEB = """\
web is led by node-a
  epoch        1700000000003
  ttl          90 s
  left           ~LEFT
  since        2024-01-01T00:00:00.000Z (     AGE)
  renewed      STAMP
  cause        expired
  transitions  3
  address      10.0.0.1:80
  build        1.2

  candidate state     health    priority  build
  node-a    leading   healthy          0  1.2
  node-b    standby   healthy         10  1.2
  node-c    unhealthy unhealthy        0  1.2; the probe failed

  from                 leader  for      began by        gap  ended by
  1970-01-02T01:00:20Z node-a  now      expired     ~15.0 s
  1970-01-02T00:00:05Z node-c ~60.0 min released      50 ms
  1970-01-02T00:00:00Z node-b  5.0 s    first             -  asked to stop
"""


def test_every_election_of_a_store(place):
    done = tenure("status", "--store", place[0])
    assert still(done.stdout) == ALL
    assert done.returncode == 1 and not done.stderr  # one cannot be used
    assert tenure("status", "--all", "--store", place[0], TENURE_NAME="web").stdout.count("\n") == 8
    assert tenure("status", "--store", place[0], TENURE_NAME="web").returncode == 0


def test_one_in_full(place):
    done = tenure("status", "--name", "web", "--store", place[0])
    assert still(done.stdout) == WEB
    assert done.returncode == 0 and not done.stderr
    assert tenure("status", "mail", "--store", place[0]).returncode == 3
    odd = tenure("status", "odd", "--store", place[0])
    assert odd.returncode == 1 and "tenure reset --name odd" in odd.stdout
    paused = tenure("status", "billing/night", "--store", place[0]).stdout
    assert paused.startswith("PAUSED by ops: moving") and "none: not renewed in time" in paused


def test_just_after_a_take_over(place):
    """The lease says who leads; what candidates and terms say of themselves is older."""
    url, store = place
    put(store, "web/lease", lease("node-b", 1700000000004))
    told = tenure("status", "web", "--store", url).stdout
    assert told.startswith("web is led by node-b")
    assert "  node-a    former    -                0  1.2\n" in told
    assert "  node-b    leading   healthy         10  1.2\n" in told
    assert "  1970-01-02T01:00:20Z node-a  -        expired     ~15.0 s\n" in told and " now " not in told
    one = json.loads(tenure("status", "web", "--store", url, "--json").stdout)
    assert [c["state"] for c in one["candidates"]] == ["former", "leading", "unhealthy"]
    assert not any(t["current"] for t in one["history"])
    assert " now " not in tenure("history", "web", "--store", url).stdout
    listed = json.loads(tenure("candidates", "web", "--store", url, "--json").stdout)
    assert [c["state"] for c in listed] == ["former", "leading", "unhealthy"]
    put(store, "web/candidates/node-b", candidate("node-b", "stopping"))
    assert "node-b    stopping  healthy" in tenure("status", "web", "--store", url).stdout


def test_orders_that_cannot_be_read(place):
    """They hold the candidates back as a pause does: that is shown, and the way out works."""
    url, store = place
    put(store, "web/control", b"[]")
    told = tenure("status", "web", "--store", url)
    assert told.stdout.startswith("PAUSED") and "tenure resume --force" in told.stderr
    assert tenure("resume", "web", "--store", url).returncode == 1
    assert tenure("resume", "web", "--force", "--store", url).returncode == 0
    told = tenure("status", "web", "--store", url)
    assert "PAUSED" not in told.stdout and not told.stderr


def test_an_empty_store(tmp_path):
    with Store(f"sqlite:{tmp_path}/db"):
        pass
    done = tenure("status", "--store", f"sqlite:{tmp_path}/db")
    assert (done.returncode, done.stdout) == (3, "there are no elections in this store\n")


MEMBERS = {"name", "state", "holder", "epoch", "ttl_ms", "transitions", "version", "cause",
           "acquired_at", "renewed_at", "address", "build", "priority", "incarnation", "grant",
           "nonce", "prev", "trouble", "paused", "paused_by", "paused_at", "reason"}


def test_json(place):
    one = json.loads(tenure("status", "--name", "web", "--store", place[0], "--json").stdout)
    assert set(one) == MEMBERS | {"left_ms", "candidates", "history"}
    assert (one["holder"], one["epoch"], one["paused"]) == ("node-a", 1700000000003, False)
    assert one["left_ms"] <= 90000
    assert [c["id"] for c in one["candidates"]] == ["node-a", "node-b", "node-c"]
    assert [t["holder"] for t in one["history"]] == ["node-b", "node-c", "node-a"]
    assert [t["current"] for t in one["history"]] == [False, False, True]
    every = json.loads(tenure("status", "--store", place[0], "--json").stdout)["elections"]
    assert [e["name"] for e in every] == ["billing/night", "mail", "odd", "web"]
    assert all(set(e) == MEMBERS | {"left_ms", "candidates_count", "healthy_count", "troubled_count"} for e in every)
    assert [e["state"] for e in every] == ["held", "free", "refused", "held"]
    assert (every[3]["candidates_count"], every[3]["healthy_count"]) == (3, 2)
    assert every[0]["left_ms"] < 0 and every[1]["left_ms"] is None and every[0]["paused"]


SCREEN = """\
TIME  tenure watch, q quits  STORE

election      state   leader                      epoch      for    left healthy
billing/night held    a-machine-with-a-.. 1700000000009      AGE    over     0/0
  PAUSED by ops: moving; nobody takes over until `tenure resume` (since 2024-01-
mail          free                        1700000000004                      0/0
odd           refused                                                        0/0
  lease record: '[' or '{' expected near 'not' at byte 3
web           held    node-a              1700000000003      AGE   ~LEFT     2/3
  node-c: the probe failed"""


def test_a_screen_of_all(place):
    """Eighty columns are enough, fewer are bearable, and what changes is drawn again."""
    url, store = place
    with Terminal(TENURE, "watch", "--store", url, NO_COLOR="1") as t:
        assert still(t.until("^web .* 2/3")) == SCREEN
        assert TAKEN in t.raw and not re.search(r"\x1b\[[0-9]+m", t.raw)
        put(store, "mail/lease", lease("node-d", 1700000000005))
        assert t.until("^mail +held +node-d +1700000000005")
        t.resize(50)
        frame = t.until(r"\A.{,50}\n")
        while max(map(len, frame.splitlines())) > 50:  # one that was under way
            frame = t.until(r"\A.{,50}\n")
        t.resize(80, 6)
        assert t.until("window too small").count("\n") == 5
        t.press("q")
        assert t.ends() == 0 and t.raw.endswith(GIVEN_BACK)
        assert termios.tcgetattr(t.fd) == t.before


def test_a_screen_of_one(place):
    """The facts of `status`, in colours; the lease runs by our own clock once it was renewed."""
    url, store = place
    with Terminal(TENURE, "watch", "web", "--store", url) as t:
        frame = t.until("led by node-a, epoch 1700000000003")
        assert "\x1b[32mnode-a" in t.raw
        assert WEB[WEB.index("  candidate"):].rstrip("\n") in frame
        assert re.search(r"^  lease  ~\d+\.\d s left of 90 s$", frame, re.M)
        put(store, "web/lease", lease("node-a", 1700000000003, age_s=-900))
        assert t.until(r"^  lease  [1-9][0-9]\.\d s left of 90 s$")
        put(store, "web/control", {"paused": True, "paused_by": "ops", "reason": "moving"})
        assert t.until("PAUSED by ops: moving")
        put(store, "web/candidates/node-c", candidate("node-c"))
        assert t.until("node-c +standby +healthy")
        put(store, "web/lease", lease("", 1700000000003))
        assert t.until("^web  free: nobody leads")


@pytest.mark.parametrize("how", ["\x03", signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_terminal_is_given_back(place, how):
    with Terminal(TENURE, "watch", "--store", place[0]) as t:
        t.until("^web ")
        assert termios.tcgetattr(t.fd) != t.before
        if how == "\x03":
            t.press(how)
        else:
            t.kill(how)
        assert t.ends() == -(signal.SIGINT if how == "\x03" else how)
        assert t.raw.endswith(GIVEN_BACK)
        assert termios.tcgetattr(t.fd) == t.before


def test_ctrl_z_gives_it_back_too(place):
    with Terminal(TENURE, "watch", "--store", place[0]) as t:
        t.until("^web ")
        t.press("\x1a")
        until(lambda: t.read() and GIVEN_BACK in t.raw)
        until(lambda: pathlib.Path(f"/proc/{t.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
              == "T")
        assert termios.tcgetattr(t.fd) == t.before
        t.kill(signal.SIGCONT)
        assert t.until("^web ") and termios.tcgetattr(t.fd) != t.before


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_a_store_that_is_gone_is_told():
    """With the age of what is shown; and it comes back by itself."""
    with server_redis.Redis() as redis:
        with Store(redis.url()) as store:
            fill(store)
        with Terminal(TENURE, "watch", "--store", redis.url(), "--timeout", "1s") as t:
            t.until("^web ")
            redis.kill()
            frame = t.until(r"^as of \d+ s ago")
            assert "the store: " in frame and "web " in frame
            redis.start()
            with Store(redis.url()) as store:  # it has forgotten everything
                put(store, "new/lease", lease("node-z", 1700000000077))
            assert "the store" not in t.until("^new +held +node-z")


MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def test_lines_elsewhere(place):
    """A line for every change of hands, of one election or of all."""
    url, store = place
    for args, others in ((["--name", "mail"], 0), ([], 3)):
        put(store, "mail/lease", lease("", 1700000000004))
        with subprocess.Popen([TENURE, "watch", *args, "--store", url], text=True,
                              stdout=subprocess.PIPE) as watch:
            first = [watch.stdout.readline() for _ in range(1 + others)]
            assert [line for line in first if re.match(rf"{MOMENT} mail: free$", line)]
            put(store, "mail/lease", lease("node-d", 1700000000006))
            assert re.match(rf"{MOMENT} mail: node-d leads, epoch 1700000000006 \(expired\)$",
                            watch.stdout.readline())
            watch.kill()
    with subprocess.Popen([TENURE, "watch", "--store", url, "--json"], text=True,
                          stdout=subprocess.PIPE) as watch:
        names = [json.loads(watch.stdout.readline())["name"] for _ in range(4)]
        assert names == ["billing/night", "mail", "odd", "web"]
        watch.kill()
