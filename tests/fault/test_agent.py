"""`tenure agent`: several elections of one file, as real processes."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from agent import put_secret
from world import BUILD, MEMORY, NS, PATIENCE, TENURE, WITNESS, Table, alive, children, eventually, now

CANARY = "c4n4ry-of-the-agent"


class Agent:
    def __init__(self, place, name, text, env=None):
        self.place, self.name = place, name
        self.config = place.dir / f"{name}.yaml"
        self.log_path = place.dir / f"{name}.log"
        self.write(text)
        self.log = open(self.log_path, "ab")
        self.proc = subprocess.Popen([TENURE, "agent", "--config", self.config, "--log", "text"],
                                     stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                     env={**os.environ, **(env or {})}, start_new_session=True)

    def write(self, text):
        fresh = self.config.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.config)

    def words(self):
        return self.log_path.read_text(errors="replace")

    def says(self, text):
        eventually(f"{self.name} says {text!r}: {self.words()[-1500:]}", lambda: text in self.words())

    def signal(self, number):
        self.proc.send_signal(number)

    def child(self, election):
        """The process of an election."""
        def find():
            for pid in children(self.proc.pid):
                try:
                    args = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if election.encode() in args:
                    return pid
            return None
        return eventually(f"a process for {election}", find)

    def wait(self):
        try:
            return self.proc.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end: {self.words()[-2000:]}")

    def end(self):
        for _ in range(2):
            if self.proc.poll() is None:
                self.signal(signal.SIGTERM)
                try:
                    self.proc.wait(20)
                except subprocess.TimeoutExpired:
                    continue
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        self.log.close()


class Place:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-agent-", dir=MEMORY))
        self.dir.chmod(0o755)
        self.agents = []

    def start(self, name, text, **more):
        self.agents.append(Agent(self, name, text, **more))
        return self.agents[-1]

    def leader(self, election):
        done = subprocess.run([TENURE, "status", "--json", "--name", election, "--store",
                               f"sqlite:{self.dir}/lease.db"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        return json.loads(done.stdout) if done.returncode in (0, 3) and done.stdout else {}


@pytest.fixture
def place():
    p = Place()
    yield p
    for agent in p.agents:
        print(f"--- {agent.name}\n{agent.words()[-3000:]}")
        agent.end()
    shutil.rmtree(p.dir, ignore_errors=True)


def two(place, name, tables, extra=""):
    return f"""
coordinate:
  type: sqlite
  path: {place.dir}/lease.db
  ttl: 10s
  holder_id: {name}
