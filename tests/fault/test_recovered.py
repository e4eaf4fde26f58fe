"""A store that goes and comes back is told, by the leader and by who stands by: once why, and once that
it is over, with how long it was gone."""

import re

import pytest
import server_redis
from agent import Agent
from process import until

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))


def texts(agent, event):
    return [line["text"] for line in agent.events() if line["event"] == event]


def failures(agent):
    return sum(int(n) for n in re.findall(r"^tenure_store_failures_total\{.*\} (\d+)$",
                                          agent.ask("/metrics").text, re.M))


def reasons(agent):
    return [text.split(": ", 1)[1] for text in texts(agent, "trouble")]


def test_a_store_that_comes_back(tmp_path):
    with server_redis.Redis(("appendonly", "yes")) as redis:
        options = ("--renew", "1s", "--log-level", "debug")
        with Agent(tmp_path, redis.url(), "a", *options, ttl="30s") as leader:
            leader.leads()
            with Agent(tmp_path, redis.url(), "b", *options, ttl="30s") as waiting:
                until(lambda: texts(waiting, "standby"))
                until(lambda: texts(leader, "renewed"))
                assert not texts(leader, "trouble") + texts(waiting, "trouble")
                epoch = leader.status()["epoch"]
                redis.kill()
                for agent in (leader, waiting):
                    until(lambda: texts(agent, "trouble"))
                until(lambda: "the store: " in waiting.status()["reason"])
                # Asked again and again, for the lease and for changes; told when the reason differs.
                for agent in (leader, waiting):
                    until(lambda: failures(agent) > 6, limit=60)
                    assert len(reasons(agent)) == len(set(reasons(agent))) < 6, texts(agent, "trouble")
                redis.start()
                for agent in (leader, waiting):
                    (line,) = until(lambda: texts(agent, "recovered"))
                    assert re.fullmatch(r"the store answers again, after \d+\.\d s", line)
                    (level,) = {line["level"] for line in agent.events()
                                if line["event"] == "trouble"}
                    assert level == "warn"
                until(lambda: "the store: " not in waiting.status()["reason"])  # on the page too
                # Nobody lost anything, and nothing more was said.
                count = len(texts(leader, "renewed"))
                until(lambda: len(texts(leader, "renewed")) > count + 1)
                assert leader.status()["leading"] and leader.status()["epoch"] == epoch
                assert len(texts(leader, "recovered")) == len(texts(waiting, "recovered")) == 1
