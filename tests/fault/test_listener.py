"""One listener of an agent for several elections, each in a process of its own."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from agent import BUILD, TENURE, TOKEN, Agent, put_secret
from process import until
from test_api import ROOT, check, OPENAPI, try_every_path
from world import children

pytestmark = pytest.mark.skipif(not (BUILD / "tenure-http.so").exists(),
                                reason="without libmicrohttpd")
SHARED = ("web", "team/jobs")


class Fleet(Agent):
    """`tenure agent` with two elections, and ways to ask it."""

    def __init__(self, folder, ident, *, http="", extra="", ttl="15s", program="sleep 600",
                 names=SHARED, kind="sqlite"):
        self.folder, self.n = pathlib.Path(folder), len(names)
        put_secret(self.folder / "token", TOKEN + "\n")
        self.config = self.folder / f"{ident}.yaml"
        self.text = f"""
coordinate: {{type: {kind}, path: "{folder}/db", ttl: {ttl}, holder_id: {ident}}}
run: {{command: {program}, grace: 1s}}
state: {{store: same}}
log: {{format: json}}
http: {{listen: "127.0.0.1:0", token: "file:{folder}/token"{http}}}
elections: [{', '.join(f'{{name: {n}{extra}}}' for n in names)}]
"""
        self.config.write_text(self.text)
        self.log = open(self.folder / f"{ident}-{time.monotonic_ns()}.log", "w+b")
        self.process = subprocess.Popen([TENURE, "agent", "--config", self.config],
                                        stdin=subprocess.DEVNULL, stderr=self.log)
        self.port = int(until(self._port))

    def child(self, name):
        def find():
            for pid in children(self.process.pid):
                try:
                    args = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if name.encode() in args:
                    return pid
            return None
        return until(find)

    def of(self, name):
        return self.ask(f"/v1/elections/{name}").json()

    def leads(self):
        until(lambda: self.ask("/readyz").status == 200)
        return self

    def waits(self):
        """All of them: for a moment the listener has none."""
        until(lambda: [e["role"] == "standby" and bool(e["leader"]) for e in
                       self.ask("/_ha/status").json()["elections"]] == [True] * self.n)
        return self


@pytest.fixture
def fleets(tmp_path):
    """The first leads both, the second waits."""
    with Fleet(tmp_path, "a") as first:
        first.leads()
        with Fleet(tmp_path, "b") as second:
            yield first, second.waits()


def codes(agent, *paths):
    return [agent.ask(path).status for path in paths]


def test_every_path_is_served_as_described(fleets):
    assert try_every_path(fleets, "?name=web") > 60
    status = fleets[0].ask("/_ha/status").json()
    check(status, OPENAPI["components"]["schemas"]["Status"], "status")
    assert [e["name"] for e in status["elections"]] == list(SHARED)
    assert fleets[0].ask("/openapi.yaml").text == (ROOT / "docs/reference/openapi.yaml").read_text()


def test_each_and_all(fleets):
    """One is handed over: what is asked of that one, of the other, and of all."""
    first, second = fleets
    assert codes(first, "/livez", "/healthz", "/leader", "/readyz", "/standby") == \
        [200, 200, 200, 200, 503]
    assert codes(second, "/livez", "/healthz", "/leader", "/readyz", "/standby") == \
        [200, 200, 503, 503, 200]
    assert first.ask("/v1/leadership").status == 404
    assert first.order("/v1/handover", {}).status == 404

    done = first.hand_over("/v1/elections/team/jobs/handover", "b")
    assert done.status == 200 and done.json()["to"] == "b", done.text
    for name in ("?name=team/jobs", ):
        until(lambda: second.ask("/readyz" + name).status == 200)
        assert codes(first, "/leader" + name, "/standby" + name) == [503, 200]
        assert codes(second, "/leader" + name, "/standby" + name) == [200, 503]
    assert codes(first, "/v1/elections/web/leader", "/v1/elections/web/readyz") == [200, 200]
    assert codes(second, "/v1/elections/web/leader", "/v1/elections/none/leader") == [503, 404]
    # Nobody leads both now, so nobody says that it does.
    for agent in fleets:
        assert codes(agent, "/leader", "/readyz", "/standby") == [503, 503, 503]
    epoch = first.of("team/jobs")["leader"]["epoch"]
    assert first.ask("/leader").text == \
        f"team/jobs: not the leader: b leads, epoch {epoch}\n"
    assert first.ask("/standby").text == "web: not a standby\n"
    assert "team/jobs: b leads, epoch" in until(
        lambda: "b leads" in first.ask("/readyz").text and first.ask("/readyz").text)
    listed = first.ask("/v1/elections").json()["elections"]
    assert [(e["name"], e["leading"], e["leader"]) for e in listed] == \
        [("web", True, "a"), ("team/jobs", False, "b")]
    terms = until(lambda: (h := first.ask("/v1/history?name=team/jobs").json()["history"])
                  and len(h) == 2 and h)
    assert [t["holder"] for t in terms] == ["a", "b"]
    until(lambda: {c["id"] for c in second.ask("/v1/elections/web/candidates").json()["candidates"]}
          == {"a", "b"})


def test_the_state_through_the_agent(fleets):
    first, second = fleets
    path = "/v1/elections/team/jobs/state/orders/2026%2F%C3%A4%20b"
    data = os.urandom(200_000)
    assert first.ask(path, "PUT", data).status == 401
    assert first.ask(path, "PUT", data, TOKEN).status == 200
    back = first.ask(path, token=TOKEN)
    assert back.body == data and back.headers["Tenure-Seq"] == "1"
    assert back.headers["Content-Type"] == "application/octet-stream"
    assert first.ask("/v1/state/orders/none?name=team/jobs", token=TOKEN).status == 404
    epoch = str(first.of("team/jobs")["epoch"] + 1)
    answer = first.ask(path, "PUT", b"x", TOKEN, Tenure_Epoch=epoch)
    assert (answer.status, answer.json()["error"]) == (409, "fenced")
    assert second.ask(path, "PUT", b"x", TOKEN).status == 409
    assert first.ask(path, "PUT", b"x" * (2 << 20), TOKEN).status == 413
    # What cannot be passed on is refused, and takes nobody's place: 16 may be under way.
    for value in ("\xe9", "1" * 65) * 10:
        answer = first.ask(path, "PUT", b"x", TOKEN, Tenure_Epoch=value)
        assert (answer.status, answer.json()["error"]) == (400, "invalid")
    assert first.ask(path, token=TOKEN).body == data


def test_streams_and_long_polls(fleets):
    """One stream tells of both elections; a poll of one does not end by a change of the other."""
    first, second = fleets
    tags = {name: second.ask(f"/v1/leadership?name={name}").headers["ETag"] for name in SHARED}
    found = {}

    def poll():
        found["poll"] = second.ask(f"/v1/leadership?name=web&wait=60&since={tags['web']}")

    def stream():
        connection = second.connect()
        connection.request("GET", "/v1/leadership?stream=1")
        response = connection.getresponse()
        while True:
            line = response.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                told = {e["name"]: e for e in json.loads(line[6:])["elections"]}
                found.setdefault("first", told)
                if all(told[name]["leading"] for name in SHARED):
                    break
        found["last"] = told
        connection.close()

    threads = [threading.Thread(target=poll), threading.Thread(target=stream)]
    for thread in threads:
        thread.start()
    until(lambda: "tenure_http_streams 1\n" in second.ask("/metrics").text)
    for name in SHARED:
        assert first.hand_over(f"/v1/handover?name={name}", "b").status == 200
    for thread in threads:
        thread.join(60)
    assert found["poll"].json()["name"] == "web" and found["poll"].headers["ETag"] != tags["web"]
    assert not any(found["first"][name]["leading"] for name in SHARED)
    assert all(found["last"][name]["epoch"] for name in SHARED)


def test_a_process_that_dies_leads_nothing(fleets):
    first, second = fleets
    before = first.of("web")["epoch"]
    os.kill(first.child("web"), signal.SIGKILL)
    # It is started again, and may even be the next to lead: in another term.
    until(lambda: (e := first.of("web"))["epoch"] != before and
          (e["leading"] or e["left_ms"] == 0))
    assert codes(first, "/livez", "/leader?name=team/jobs") == [200, 200]
    until(lambda: sorted(agent.of("web")["role"] for agent in fleets) == ["leader", "standby"])
    after = max(agent.of("web")["epoch"] for agent in fleets)
    assert after > before
    until(lambda: codes(first, "/livez", "/healthz") == [200, 200])


def test_the_state_is_asked_for_while_a_process_starts(tmp_path):
    """It may be asked before it contends: for ThreadSanitizer, which a fleet's log would show."""
    with Fleet(tmp_path, "a", ttl="2s", kind="file", names=("web",)) as only:
        only.leads()
        done = threading.Event()
        seen = set()

        def load():
            while not done.is_set():
                seen.add(only.ask("/v1/state/jobs/x", "PUT", b"x", TOKEN).status)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            pid = only.child("web")
            os.kill(pid, signal.SIGKILL)
            until(lambda: only.child("web") != pid)
            only.leads()
        done.set()
        for thread in threads:
            thread.join()
        assert 200 in seen and seen <= {200, 409, 503}, seen