elections:
  - name: web
    run:
      command: [{WITNESS}, {tables[0].path}]
  - name: jobs
    run:
      command: {WITNESS} {tables[1].path}
{extra}"""


def test_two_elections_two_agents_and_a_failover(place):
    tables = [Table(place.dir / "web"), Table(place.dir / "jobs")]
    first = place.start("a", two(place, "a", tables))
    for table in tables:
        eventually("a first leader", table.top)
    second = place.start("b", two(place, "b", tables))
    second.says("web: a leads")
    second.says("jobs: a leads")
    before = [table.top() for table in tables]
    # One election's process dies: the other one of that agent goes on, and the agent repairs it.
    web = first.child("web")
    os.kill(web, signal.SIGKILL)
    eventually("another leader of web", lambda: tables[0].top() > before[0])
    first.says("web ended (signal 9); starting it again")
    assert eventually("a new process", lambda: first.child("web") != web)
    assert tables[1].top() == before[1]
    # The whole agent dies: its children are asked to stop, release, and the other takes both over.
    before = [table.top() for table in tables]
    pids = [first.child("web"), first.child("jobs")]
    first.proc.kill()
    first.proc.wait()
    eventually("another leader of jobs", lambda: tables[1].top() > before[1])
    second.says("jobs: leading")
    second.says("web: leading")
    eventually("the end of its children", lambda: not any(alive(p) for p in pids))
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    for table in tables:
        assert table.check() >= 2


def test_one_that_changed_is_restarted_alone(place):
    text = two(place, "a", tables := [Table(place.dir / "web"), Table(place.dir / "jobs")])
    agent = place.start("a", text)
    agent.says("web: leading")
    agent.says("jobs: leading")
    web, jobs = agent.child("web"), agent.child("jobs")
    epochs = [eventually("its program", t.top) for t in tables]
    changed = text.replace("  - name: jobs\n    run:\n", "  - name: jobs\n    run:\n      env: {MODE: new}\n")
    agent.write(changed)
    agent.signal(signal.SIGHUP)
    agent.says("jobs: restarting it, because these have changed: env")
    eventually("a new term of jobs", lambda: tables[1].top() > epochs[1])
    second = eventually("its process", lambda: agent.child("jobs") not in (None, jobs) and agent.child("jobs"))
    program = {r.epoch: r.pid for r in tables[1].programs()}[tables[1].top()]
    assert b"MODE=new" in (pathlib.Path("/proc") / str(program) / "environ").read_bytes().split(b"\0")
    # A file that says the same restarts nothing.
    agent.write(changed + "# the same\n")
    agent.signal(signal.SIGHUP)
    agent.says("jobs: nothing changed for this election")
    assert (agent.child("web"), agent.child("jobs")) == (web, second) and tables[0].top() == epochs[0]
    # In ps each has its name.
    for name, pid in ("web", web), ("jobs", second):
        assert (pathlib.Path("/proc") / str(pid) / "comm").read_text() == f"tenure: {name}\n"
        assert subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True,
                              check=True).stdout.startswith(f"tenure: {name}")


def test_reload(place):
    text = two(place, "a", [Table(place.dir / "web"), Table(place.dir / "jobs")])
    agent = place.start("a", text)
    agent.says("web: leading")
    agent.says("jobs: leading")
    web, jobs = agent.child("web"), agent.child("jobs")

    # What can change does, and is named.
    agent.write(text.replace("ttl: 10s", "ttl: 12s\n  renew_interval: 500ms")
                .replace("  - name: jobs\n    run:\n", "  - name: jobs\n    run:\n"
                         f"      on_new_leader: touch {place.dir}/hook\n"))
    agent.signal(signal.SIGHUP)
    agent.says("web: changed: ttl, renew_interval\n")
    agent.says("jobs: changed: ttl, renew_interval, on_new_leader\n")
    eventually("a renewal with the new ttl",
               lambda: place.leader("web").get("ttl_ms") == 12000)
    assert "the lease was renewed" not in agent.words()
    agent.write(text + "log: {level: debug}\n")
    agent.signal(signal.SIGHUP)
    agent.says("web: changed: ttl, renew_interval, log.level\n")
    agent.says("web: the lease was renewed in ")
    # A file that cannot be used changes nothing.
    agent.write(text.replace("ttl: 10s", "ttl: 10"))
    agent.signal(signal.SIGHUP)
    agent.says("coordinate.ttl: '10' has no unit: write 10s if seconds are meant")
    agent.says("is invalid; keeping the current settings")
    assert (agent.child("web"), agent.child("jobs")) == (web, jobs)
    # An election goes, another one comes; a lower ttl binds at once.
    agent.write(text[:text.index("  - name: jobs")].replace("10s", "6s") + "  - name: late\n")
    agent.signal(signal.SIGHUP)
    agent.says("jobs is no longer in the configuration; stopping it")
    agent.says("late: leading")
    eventually("the end of jobs", lambda: not alive(jobs))
    eventually("a renewal with the lower ttl", lambda: place.leader("web").get("ttl_ms") == 6000)
    assert agent.child("web") == web and "leadership is over" not in agent.words()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


def runs(word):
    """Is there a process whose command line has it?"""
    return subprocess.run(["pgrep", "-f", "--", f"touch {word}"], capture_output=True, check=False).returncode == 0


def test_a_reload_adds_a_hook_and_takes_one_away(place):
    """The release waits for on_stopped also if a reload brought it."""
    stopped, led = place.dir / "stopped", place.dir / "led"

    def text(hook):
        return f"""
coordinate: {{type: sqlite, path: {place.dir}/lease.db, ttl: 600s}}
name: e0
run: {{command: [sleep, "600"], {hook}}}
"""
    agent = place.start("a", text(f"on_new_leader: 'touch {led}'"))
    agent.says("e0: leading")
    eventually("the hook, and its end", lambda: led.exists() and not runs(led))
    agent.write(text(f"on_stopped: 'touch {stopped}'"))
    agent.signal(signal.SIGHUP)
    agent.says("e0: changed: on_stopped, on_new_leader")
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0
    assert stopped.exists() and "hook" not in agent.words()


def sleepers(place, n, ttl="600s"):
    return f"coordinate: {{type: sqlite, path: {place.dir}/lease.db, ttl: {ttl}}}\nelections:\n" + "".join(
        f"""
  - name: e{i}
    run: {{command: [sh, -c, "grep SigBlk /proc/self/status >{place.dir}/e{i}; exec sleep 600"]}}
