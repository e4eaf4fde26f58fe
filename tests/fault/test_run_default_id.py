"""Without --id a candidate is called like its machine, before and after a restart; --log-time (of an agent too), and process_* metrics."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from agent import Agent
from process import die_with_parent, until
from world import TENURE

HOST = socket.gethostname()


class Candidate:
    def __init__(self, store, *options):
        self.process = subprocess.Popen(
            [TENURE, "run", "--name", "app", "--store", store, "--ttl", "60s", "--log", "json", *options, "--",
             "sh", "-c", 'echo "$TENURE_ID"; exec sleep 600'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)

    def id(self):
        return self.process.stdout.readline().strip()

    def end(self, sign=signal.SIGTERM):
        self.process.send_signal(sign)
        return self.process.communicate(timeout=60)[1]


def wait_for(store, ident):
    """It has announced itself."""
    until(lambda: ident in subprocess.run([TENURE, "candidates", "--name", "app", "--store", store],
                                          capture_output=True, text=True, timeout=60).stdout)


@pytest.mark.skipif(HOST in ("", "localhost", "(none)"), reason="this machine has no name of its own")
def test_the_host_name_and_a_suffix_only_when_it_is_taken(tmp_path):
    store = f"sqlite:{tmp_path}/db"
    first = Candidate(store)
    assert first.id() == HOST
    second = Candidate(store)
    wait_for(store, f"{HOST}-2")
    first.end()
    assert second.id() == f"{HOST}-2"
    again = Candidate(store)  # the name is free again, whatever the store remembers
    words = second.end()
    assert again.id() == HOST
    assert f"has its name as id; this one is {HOST}-2" in words
    assert '"event":"id"' not in again.end()


@pytest.mark.skipif(HOST in ("", "localhost", "(none)"), reason="this machine has no name of its own")
def test_one_store_however_it_is_written(tmp_path):
    """The claim that everybody can see has no part in a password, nor in how a path is spelt."""
    store = f"file:{tmp_path}/st"
    first = Candidate(store)
    assert first.id() == HOST
    second = Candidate(f"file://me:secret@localhost{tmp_path}/.//st/?poll=100ms")
    wait_for(store, f"{HOST}-2")
    first.end()
    assert second.id() == f"{HOST}-2"
    second.end()


@pytest.mark.skipif(HOST in ("", "localhost", "(none)"), reason="this machine has no name of its own")
def test_an_id_that_was_given_is_not_chosen_by_another(tmp_path):
    store = f"sqlite:{tmp_path}/db"
    first = Candidate(store, "--id", HOST)
    assert first.id() == HOST
    second = Candidate(store)
    wait_for(store, f"{HOST}-2")
    first.end()
    assert second.id() == f"{HOST}-2"
    second.end()


STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z tenure run: app: ")
# stderr is what JOURNAL_STREAM names, as under systemd.
JOURNAL = """
import os, sys
st = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino}"
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("options, journal, stamped", [
    ([], None, True), ([], "ours", False), ([], "1:2", True),
    (["--log-time", "never"], None, False), (["--log-time", "always"], "ours", True)])
def test_lines_of_text_carry_the_time(tmp_path, options, journal, stamped):
    command = [TENURE, "run", "--name", "app", "--store", f"sqlite:{tmp_path}/db", "--log", "text", *options, "--",
               "true"]
    env = {name: value for name, value in os.environ.items() if name != "JOURNAL_STREAM"}
    if journal == "ours":
        command = [sys.executable, "-c", JOURNAL, *command]
    elif journal:
        env["JOURNAL_STREAM"] = journal
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    lines = [line for line in done.stderr.splitlines() if "tenure run: app: " in line]
    assert done.returncode == 0 and lines, done.stderr
    for line in lines:
        assert bool(STAMP.match(line)) == stamped, line


@pytest.mark.parametrize("options, log, stamped", [
    ([], "{format: text}", True), ([], "{format: text, time: never}", False),
    (["--log-time", "always"], "{format: text, time: never}", True)])
def test_lines_of_an_agent_carry_the_time(tmp_path, options, log, stamped):
    config = tmp_path / "tenure.yaml"
    config.write_text(f"coordinate: {{type: sqlite, path: {tmp_path}/db}}\nlog: {log}\n"
                      'elections:\n  - name: app\n    run: {command: ["true"], on_exit: exit}\n')
    env = {name: value for name, value in os.environ.items() if name != "JOURNAL_STREAM"}
    done = subprocess.run([TENURE, "agent", "--config", config, *options], capture_output=True, text=True, env=env,
                          timeout=60)
    lines = [line for line in done.stderr.splitlines() if "tenure agent: " in line]
    assert done.returncode == 0 and lines, done.stderr
    for line in lines:
        assert bool(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line)) == stamped, line


def test_process_metrics(tmp_path):
    with Agent(tmp_path, f"sqlite:{tmp_path}/db", "a") as agent:
        text = agent.leads().ask("/metrics").text
        values = dict(re.findall(r"^(process_\w+) (\S+)$", text, re.M))
        assert float(values["process_cpu_seconds_total"]) >= 0
        assert abs(float(values["process_start_time_seconds"]) - time.time()) < 3600
        assert 4 < float(values["process_open_fds"]) < float(values["process_max_fds"])
        assert 2 ** 20 < float(values["process_resident_memory_bytes"]) \
            < float(values["process_virtual_memory_bytes"])
        assert text.count("# TYPE process_cpu_seconds_total counter\n") == 1
