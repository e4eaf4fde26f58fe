"""What is said of an election is true: who holds back, who was asked to do what, and what nobody knows."""

import json
import re
import subprocess
import time

import pytest
import server_redis
from agent import TENURE, Agent
from process import until
from tenure import Store


def stamp(unix_ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(unix_ms / 1000))


def tenure(store, verb, *options):
    return subprocess.run([TENURE, verb, "--name", "web", "--store", store, *options], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)


def test_stepping_down(tmp_path):
    """It is called that, and who has stepped down does not say that it is about to claim."""
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        assert tenure(store, "step-down", "--for", "10m").returncode == 0
        assert "stepped down and waits" in until(
            lambda: (reason := agent.status()["reason"]).startswith("nobody leads") and reason)
        texts = [line["text"] for line in agent.events() if line["event"] == "yielding"]
        assert texts == ["asked to step down"]


def test_handing_over(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        with Agent(tmp_path, store, "b") as other:
            other.waits()
            until(lambda: tenure(store, "handover", "--to", "b").returncode == 0)
            texts = [line["text"] for line in agent.events() if line["event"] == "yielding"]
            assert texts == ["asked to hand over to b"]
            terms = until(lambda: (h := json.loads(tenure(store, "history", "--json").stdout)["history"])
                          and h[0]["end"] and h)
            assert terms[0]["end"] == "handed over to b"
            until(lambda: other.status()["reason"].split("; ")[1:2] == ["handed over"])
            assert 'tenure_losses_total{name="web",id="a"} 0' in agent.ask("/metrics").text


def test_history_tells_a_step_down_from_a_hand_over(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        with Agent(tmp_path, store, "b") as other:
            other.waits()
            assert tenure(store, "step-down", "--for", "10m").returncode == 0
            other.leads()
            terms = until(lambda: (h := other.ask("/v1/history").json()["history"]) and len(h) == 2 and h)
            assert terms[1]["cause"] == "step-down"
            assert 'cause="step-down"} 1' in other.ask("/metrics").text
            assert "step-down" in tenure(store, "history").stdout
            assert until(lambda: other.ask("/v1/history").json()["history"][0]["end"]) == "asked to step down"


def test_stepping_down_over_http_during_a_pause_wants_force(tmp_path):
    with Agent(tmp_path, f"file:{tmp_path}/store", "a") as agent:
        agent.leads()
        assert agent.order("/v1/pause", {}).status == 200
        until(lambda: agent.status()["paused"])
        refused = agent.order("/v1/step-down", {})
        assert (refused.status, refused.json()["error"]) == (409, "conflict"), refused.text
        assert '"force": true' in refused.json()["detail"]
        assert agent.order("/v1/step-down", {"force": 1}).status == 400
        assert agent.status()["leading"]
        assert agent.order("/v1/step-down", {"force": True}).status == 200
        until(lambda: not agent.status()["leading"])


def test_stepping_down_during_a_pause_wants_force(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        assert tenure(store, "pause").returncode == 0
        until(lambda: agent.status()["paused"])
        refused = tenure(store, "step-down")
        assert refused.returncode == 1 and "--force" in refused.stderr
        assert agent.status()["leading"]
        assert tenure(store, "step-down", "--force").returncode == 0
        until(lambda: not agent.status()["leading"])


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
def test_nobody_knows_who_leads(tmp_path):
    """The lease was free when the store went away; whether it still is, nobody can say."""
    with server_redis.Redis(("appendonly", "yes")) as redis:
        with Agent(tmp_path, redis.url(), "a") as agent:
            agent.leads()
            assert tenure(redis.url(), "step-down", "--for", "10m").returncode == 0
            until(lambda: agent.status()["reason"].startswith("nobody leads"))
            assert agent.status()["leader_known"]
            redis.kill()
            until(lambda: agent.status()["reason"].startswith("who leads is not known; the store: "))
            assert not agent.status()["leader_known"]


@pytest.mark.parametrize("old_ms", [0, 37000])  # not written; by a clock that was not set
def test_a_term_since_1970(old_ms, tmp_path):
    """How long it lasted is unknown, and so is how long nobody led before the next."""
    url = f"file:{tmp_path}/store"
    now_ms = 1795000000000
    term = {"holder": "a", "cause": "first"}
    with Store(url) as store:
        store.swap("web/history", store.read("web/history").token, json.dumps({"terms": [
            {**term, "epoch": 1, "from_ms": old_ms, "to_ms": now_ms},
            {**term, "epoch": 2, "from_ms": now_ms + 1000, "to_ms": old_ms},
            {**term, "epoch": 3, "from_ms": now_ms + 3000, "to_ms": now_ms + 5000}]}).encode())
        store.swap("web/lease", store.read("web/lease").token, json.dumps({
            "holder": "a", "epoch": 4, "ttl_ms": 15000, "incarnation": "1" * 32, "grant": "2" * 32, "transitions": 3,
            "priority": 0, "address": "", "build": "", "cause": "free", "acquired_at": stamp(old_ms),
            "renewed_at": stamp(old_ms)}).encode())
    shown = tenure(url, "status").stdout + tenure(url, "history").stdout + \
        subprocess.run([TENURE, "status", "--store", url], capture_output=True, text=True).stdout
    assert not re.search(r"[0-9] d\b", shown), shown
    assert "not renewed" not in shown and "over" not in shown, shown  # by which clock?
    assert old_ms or "1970" not in "".join(line for line in shown.splitlines() if "since" not in line and "renewed" not in line)
    terms = json.loads(tenure(url, "history", "--json").stdout)["history"]
    assert [t["gap_ms"] for t in terms] == [None, 1000, None]


def test_why_a_held_lease_is_held(tmp_path):
    """Not because it is "free": the leader before had released it."""
    url = f"file:{tmp_path}/store"
    with Store(url) as store:
        for epoch, (word, told) in enumerate([("absent", "first"), ("free", "released"), ("expired", "expired")], 1):
            store.swap("web/lease", store.read("web/lease").token, json.dumps({
                "holder": "a", "epoch": epoch, "ttl_ms": 15000, "incarnation": "1" * 32, "grant": f"{epoch:032x}",
                "transitions": epoch, "priority": 0, "address": "", "build": "", "cause": word,
                "acquired_at": stamp(1795000000000), "renewed_at": stamp(1795000000000)}).encode())
            assert re.search(rf"cause +{told}$", tenure(url, "status").stdout, re.M)
            assert json.loads(tenure(url, "status", "--json").stdout)["cause"] == told
            with subprocess.Popen([TENURE, "watch", "--name", "web", "--store", url], stdout=subprocess.PIPE, text=True) as watch:
                assert watch.stdout.readline().endswith(f"web: a leads, epoch {epoch} ({told})\n")
                watch.kill()


def test_a_damaged_lease_may_be_held(tmp_path):
    """Who asks the leader to go is not told that nobody leads."""
    url = f"file:{tmp_path}/store"
    with Store(url) as store:
        store.swap("web/lease", store.read("web/lease").token, b"not a lease")
    for args in (["step-down"], ["handover", "--to", "b"]):
        done = tenure(url, *args)
        assert done.returncode == 1 and "who leads is not known" in done.stderr, done.stderr
    with Agent(tmp_path, url, "a") as agent:
        told = until(lambda: (s := agent.status())["reason"].startswith("the lease record cannot be used") and s)
        assert told["leader"] is None and told["leader_known"] is False
        for path in ("/v1/step-down", "/v1/handover"):
            assert "who leads is not known" in agent.order(path, {}).json()["detail"]