""" for i in range(n))


def test_a_reload_while_the_elections_start(place):
    """SIGHUP is kept for who cannot take it yet, and means nothing to the programs."""
    agent = place.start("a", sleepers(place, 4))
    eventually("children", lambda: len(children(agent.proc.pid)) == 4)
    for _ in range(5):
        agent.signal(signal.SIGHUP)
        time.sleep(0.005)
    for i in range(4):
        agent.says(f"e{i}: leading")
        note = place.dir / f"e{i}"
        blocked = eventually("its program", lambda: note.exists() and note.read_text().split()[1:])
        assert int(blocked[0], 16) & 1 == 0
    assert "signal 1" not in agent.words()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


def test_a_secret_that_is_away_while_an_election_starts_again(place):
    """The agent has found it good: it is tried again, not given up for ever."""
    secret = place.dir / "secret"
    secret.write_text("x\n")
    agent = place.start("a", f"""
coordinate: {{type: sqlite, path: {place.dir}/lease.db}}
name: e0
run: {{command: [sleep, "600"], env: {{SECRET: "file:{secret}"}}}}
""")
    agent.says("e0: leading")
    secret.rename(place.dir / "away")
    os.kill(agent.child("e0"), signal.SIGKILL)
    agent.says("run.env.SECRET: secret file")
    (place.dir / "away").rename(secret)
    eventually("it leads again", lambda: agent.words().count("e0: leading") == 2)
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


def test_a_process_that_is_stopped_is_asked_to_end_too(place):
    agent = place.start("a", sleepers(place, 1))
    agent.says("e0: leading")
    os.kill(agent.child("e0"), signal.SIGSTOP)
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


def test_a_process_that_hangs_does_not_survive_the_third_signal(place):
    """Held by a debugger it hears nothing; its guard ends the program and releases."""
    agent = place.start("a", sleepers(place, 1))
    agent.says("e0: leading")
    child, libc = agent.child("e0"), ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, child, None, None) != 0:  # PTRACE_ATTACH
        pytest.skip("tracing is not allowed here")
    os.waitpid(child, 0)
    for said in ("asked to stop", "asked again", "asked once more"):
        def ask():
            agent.signal(signal.SIGTERM)  # within one second that is one request
            return said in agent.words()

        eventually(said, ask)
    eventually("its end", lambda: os.waitpid(child, os.WNOHANG)[0] == child)
    assert agent.wait() == 0
    eventually("the release", lambda: place.leader("e0").get("state") == "free")


STUBBORN = """
trap 'echo stopping >>{dir}/said; until [ -e {dir}/go ]; do sleep 0.1; done; exit' TERM
echo on >>{dir}/said
while :; do sleep 0.1; done
"""


def stubborn(place):
    """What its program has said, and the files without and with its election, `late`."""
    program = place.dir / "stubborn"
    program.write_text(STUBBORN.format(dir=place.dir))
    without = f"""
coordinate: {{type: sqlite, path: {place.dir}/lease.db, ttl: 60s}}
elections:
  - name: kept
    run: {{command: sleep 600}}
"""
    return place.dir / "said", without, without + f"""
  - name: late
    run: {{command: [sh, {program}], grace: 30s}}
"""


def test_an_election_that_is_back_before_it_has_stopped(place):
    """It is stopped once, with its whole grace, and then started again."""
    said, without, within = stubborn(place)
    agent = place.start("a", within)
    eventually("the program", said.exists)
    for number, text in enumerate([without, without, within, without, within], 1):
        agent.write(text)
        agent.signal(signal.SIGHUP)
        eventually("a reload", lambda: agent.words().count("reloaded ") == number)
    eventually("its stop", lambda: said.read_text() == "on\nstopping\n")
    assert "asked again" not in agent.words()
    (place.dir / "go").touch()
    eventually("its return", lambda: said.read_text() == "on\nstopping\non\n")
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


def test_an_agent_that_ends_while_an_election_stops(place):
    """The one that is stopping has been asked already: its grace is not cut short."""
    said, without, within = stubborn(place)
    agent = place.start("a", within)
    eventually("the program", said.exists)
    agent.says("kept: leading")  # else it has nothing to release
    agent.write(without)
    agent.signal(signal.SIGHUP)
    eventually("its stop", lambda: said.read_text() == "on\nstopping\n")
    child = agent.child("late")
    agent.signal(signal.SIGTERM)
    eventually("the other's release", lambda: place.leader("kept").get("state") == "free")
    assert alive(child) and "asked again" not in agent.words()
    (place.dir / "go").touch()
    assert agent.wait() == 0
    assert "asked again" not in agent.words()


def test_a_reload_to_a_much_lower_ttl(place):
    """The guard gives less notice before the deadline is lowered, not after (I12)."""
    names = [f"e{i}" for i in range(8)]
    text = f"""