def test_a_process_that_hangs(tmp_path):
    """One that waits, because its guard ends one that leads.  Stopped inside a transaction it would
    take the other election's database along."""
    with contextlib.ExitStack() as both:
        both.enter_context(Fleet(tmp_path, "a", kind="file")).leads()
        only = both.enter_context(Fleet(tmp_path, "b", kind="file")).waits()
        stopped = only.child("web")
        os.kill(stopped, signal.SIGSTOP)
        try:
            found = {}
            asked = [threading.Thread(target=lambda key=key, path=path: found.update(
                {key: only.ask(path, token=TOKEN)}))
                for key, path in (("metrics", "/metrics"), ("health", "/healthz"))]
            for thread in asked:
                thread.start()
            # So many wait for it at most, and nobody else waits because of them.
            crowd = [socket.create_connection(("127.0.0.1", only.port), 60) for _ in range(20)]
            for connection in crowd:
                connection.sendall(b"POST /v1/resume?name=web HTTP/1.1\r\nHost: localhost\r\n"
                                   b"Content-Length: 0\r\nAuthorization: Bearer " +
                                   TOKEN.encode() + b"\r\n\r\n")
            assert codes(only, "/livez", "/standby?name=team/jobs") == [200, 200]
            assert only.order("/v1/pause?name=team/jobs", {}).status == 200
            told = until(lambda: (e := only.of("web"))["role"] == "silent" and e)
            assert not told["leading"] and told["left_ms"] == 0
            assert told["reason"] == "its process does not answer"
            for thread in asked:
                thread.join(60)
            assert found["health"].text == "web: its process does not answer\n"
            text = found["metrics"].text
            assert 'tenure_election_up{name="web"} 0\n' in text
            assert 'tenure_election_up{name="team/jobs"} 1\n' in text
            assert 'tenure_leader{name="web",id="b"} 0\n' in text
            said = [connection.recv(4096) for connection in crowd]
            busy = sum(b'"busy"' in text for text in said)
            assert 1 <= busy <= 4, said
            assert sum(b"may still be made" in text for text in said) == 20 - busy, said
            assert all(b" 503 " in text for text in said), said
        finally:
            os.kill(stopped, signal.SIGCONT)


