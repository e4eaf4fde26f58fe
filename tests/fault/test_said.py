"""What is said of an election is true: who holds back, who was asked to do what, and what nobody knows."""

import json
import subprocess

import pytest
import server_redis
from agent import TENURE, Agent
from process import until


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
            redis.kill()
            until(lambda: agent.status()["reason"].startswith("who leads is not known; the store: "))


def test_a_term_whose_beginning_nobody_wrote(tmp_path):
    """It lasted for an unknown time, and not since 1970."""
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        until(lambda: json.loads(tenure(store, "status", "--json").stdout)["history"])
    assert " d " not in tenure(store, "status").stdout + tenure(store, "history").stdout