coordinate: {{type: file, path: {place.dir}/lease, ttl: 60s}}
elections:
""" + "".join(f"  - name: {n}\n    run:\n      command: sleep 1000\n" for n in names)
    agent = place.start("a", text)
    for n in names:
        agent.says(f"{n}: leading")
    agent.write(text.replace("60s", "10s"))
    agent.signal(signal.SIGHUP)
    for n in names:
        agent.says(f"{n}: changed: ttl")

    def renewed(name):
        done = subprocess.run([TENURE, "status", "--json", "--name", name, "--store",
                               f"file:{place.dir}/lease"], capture_output=True, text=True)
        return '"ttl_ms":10000' in done.stdout.replace(" ", "")

    for n in names:
        eventually("a renewal with the lower ttl", lambda: renewed(n))
    assert "the deadline has come" not in agent.words()


ASK = """
coordinate: {{type: sqlite, path: {dir}/lease.db, ttl: 10s, holder_id: {id}}}
name: ask
run:
  answer_for: 700ms
  on_started: "cut -d' ' -f1 /proc/uptime >>{dir}/{id}.started"
"""


def began(place, name):
    """When its last term began, on CLOCK_BOOTTIME."""
    path = place.dir / f"{name}.started"
    lines = path.read_text().split() if path.exists() else []
    return [int(float(line) * NS) for line in lines]


# What a hook left behind is killed, and is not taken for a program that was.
LEFT = ASK.replace('.started"', '.started; sleep 600 &"\n  on_stopped: "true"')


@pytest.mark.parametrize("how, text", [(signal.SIGTERM, ASK), (signal.SIGKILL, ASK), (signal.SIGTERM, LEFT)],
                         ids=["asked", "killed", "left"])
def test_without_a_program_the_release_waits_for_answers_to_run_out(place, how, text):
    """A client that read "leading" may act for answer_for: nobody else leads before (I8)."""
    first = place.start("a", text.format(dir=place.dir, id="a"))
    first.says("leading, epoch")
    first.says("no program of its own")
    second = place.start("b", text.format(dir=place.dir, id="b"))
    second.says("ask: a leads")
    eventually("its first hook", lambda: began(place, "a"))
    stopped = now()
    os.kill(first.child("ask") if how == signal.SIGKILL else first.proc.pid, how)
    # Killed, its process is started again, and may be the next itself.
    moment = min(eventually("the next term", lambda: began(place, "b") + began(place, "a")[1:]))
    # /proc/uptime has hundredths of a second, cut off.
    assert moment >= stopped + 700_000_000 - 10_000_000
    if how == signal.SIGTERM:
        assert first.wait() == 0


STORES = {"file_lease": "file:{}", "sqlite": "sqlite:{}/lease.db"}


def in_share(share, kind, table, options=""):
    path = share if kind == "file_lease" else share / "lease.db"
    return f"""
coordinate: {{type: {kind}, path: {path}, ttl: 10s{options}}}
elections:
  - name: web
    run: {{command: [{WITNESS}, {table.path}]}}
"""


@pytest.mark.parametrize("kind", STORES)
def test_a_share_that_is_not_mounted_yet(place, kind):
    """With create=no a candidate makes nothing there, and waits for it."""
    share, table = place.dir / "share", Table(place.dir / "web")
    share.mkdir()
    agent = place.start("a", in_share(share, kind, table, ", options: {create: no}"))
    agent.says("is it mounted?" if kind == "file_lease" else "is its disk mounted?")
    assert list(share.iterdir()) == []
    subprocess.run([TENURE, "pause", "--name", "other", "--store", STORES[kind].format(share)],
                   check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    eventually("a leader", table.top)


@pytest.mark.parametrize("kind", STORES)
def test_a_share_that_goes_away_before_an_election_is_started_again(place, kind):
    """The new process makes no store under the mount point: the one before it has used the real one."""
    share, away, table = place.dir / "share", place.dir / "away", Table(place.dir / "web")
    share.mkdir()
    agent = place.start("a", in_share(share, kind, table))
    eventually("a leader", table.top)
    web = agent.child("web")
    os.kill(web, signal.SIGSTOP)
    share.rename(away)
    share.mkdir()
    os.kill(web, signal.SIGKILL)
    agent.says("is gone (no .tenure in it)" if kind == "file_lease" else "was removed while in use")
    assert list(share.iterdir()) == []
    before = table.top()
    share.rmdir()
    away.rename(share)
    eventually("a leader again", lambda: table.top() > before)


def test_secrets_stay_where_they_are(place):
    token = place.dir / "token"
    put_secret(token, CANARY + "\n")
    agent = place.start("a", f"""
