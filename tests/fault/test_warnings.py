"""What somebody should look at is said in the log, over HTTP (which is what the page shows), as a metric and by
`tenure status`; what can heal is tried again, and then it is said no more."""

import json
import re
import subprocess

import pytest
import server_redis
from agent import TENURE, Agent
from process import die_with_parent, until

needs_redis = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))


def mount(scheme, place, made):
    """A directory with a store in it, there from one moment to the next."""
    made.mkdir(mode=0o700)
    assert subprocess.run([TENURE, "run", "--name", "other", "--store", f"{scheme}:{made}/store", "--log", "none", "--",
                           "true"], stdin=subprocess.DEVNULL).returncode == 0
    made.rename(place)


def warnings(agent):
    return {w["kind"]: w["text"] for w in agent.status()["warnings"]}


def metric(agent, kind):
    return int(re.search(rf'^tenure_warning\{{.*kind="{kind}"\}} (\d)$', agent.ask("/metrics").text, re.M)[1])


def logged(agent, text):
    return [line for line in agent.events() if line["level"] in ("warn", "error") and text in line["text"]]


def show(store, *options):
    return subprocess.run([TENURE, "status", "--store", store, *options], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL).stdout


def is_said(agent, store, kind, text):
    """Everywhere."""
    assert text in until(lambda: warnings(agent).get(kind))
    assert metric(agent, kind) == 1
    assert text in agent.status()["reason"]
    until(lambda: logged(agent, text))
    until(lambda: text in show(store))  # of all elections
    until(lambda: text in show(store, "--name", "web"))
    (found,) = [c["trouble"] for c in json.loads(show(store, "--name", "web", "--json"))["candidates"]
                if text in c["trouble"]]
    assert found


def test_a_crash_loop(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a", "--on-exit", "restart", "--crash-limit", "1000",
               program=["sh", "-c", "exit 3"]) as agent:
        is_said(agent, store, "crash-loop", "crash loop")
        assert int(re.search(r"^tenure_program_exits_total\{.*\} (\d+)$", agent.ask("/metrics").text,
                             re.M)[1]) >= 3


def test_a_program_that_is_missing_for_a_moment(tmp_path):
    store, program = f"file:{tmp_path}/store", tmp_path / "program"
    with Agent(tmp_path, store, "a", "--on-exit", "restart", "--crash-limit", "1000",
               program=[str(program)]) as agent:
        is_said(agent, store, "program-missing", "No such file")
        new = tmp_path / "new"
        new.write_text("#!/bin/sh\nexec sleep 600\n")
        new.chmod(0o755)
        new.rename(program)
        until(lambda: agent.ask("/readyz").status == 200)
        until(lambda: "program-missing" not in warnings(agent))
        assert metric(agent, "program-missing") == 0


