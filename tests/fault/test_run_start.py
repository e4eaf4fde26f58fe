"""A candidate whose store is away when it starts: it tries until it succeeds, or until it is told otherwise."""

import json
import re
import signal
import subprocess

import pytest
import server_redis
from agent import TENURE, Agent
from process import die_with_parent, free_port, until

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))


@pytest.fixture
def port():
    return free_port()


def texts(agent, event):
    return [line["text"] for line in agent.events() if line["event"] == event]


def waiting(agent):
    until(lambda: texts(agent, "trouble"))
    assert "opening the store: " in texts(agent, "trouble")[0]
    assert agent.status()["role"] == "standby"


def test_it_waits_for_its_store(tmp_path, port):
    """And is a candidate like any other as soon as the store is there."""
    url = f"redis://127.0.0.1:{port}"
    with Agent(tmp_path, url, "a") as agent:
        waiting(agent)
        with server_redis.Redis(port=port):
            agent.leads()
            assert texts(agent, "recovered")
            until(lambda: json.loads(subprocess.check_output(
                [TENURE, "candidates", "--name", "web", "--store", url, "--json"])))
            agent.end()


def test_it_can_be_told_to_stop(tmp_path, port):
    with Agent(tmp_path, f"redis://127.0.0.1:{port}", "a", "--warm-signal", "USR1") as agent:
        waiting(agent)
        assert agent.end() == 128 + signal.SIGTERM  # that of the warm program
    with Agent(tmp_path, f"redis://127.0.0.1:{port}", "b") as agent:
        waiting(agent)
        assert agent.end() == 0


def test_it_gives_up_when_told_to(tmp_path, port):
    with Agent(tmp_path, f"redis://127.0.0.1:{port}", "a", "--start-timeout", "1s",
               "--warm-signal", "USR1") as agent:
        assert agent.process.wait(60) == 1
        (why,) = texts(agent, "failed")
        assert "is the server up" in why and "--start-timeout" in why
        assert texts(agent, "ended")  # the warm program did not stay


def test_a_refusal_ends_it_at_once(tmp_path, port):
    """Also one that comes when the store has come up: trying again cannot help."""
    with Agent(tmp_path, f"redis://:wrong@127.0.0.1:{port}", "a") as agent:
        waiting(agent)
        with server_redis.Redis(("requirepass", "right"), port=port):
            assert agent.process.wait(60) == 1
        (why,) = texts(agent, "failed")
        assert "password" in why and "--start-timeout" not in why


def test_elections_of_a_file(tmp_path, port):
    """The one with a limit ends for good, the other one waits in the same process."""
    election = """
  - name: {0}
    coordinate: {{store: "redis://127.0.0.1:{1}"}}
    run: {{command: [sleep, "600"]{2}}}"""
    path = tmp_path / "tenure.yaml"
    path.write_text("elections:" + election.format("short", port, ", start_timeout: 1s")
                    + election.format("patient", port, ""))
    with open(tmp_path / "log", "w+") as log:
        agent = subprocess.Popen([TENURE, "agent", "--config", path, "--log", "text"], stderr=log,
                                 stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        try:
            said = (tmp_path / "log").read_text
            until(lambda: "short has ended with code 1" in said())
            with server_redis.Redis(port=port):
                until(lambda: re.search("patient: leading", said()))
                assert "starting it again" not in said()
                agent.terminate()
                assert agent.wait(60) == 0
        finally:
            agent.kill()
            agent.wait()
