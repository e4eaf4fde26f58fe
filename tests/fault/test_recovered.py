"""A store that goes and comes back is told, by the leader and by who stands by: once why, and once that
it is over, with how long it was gone."""

import re
import subprocess

import pytest
import server_postgres
import server_redis
from agent import TENURE, Agent
from disk import SmallDisk, needs_mount
from process import until
from proxy import Proxy


def texts(agent, event):
    return [line["text"] for line in agent.events() if line["event"] == event]


def failures(agent):
    return sum(int(n) for n in re.findall(r"^tenure_store_failures_total\{.*\} (\d+)$",
                                          agent.ask("/metrics").text, re.M))


def reasons(agent):
    return [text.split(": ", 1)[1] for text in texts(agent, "trouble")]


@pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))
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
                    until(lambda: failures(agent) > 6)
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


@pytest.mark.skipif(server_postgres.MISSING is not None, reason=str(server_postgres.MISSING))
def test_connections_that_nobody_answers(tmp_path):
    """A wait that lasts its time while it connects is no answer: nothing is over until there is one."""
    with server_postgres.Postgres() as server, Proxy(("127.0.0.1", server.port)) as proxy:
        with Agent(tmp_path, server.url(), "a", "--renew", "1s", ttl="30s") as leader:
            leader.leads()
            with Agent(tmp_path, server.url(port=proxy.port), "b", ttl="10s") as waiting:
                waiting.waits()
                proxy.black_hole = True
                proxy.cut()
                until(lambda: failures(waiting) > 3)
                assert texts(waiting, "trouble") and not texts(waiting, "recovered")
                proxy.black_hole = False
                (line,) = until(lambda: texts(waiting, "recovered"))
                assert re.fullmatch(r"the store answers again, after \d+\.\d s", line)
                until(lambda: "the store: " not in waiting.status()["reason"])


@needs_mount
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_disk_that_is_full(tmp_path, scheme):
    """It can be read all the time: nothing is over before a change was made."""
    trace = tmp_path / "trace"
    with SmallDisk("256k") as disk, Agent(tmp_path, f"{scheme}:{disk.path}/store", "a", "--trace",
                                          trace, ttl="3s") as leader:
        leader.leads()
        disk.fill()
        until(lambda: trace.read_text().count('"claiming the lease: ') > 2)
        assert len(reasons(leader)) == len(set(reasons(leader))) < 3, texts(leader, "trouble")
        assert not texts(leader, "recovered")
        assert "the store: " in leader.status()["reason"]
        disk.room()
        until(lambda: texts(leader, "recovered"))
        leader.leads()
        assert len(texts(leader, "recovered")) == 1


def test_orders_that_the_store_cannot_read(tmp_path):
    """They are damaged until they are replaced, however often the lease is read meanwhile."""
    store = f"file:{tmp_path}/store"

    def tenure(*args):
        return subprocess.run([TENURE, *args, "--name", "web", "--store", store], timeout=60,
                              capture_output=True, text=True)

    options = ("--renew", "300ms", "--log-level", "debug")
    with Agent(tmp_path, store, "a", *options) as leader:
        leader.leads()
        assert tenure("pause").returncode == tenure("resume").returncode == 0
        max((tmp_path / "store/web/control").glob("@*")).write_bytes(b"not a slot\n")
        with Agent(tmp_path, store, "b", *options) as waiting:
            for agent in (leader, waiting):
                until(lambda: texts(agent, "trouble"))
            count = len(texts(leader, "renewed"))
            until(lambda: len(texts(leader, "renewed")) > count + 5)
            for agent in (leader, waiting):
                assert len(reasons(agent)) == len(set(reasons(agent))), texts(agent, "trouble")
                assert not texts(agent, "recovered")
            for verb in ("pause", "resume"):
                refused = tenure(verb)
                assert refused.returncode == 1 and "web/control" in refused.stderr
                assert "tenure resume --force" in refused.stderr
            done = tenure("resume", "--force")
            assert done.returncode == 0 and done.stderr.count("\n") == 1 and "replaced" in done.stderr
            for agent in (leader, waiting):
                until(lambda: len(texts(agent, "recovered")) == 1)
            waiting.waits()
            assert tenure("resume", "--force").stderr == ""