def test_ttls_that_differ(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a", ttl="15s") as leader:
        leader.leads()
        with Agent(tmp_path, store, "b", ttl="10s") as other:
            is_said(other, store, "ttl-differs", "a leads with 15 s, this candidate has 10 s")
            assert metric(leader, "ttl-differs") == 0


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
@pytest.mark.parametrize("options", ["", "?create=no"])
def test_a_share_that_is_not_mounted_yet(scheme, options, tmp_path):
    place = tmp_path / "share"
    store = f"{scheme}:{place}/store{options}"
    with Agent(tmp_path, store, "a") as agent:
        assert str(place) in until(lambda: warnings(agent).get("store-unavailable"))
        assert metric(agent, "store-unavailable") == 1
        until(lambda: logged(agent, str(place)))
        assert str(place) in agent.status()["reason"]
        done = subprocess.run([TENURE, "status", "--store", store], capture_output=True, text=True)
        assert str(place) in done.stderr and not done.stdout
        # What is said helps: with create=no, `tenure run` would not make it.
        assert done.returncode == (1 if options else 2) and ("mounted?" in done.stderr) == bool(options)
        mount(scheme, place, tmp_path / "made")
        agent.leads()
        until(lambda: not warnings(agent))
        assert metric(agent, "store-unavailable") == 0


def test_an_agent_waits_for_its_share_and_its_program(tmp_path):
    """None of its elections ends: there is nobody at night who would start it again."""
    place, program = tmp_path / "share", tmp_path / "program"
    (tmp_path / "tenure.yaml").write_text(f"""
coordinate: {{type: file_lease, path: {place}/store, options: {{create: no}}}}
http: {{listen: "unix:{tmp_path}/http"}}
elections:
  - name: web
    run: {{command: ["{program}"]}}
""")
    log = open(tmp_path / "log", "w")
    process = subprocess.Popen([TENURE, "agent", "--config", tmp_path / "tenure.yaml"], stdin=subprocess.DEVNULL,
                               stdout=log, stderr=log, preexec_fn=die_with_parent)

    def ask(path):
        assert process.poll() is None, (tmp_path / "log").read_text()
        done = subprocess.run(["curl", "-s", "--max-time", "5", "--unix-socket", tmp_path / "http", f"http://x{path}"],
                              capture_output=True, text=True)
        return done.stdout

    def kinds():
        said = ask("/_ha/status")
        return [w["kind"] for w in json.loads(said)["elections"][0]["warnings"]] if said else []

    try:
        until(lambda: "store-unavailable" in kinds())
        mount("file", place, tmp_path / "made")
        until(lambda: "program-missing" in kinds())
        assert re.search(r'^tenure_warning\{.*kind="program-missing"\} 1$', ask("/metrics"), re.M)
        new = tmp_path / "new"
        new.write_text("#!/bin/sh\nexec sleep 600\n")
        new.chmod(0o755)
        new.rename(program)
        until(lambda: not {"store-unavailable", "program-missing"} & set(kinds()) and ask("/readyz") == "ok\n")
    finally:
        process.terminate()
        process.wait(60)
        log.close()


@needs_redis
def test_a_redis_without_persistence_that_forgets(tmp_path):
    with server_redis.Redis() as redis:
        with Agent(tmp_path, redis.url(), "a") as leader:
            leader.leads()
            is_said(leader, redis.url(), "store-volatile", "no append-only file")
            epoch = leader.status()["epoch"]
            with Agent(tmp_path, redis.url(), "b") as other:
                until(lambda: any(line["event"] == "standby" for line in other.events()))
                redis.kill()
                redis.start()  # empty
                for agent in (leader, other):
                    assert f"epoch {epoch} " in until(lambda: warnings(agent).get("store-forgot"))
                    assert metric(agent, "store-forgot") == 1
                    assert logged(agent, "the store forgot what it held")
                until(lambda: "forgot" in show(redis.url(), "--name", "web"))


@needs_redis
def test_a_redis_with_persistence(tmp_path):
    with server_redis.Redis(("appendonly", "yes")) as redis:
        with Agent(tmp_path, redis.url(), "a") as agent:
            agent.leads()
            until(lambda: any(c["state"] == "leading" for c in
                              json.loads(show(redis.url(), "--name", "web", "--json"))["candidates"]))
            assert not warnings(agent)


def holds_back(agent):
    return "does not contend" in warnings(agent).get("duplicate-id", "")


def command(store, *words):
    return subprocess.run([TENURE, *words, "--name", "web", "--store", store], capture_output=True).returncode


def test_two_with_one_id(tmp_path):
    """Both notice; the second one does not contend, not even when nobody leads, until the first is gone.  With
    this ttl nothing happens because time has passed."""
    store, text, ttl = f"file:{tmp_path}/store", "same id", "10m"
    with Agent(tmp_path, store, "a", ttl=ttl) as first:
        first.leads()
        with Agent(tmp_path, store, "a", ttl=ttl) as second:
            until(lambda: holds_back(second))
            is_said(first, store, "duplicate-id", text)
            assert metric(second, "duplicate-id") == 1 and logged(second, text)
            assert not holds_back(first)
            # It does not stand by: nobody is there to hand over to.
            epoch = first.status()["epoch"]
            assert command(store, "handover") != 0
            assert first.status()["leading"] and first.status()["epoch"] == epoch
            # Whoever else is there takes over, not the second.
            with Agent(tmp_path, store, "b", ttl=ttl) as other:
                other.waits()
                until(lambda: command(store, "handover", "--to", "b") == 0)
                until(lambda: other.status()["leading"])
                other.end()
                first.leads()
            assert not any(line["event"] == "running" for line in second.events())
            first.end()
            second.leads()
            until(lambda: "duplicate-id" not in warnings(second))


def test_two_with_one_id_and_the_first_crashes(tmp_path):
    """A standby has nobody that removes its record then."""
    store, ttl = f"file:{tmp_path}/store", "2s"
    with Agent(tmp_path, store, "c", ttl=ttl) as leader:
        leader.leads()
        with Agent(tmp_path, store, "a", ttl=ttl) as first:
            first.waits()
            with Agent(tmp_path, store, "a", ttl=ttl) as second:
                until(lambda: holds_back(second))
                first.process.kill()
                first.process.wait()
                until(lambda: "duplicate-id" not in warnings(second))
                leader.end()
                second.leads()


def test_two_with_one_id_and_the_first_is_not_healthy(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "c") as leader:
        leader.leads()
        with Agent(tmp_path, store, "a", "--candidate-probe", "exec:false") as first:
            until(lambda: first.status()["role"] == "unhealthy")
            with Agent(tmp_path, store, "a") as second:
                until(lambda: "duplicate-id" in warnings(first) and "duplicate-id" in warnings(second))
                leader.end()
                second.leads()


def test_two_with_one_id_and_the_first_steps_down(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as first:
        first.leads()
        with Agent(tmp_path, store, "a") as second:
            until(lambda: holds_back(second))
            assert command(store, "step-down", "--for", "1h") == 0
            second.leads()
            until(lambda: holds_back(first))


def test_two_with_one_id_on_purpose(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a", ttl="2s") as first:
        first.leads()
        with Agent(tmp_path, store, "a", "--allow-duplicate-id", ttl="2s") as second:
            until(lambda: "duplicate-id" in warnings(second) and "duplicate-id" in warnings(first))
            first.process.kill()
            first.process.wait()
            second.leads()


def test_one_that_is_started_again_is_no_duplicate(tmp_path):
    store = f"file:{tmp_path}/store"
    with Agent(tmp_path, store, "a") as first:
        first.leads()
        first.process.kill()
        first.process.wait()
    with Agent(tmp_path, store, "a") as second:
        second.leads()
        until(lambda: any(c["state"] == "leading" for c in
                          json.loads(show(store, "--name", "web", "--json"))["candidates"]))
        assert not warnings(second)