def doors_of(pids):
    """Abstract sockets that anybody can connect to, whom one of these answers: the kernel tells."""
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        name = line.split()[-1]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as s:
            if not name.startswith("@") or s.connect_ex("\0" + name[1:]) != 0:
                continue
            pid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if pid in pids:
                yield name


def test_no_address_leads_to_an_election(tmp_path):
    """Or any user could fill its queue, and a program could give orders to another's election."""
    with Fleet(tmp_path, "a") as only:
        only.leads()
        assert not list(doors_of([only.process.pid, *children(only.process.pid)]))


def test_metrics_of_both(fleets):
    text = fleets[0].ask("/metrics").text
    assert text.count("# TYPE tenure_leader gauge\n") == 1
    for name in SHARED:
        assert f'tenure_leader{{name="{name}",id="a"}} 1\n' in text
    samples = [line.split(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    openmetrics = fleets[0].ask("/metrics", Accept="application/openmetrics-text")
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n") and openmetrics.text.count("# EOF") == 1


def test_guarded(tmp_path):
    with Fleet(tmp_path, "a", http=", reads: token, hosts: [tenure.test]") as only:
        only.leads()
        assert codes(only, "/livez", "/leader?name=web", "/v1/elections/web/standby", "/") == \
            [200, 200, 503, 200]
        for path in ("/_ha/status", "/metrics", "/v1/elections", "/v1/elections/web",
                     "/v1/elections/web/history", "/v1/elections/none/history"):
            assert only.ask(path).status == (404 if "none" in path else 401), path
        assert only.ask("/v1/elections", token=TOKEN).status == 200
        assert only.ask("/livez", Host="tenure.test").status == 200
        assert only.ask("/livez", Host="evil.example").status == 421


def test_tls(tmp_path):
    def make(name, *more):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", tmp_path / f"{name}.key",
                        "-out", tmp_path / f"{name}.pem", "-subj", f"/CN={name}", "-days", "2",
                        *more], check=True, capture_output=True)

    def code(agent, path, *options):
        return subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert",
                               tmp_path / "server.pem", *options,
                               f"https://127.0.0.1:{agent.port}{path}"], capture_output=True,
                              text=True).stdout

    make("server", "-addext", "subjectAltName=IP:127.0.0.1")
    make("client")
    with Fleet(tmp_path, "a", http=f", tls_cert: {tmp_path}/server.pem, tls_key: "
               f"{tmp_path}/server.key, tls_client_ca: {tmp_path}/client.pem") as only:
        mine = ["--cert", tmp_path / "client.pem", "--key", tmp_path / "client.key"]
        until(lambda: code(only, "/v1/elections/web/leader", *mine) == "200")
        assert code(only, "/metrics", *mine) == "200"
        assert code(only, "/v1/elections/web/leader") in ("403", "000")