name: web
coordinate: {{type: sqlite, path: "{place.dir}/lease.db", ttl: 2s}}
run:
  command: [sh, -c, 'env >{place.dir}/env.new; mv {place.dir}/env.new {place.dir}/env; exec sleep 600']
  env: {{API_KEY: "file:{token}", MODE: prod}}
http: {{listen: "unix:{place.dir}/api", token: "file:{token}"}}
""")
    env = place.dir / "env"
    eventually("the program", env.exists)
    # What the file gives the program, it has; nothing of it stands where others can read it.
    assert f"API_KEY={CANARY}" in env.read_text().splitlines()
    assert "MODE=prod" in env.read_text().splitlines()
    assert not [line for line in env.read_text().splitlines() if "lease.db" in line]
    for pid in (agent.proc.pid, agent.child("web")):
        for name in ("cmdline", "environ"):
            assert CANARY.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    assert CANARY not in agent.words()
    done = subprocess.run([TENURE, "config", "check", agent.config], capture_output=True, text=True)
    assert done.returncode == 0 and CANARY not in done.stdout + done.stderr


def get(path, question):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(path))
        s.sendall(f"GET {question} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                  .encode())
        answer = b""
        while part := s.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.skipif(not (BUILD / "tenure-http.so").exists(), reason="without libmicrohttpd")
def test_those_who_ask(place):
    """Told for how long; and nobody is told any more once leadership is given up."""
    text = ASK + "http: {{listen: 'unix:{dir}/{id}'}}\n"
    first = place.start("a", text.format(dir=place.dir, id="a"))
    first.says("leading, epoch")
    second = place.start("b", text.format(dir=place.dir, id="b"))
    second.says("ask: a leads")
    status, body = get(place.dir / "a", "/v1/leadership")
    answer = json.loads(body)
    assert status == 200 and answer["leading"] and 0 < answer["left_ms"] <= 700
    assert get(place.dir / "a", "/leader")[0] == 200
    assert get(place.dir / "b", "/leader")[0] == 503
    assert not json.loads(get(place.dir / "b", "/v1/leadership")[1])["leading"]
    done = subprocess.run([TENURE, "step-down", "--name", "ask", "--store",
                           f"sqlite:{place.dir}/lease.db", "--timeout", "30s"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done
    eventually("the other one", lambda: get(place.dir / "b", "/leader")[0] == 200)
    assert get(place.dir / "a", "/leader")[0] == 503


def test_what_is_missing_for_a_moment(place):
    """A program and a share: an agent that restarts its programs waits for both."""
    share, program = place.dir / "share", place.dir / "program"
    agent = place.start("a", f"coordinate: {{type: file, path: {share}/store, ttl: 15s}}\n"
                        f"name: x\nrun: {{command: [{program}]}}\n")
    agent.says("mount it, or make it first")
    share.mkdir(mode=0o700)
    agent.says("No such file or directory")
    new = place.dir / "new"
    new.write_text("#!/bin/sh\nexec sleep 600\n")
    new.chmod(0o755)
    new.rename(program)
    agent.says("leading, epoch")
    assert agent.proc.poll() is None


def test_how_it_ends(place):
    base = f"coordinate: {{type: sqlite, path: {place.dir}/lease.db, ttl: 2s}}\n"
    agent = place.start("a", base + "elections:\n"
                        "  - {name: x, run: {command: [sh, -c, 'exit 3'], on_exit: exit}}\n"
                        "  - {name: y, run: {command: [sh, -c, 'exit 5'], on_exit: exit}}\n")
    assert agent.wait() == 5
    assert "x has ended with code 3" in agent.words()
    agent = place.start("b", base + "name: x\nrun: {command: [/no/such/program], on_exit: exit}\n")
    assert agent.wait() == 127
    agent = place.start("c", "nonsense: 1\n")
    assert agent.wait() == 2
    assert "c.yaml:1: 'nonsense' is not a key here" in agent.words()
    done = subprocess.run([TENURE, "agent", "--config", place.dir / "none.yaml"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "No such file" in done.stderr