def test_reload(fleets):
    """An election more, an election less; all of the listener stays as it is, and the log says so."""
    first = fleets[0]
    first.config.write_text(first.text.replace("{name: team/jobs}", "{name: nightly}")
                            .replace("127.0.0.1:0", "127.0.0.1:1"))
    first.process.send_signal(signal.SIGHUP)
    until(lambda: [e["name"] for e in first.ask("/v1/elections").json()["elections"]] ==
          ["web", "nightly"])
    until(lambda: first.ask("/readyz?name=nightly").status == 200)
    assert codes(first, "/leader?name=web", "/leader?name=team/jobs") == [200, 404]
    assert [*told(first)] == ["http.listen"]

    token = f'token: "file:{first.folder}/token"'
    more = f'token: "file:{first.folder}/other", reads: token, hosts: [ha.example], tls_client_ca: /ca'
    for text in (first.text.replace(token, more), first.text.replace("http: {", "# {"), first.text):
        before = first.words().count("reloaded ")
        first.config.write_text(text)
        first.process.send_signal(signal.SIGHUP)
        until(lambda: first.words().count("reloaded ") > before)
    assert [*told(first)] == ["http.listen", "http.token, http.reads, http.hosts, http.tls_client_ca",
                              "http.listen, http.token"]
    assert codes(first, "/v1/elections") == [200]  # without a token, as at the start


def told(agent):
    """What needs a restart, as its log says."""
    begin = "needs a restart of the agent: "
    return (e["text"].removeprefix(begin) for e in agent.events() if e["text"].startswith(begin))


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = tmp_path / "c.yaml"
        config.write_text(f"name: x\ncoordinate: {{type: noop}}\nhttp: {{listen: '127.0.0.1:{taken.getsockname()[1]}'}}\n")
        done = subprocess.run([TENURE, "agent", "--config", config], capture_output=True, text=True,
                              timeout=60)
        run = subprocess.run([TENURE, "run", "--store", f"sqlite:{tmp_path}/made.db", "--name", "x", "--listen",
                              f"127.0.0.1:{taken.getsockname()[1]}", "--", "true"], capture_output=True,
                             text=True, timeout=60)
    for ended in done, run:
        assert ended.returncode == 1 and "cannot listen on 127.0.0.1" in ended.stderr
    assert not (tmp_path / "made.db").exists()


def test_flooded(tmp_path):
    """All that can be asked, at full rate and by slow ones, costs no lease of either."""
    with Fleet(tmp_path, "a") as only:
        only.leads()
        before = {e["name"]: e["epoch"] for e in only.ask("/v1/elections").json()["elections"]}
        slow = [socket.create_connection(("127.0.0.1", only.port)) for _ in range(60)]
        end = time.monotonic() + 3

        def flood(path):
            while time.monotonic() < end:
                only.ask(path)

        paths = ["/leader", "/_ha/status", "/metrics", "/v1/elections/web/leadership", "/healthz",
                 "/readyz?name=web"]
        threads = [threading.Thread(target=flood, args=(path,)) for path in paths]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for connection in slow:
            connection.close()
        status = only.ask("/_ha/status").json()["elections"]
        assert {e["name"]: e["epoch"] for e in status} == before
        assert not any("lost" == event["event"] for event in only.events())
