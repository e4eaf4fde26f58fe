"""What an agent answers over HTTP, to whom, and what a stranger cannot do to it."""

import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import yaml
from agent import TENURE, TOKEN, Agent, put_secret
from process import free_port, until
from prometheus_client.openmetrics import parser
from unix_http import ask as ask_unix

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENAPI = yaml.safe_load((ROOT / "docs/reference/openapi.yaml").read_text())


@pytest.fixture
def store(tmp_path):
    return f"sqlite:{tmp_path}/db"


@pytest.fixture
def pair(tmp_path, store):
    """A leader and a standby."""
    with Agent(tmp_path, store, "a", "--state", "store") as first:
        first.leads()
        with Agent(tmp_path, store, "b") as second:
            yield first, second.waits()


# ---- The description and the implementation ---------------------------------

def resolve(schema):
    while "$ref" in schema:
        node = OPENAPI
        for part in schema["$ref"].removeprefix("#/").split("/"):
            node = node[part.replace("~1", "/").replace("~0", "~")]
        schema = node
    return schema


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "number": (int, float)}


def check(value, schema, where):
    schema = resolve(schema)
    if value is None:
        assert schema.get("nullable"), f"{where} is null"
        return
    kind = schema.get("type")
    if kind:
        assert isinstance(value, TYPES[kind]), f"{where} is no {kind}: {value!r}"
        assert kind == "boolean" or not isinstance(value, bool), f"{where} is a boolean"
    if "enum" in schema:
        assert value in schema["enum"], where
    if kind == "object":
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            assert name in value, f"{where} lacks {name}"
        for name, member in value.items():
            if name in properties:
                check(member, properties[name], f"{where}.{name}")
            elif properties:
                assert name in ("version", "exact", "as_asked", "detail"), \
                    f"{where}.{name} is not described"
    if kind == "array":
        for number, member in enumerate(value):
            check(member, schema["items"], f"{where}[{number}]")


def check_answer(answer, operation, where):
    responses = {code: resolve(found) for code, found in operation["responses"].items()}
    assert str(answer.status) in responses, f"{where}: {answer.status} is not described"
    content = responses[str(answer.status)].get("content", {})
    sent = (answer.headers["Content-Type"] or "").split(";")[0]
    if content:
        assert sent in content, f"{where}: {sent} is not described"
    if sent == "application/json":
        check(answer.json(), content[sent]["schema"], where)


BODIES = {("step-down", "post"): {"for_ms": 100}, ("pause", "post"): {"reason": "a test"},
          ("state", "post"): {"commits": [{"collection": "jobs", "id": "two", "data": "x"}]}}


def try_every_path(pair, query=""):
    """Each path and method on both; the answer must be one that is described."""
    first = pair[0]
    assert first.ask("/v1/state/jobs/one" + query, "PUT", b"x", TOKEN).status == 200
    seen = 0
    for path, operations in OPENAPI["paths"].items():
        for method, operation in operations.items():
            if method not in ("get", "put", "post", "delete") or "x-answered-by" in operations:
                continue
            known = [resolve(p)["name"] for p in
                     operation.get("parameters", []) + operations.get("parameters", [])]
            target = (path.replace("{collection}", "jobs").replace("{id}", "one")
                      .replace("{name}", "web") + (query if "name" in known else ""))
            for agent in pair:
                body = BODIES.get((path.rsplit("/", 1)[1], method))
                answer = agent.ask(target, method.upper(),
                                   json.dumps(body) if body else b"x" if method == "put" else None,
                                   TOKEN)
                where = f"{method} {path} on the {'first' if agent is first else 'second'}"
                # A standby has no document, and an order may be impossible just now.
                assert answer.status != 405, where
                check_answer(answer, operation, where)
                seen += 1
            if operation.get("security") or "/state/" in path:
                answer = first.ask(target, method.upper(), b"{}" if method != "get" else None)
                assert answer.status == 401, f"{method} {path} without a token"
    return seen


def test_every_path_is_served_as_described(pair):
    first, second = pair
    assert try_every_path(pair) > 60
    assert first.ask("/openapi.yaml").text == (ROOT / "docs/reference/openapi.yaml").read_text()
    assert first.ask("/livez", "POST", "").status == 405
    assert first.ask("/nowhere").status == 404


# ---- Roles ------------------------------------------------------------------

def test_the_right_answer_for_each_question(pair):
    first, second = pair
    expected = {"/livez": (200, 200), "/healthz": (200, 200), "/readyz": (200, 503),
                "/leader": (200, 503), "/standby": (503, 200)}
    for path, codes in expected.items():
        assert (first.ask(path).status, second.ask(path).status) == codes, path
    assert "a leads, epoch" in second.ask("/readyz").text
    assert first.ask("/leader?name=other").status == 404
    status = first.status()
    assert (status["role"], status["leading"], status["leader"]["id"]) == ("leader", True, "a")
    assert status["epoch"] == second.status()["leader"]["epoch"]
    until(lambda: [c["id"] for c in second.status()["candidates"]] == ["a", "b"])


def test_a_handover_is_seen_everywhere(pair):
    """Long poll, event stream, history and metrics tell of one and the same change."""
    first, second = pair
    before = second.ask("/v1/leadership")
    tag = before.headers["ETag"]
    found = {}

    def poll():
        found["poll"] = second.ask(f"/v1/leadership?wait=60&since={tag}")

    def stream():
        connection = second.connect()
        connection.request("GET", "/v1/leadership", headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        found["type"] = response.headers["Content-Type"]
        events = []
        while not (events and events[-1]["elections"][0]["leading"]):
            line = response.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                events.append(json.loads(line[6:]))
        found["events"] = events
        connection.close()

    threads = [threading.Thread(target=poll), threading.Thread(target=stream)]
    for thread in threads:
        thread.start()
    until(lambda: "tenure_http_streams 1\n" in second.ask("/metrics").text)
    answer = first.hand_over("/v1/handover", "b")
    assert answer.status == 200, answer.text
    assert (answer.json()["from"], answer.json()["to"]) == ("a", "b")
    for thread in threads:
        thread.join(60)
    assert found["poll"].status == 200 and found["poll"].headers["ETag"] != tag
    assert found["type"] == "text/event-stream"
    assert not found["events"][0]["elections"][0]["leading"]
    assert found["events"][-1]["elections"][0]["epoch"] == answer.json()["epoch"]

    terms = until(lambda: (h := first.ask("/v1/history").json()["history"]) and len(h) == 2
                  and h[0]["to_ms"] and h)
    assert [(t["holder"], t["cause"]) for t in terms] == [("a", "first"), ("b", "handover")]
    assert terms[0]["end"] == "handed over to b" and not terms[0]["estimated"]
    assert terms[1]["gap_ms"] is not None and terms[1]["to_ms"] is None
    assert 'tenure_takeovers_total{name="web",id="b",cause="handover"} 1' in \
        second.ask("/metrics").text
    assert "order" in [e["event"] for e in first.events()]


def test_a_poll_in_vain(pair):
    def in_vain():  # a candidate that has just come is a change
        tag = pair[1].ask("/v1/leadership").headers["ETag"]
        return pair[1].ask(f"/v1/leadership?wait=0.3&since={tag}").status == 304 and tag

    # Everybody is known: nothing more will change.
    until(lambda: [c["state"] for c in pair[1].status()["candidates"]] == ["leading", "standby"])
    tag = until(in_vain)
    # Who has less patience is answered sooner, though nothing happens.
    patient = pair[1].connect()
    patient.request("GET", f"/v1/leadership?wait=50&since={tag}")
    until(in_vain)
    assert not select.select([patient.sock], [], [], 0)[0]
    patient.close()
    assert pair[1].ask("/v1/leadership?wait=60&since=somethingelse").status == 200
    assert pair[1].ask(f"/v1/leadership?wait=nan&since={tag}").status == 200


def test_a_crash_in_the_history(tmp_path, store):
    """Who is killed writes nothing: its successor estimates its end."""
    with Agent(tmp_path, store, "a") as first:
        first.leads()
        until(lambda: first.ask("/v1/history").json()["history"])
        first.end(signal.SIGKILL)
    with Agent(tmp_path, store, "b") as second:
        second.leads()
        terms = until(lambda: (h := second.ask("/v1/history").json()["history"]) and len(h) == 2
                      and h)
    assert terms[0]["estimated"] and terms[0]["to_ms"] >= terms[0]["from_ms"]
    assert (terms[0]["end"], terms[1]["cause"]) in (("crashed", "crashed"),
                                                    ("not renewed in time", "expired"))
    assert terms[1]["gap_ms"] > 0
    listed = subprocess.run([TENURE, "history", "--name", "web", "--store", store, "--json"],
                            capture_output=True, check=True, text=True)
    terms = json.loads(listed.stdout)["history"]
    assert [t["holder"] for t in terms] == ["a", "b"]
    assert terms[1]["end"] == "asked to stop"  # written on the way out
    assert "began by" in subprocess.run([TENURE, "history", "--name", "web", "--store", store],
                                        capture_output=True, check=True, text=True).stdout


def test_watch_on_a_terminal(pair, store):
    """The same facts as on the page, drawn as a table; without colours if so wished."""
    first, _ = pair
    until(lambda: len(first.ask("/v1/history").json()["history"]) == 1)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", NO_COLOR="1")
        os.execv(TENURE, [str(TENURE), "watch", "--name", "web", "--store", store])
    try:
        seen, end = b"", time.monotonic() + 60
        while b"handover" not in seen:
            assert time.monotonic() < end, seen
            seen += os.read(terminal, 65536)
            if b"ended by" in seen and b"asked over" not in first.words().encode():
                assert first.hand_over("/v1/handover", "b").status == 200
        assert b"led by a, epoch" in seen and b"led by b, epoch" in seen
        assert b"standby" in seen and b"healthy" in seen
        assert b"\x1b[32m" not in seen
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_pause_and_resume(pair):
    first, second = pair
    assert first.order("/v1/pause", {"by": "ops", "reason": "moving"}).status == 200
    until(lambda: second.status()["role"] == "paused")
    assert second.status()["paused"] == {"by": "ops", "at": second.status()["paused"]["at"],
                                         "reason": "moving"}
    assert first.order("/v1/pause", method="DELETE").status == 200
    until(lambda: second.status()["role"] == "standby")


# ---- Who may ----------------------------------------------------------------

def test_tokens(pair, tmp_path):
    first, _ = pair
    for wrong in (None, "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "", " " + TOKEN, "x" * 4000):
        assert first.ask("/v1/pause", "POST", "{}", wrong).status == 401, wrong
    assert first.ask("/v1/pause", "POST", "{}", Authorization="Basic " + TOKEN).status == 401
    assert first.ask("/v1/state/jobs/one", "PUT", "x").status == 401
    assert not first.status()["paused"]
    put_secret(tmp_path / "token", "another-token-that-is-long\n")
    until(lambda: first.ask("/v1/resume", "POST", "{}", "another-token-that-is-long").status == 200)
    assert first.ask("/v1/resume", "POST", "{}", TOKEN).status == 401


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o666], ids=oct)
def test_a_token_that_others_may_read_or_change_is_refused(tmp_path, store, mode):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(mode)
    done = subprocess.run([TENURE, "run", "--name", "web", "--store", store, "--listen", "127.0.0.1:0",
                           "--token-file", file, "--", "true"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "chmod" in done.stderr and TOKEN not in done.stderr, done


def test_a_new_token_that_others_may_read_is_not_taken(tmp_path, store):
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        put_secret(tmp_path / "token", "another-token-that-is-long\n", 0o644)
        until(lambda: agent.ask("/v1/resume", "POST", "{}", "another-token-that-is-long").status == 401
              and "token" in [e["event"] for e in agent.events()])
        assert agent.order("/v1/resume").status == 200
        put_secret(tmp_path / "token", "another-token-that-is-long\n", 0o640)
        until(lambda: agent.ask("/v1/resume", "POST", "{}", "another-token-that-is-long").status == 200)


def test_without_a_token_nothing_is_changed(tmp_path, store):
    with Agent(tmp_path, store, "a", token=False, listen="0.0.0.0:0") as agent:
        assert agent.leads().order("/v1/pause").status == 403
        assert "exposed" in [e["event"] for e in agent.events()]


def test_guarded_reads(tmp_path, store):
    with Agent(tmp_path, store, "a", "--listen-reads", "token") as agent:
        agent.leads()
        for path in ("/_ha/status", "/metrics", "/v1/leadership", "/v1/history", "/v1/candidates"):
            assert agent.ask(path).status == 401, path
            assert agent.ask(path, token=TOKEN).status == 200, path
        for path in ("/livez", "/leader", "/", "/openapi.yaml"):
            assert agent.ask(path).status == 200, path


def test_unix_socket(tmp_path, store):
    path = tmp_path / "sock"
    with Agent(tmp_path, store, "a", "--listen", f"unix:{path}", token=False) as agent:
        agent.leads()
        assert ask_unix(path, "POST", "/v1/pause", "{}").status == 200
        assert ask_unix(path, "GET", "/leader").status == 200
        assert (path.stat().st_mode & 0o777) == 0o600
        if os.geteuid() == 0:  # somebody else, who was given the socket by mistake
            tmp_path.chmod(0o755)
            path.chmod(0o666)
            for parent in tmp_path.parents:
                if parent.stat().st_uid == 0 and not parent.stat().st_mode & 1:
                    parent.chmod(parent.stat().st_mode | 0o011)
            done = subprocess.run(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s",
                 "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", str(path), "-X", "POST",
                 "http://x/v1/resume"], capture_output=True, text=True)
            assert done.stdout == "403"


def test_a_socket_that_is_taken_by_who_does_not_answer(tmp_path, store):
    """Its owner is stopped, and others wait for it already: told, not waited for."""
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind(str(tmp_path / "s"))
        owner.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for s in waiting:
            s.setblocking(False)
            s.connect_ex(str(tmp_path / "s"))
        done = subprocess.run([TENURE, "run", "--name", "x", "--store", store, "--listen",
                               f"unix:{tmp_path}/s", "--", "true"], capture_output=True, timeout=60)
        assert done.returncode == 1 and b"Address already in use" in done.stderr, done
        for s in waiting:
            s.close()


def test_a_socket_of_somebody_else_is_left(tmp_path, store):
    """Its file was taken away and made anew by another: that one is not removed at the end."""
    path, runs = tmp_path / "s", []
    try:
        for _ in range(2):
            path.unlink(missing_ok=True)
            runs.append(subprocess.Popen([TENURE, "run", "--name", "x", "--store", store, "--listen",
                                          f"unix:{path}", "--log", "none", "--", "sleep", "600"]))
            until(path.exists)
        for run, left in zip(runs, (True, False)):
            run.terminate()
            run.wait(60)
            assert path.exists() == left
    finally:
        for run in runs:
            run.terminate()
            run.wait(60)


def test_hosts(tmp_path, store):
    with Agent(tmp_path, store, "a", "--listen-host", "web.example") as agent:
        good = ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:80", "10.1.2.3", "web.example",
                "Web.Example.:8080"]
        bad = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "a:b",
               "web.example.org", "0x7f.1x", "[web.example]x"]
        for host in good:
            assert agent.ask("/livez", Host=host).status == 200, host
        for host in bad:
            assert agent.ask("/_ha/status", Host=host).status == 421, host


def test_tls(tmp_path, store):
    def make(name, *more):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", tmp_path / f"{name}.key",
                        "-out", tmp_path / f"{name}.pem", "-subj", f"/CN={name}", "-days", "2",
                        *more], check=True, capture_output=True)
    make("server", "-addext", "subjectAltName=IP:127.0.0.1")
    make("client")
    make("stranger")

    def code(agent, *options):
        done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert",
                               tmp_path / "server.pem", *options,
                               f"https://127.0.0.1:{agent.port}/leader"], capture_output=True,
                              text=True)
        return done.stdout

    with Agent(tmp_path, store, "a", "--tls-cert", str(tmp_path / "server.pem"), "--tls-key",
               str(tmp_path / "server.key"), "--tls-client-ca", str(tmp_path / "client.pem"),
               ) as agent:
        mine = ["--cert", tmp_path / "client.pem", "--key", tmp_path / "client.key"]
        other = ["--cert", tmp_path / "stranger.pem", "--key", tmp_path / "stranger.key"]
        until(lambda: code(agent, *mine) == "200")
        assert code(agent) in ("403", "000")
        assert code(agent, *other) in ("403", "000")
        assert code(agent, *mine, "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0") == "000"


# ---- What must not be seen --------------------------------------------------

def test_secrets_stay_secret(pair, tmp_path):
    first, _ = pair
    secret = "canary-document-77aa"
    assert first.ask("/v1/state/jobs/one", "PUT", secret, TOKEN).status == 200
    first.ask("/v1/pause", "POST", "{}", "canary-wrong-token-12345")
    until(lambda: first.status()["state"]["commits"] == 1)
    seen = [first.ask(path).text for path in ("/_ha/status", "/metrics", "/v1/leadership", "/")]
    seen.append(first.words())
    pid = first.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children  # the guard; what it starts has its environment from tenure too
    for pid in children + [child for pid in children for child in
                           pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]:
        seen.append(pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace"))
    assert not [text for text in seen if "canary-" in text]
    done = subprocess.run(
        [TENURE, "run", "--name", "x", "--log", "json", "--start-timeout", "1s", "--", "true"],
        capture_output=True, text=True,
        env={**os.environ, "TENURE_STORE": f"redis://:canary-password@127.0.0.1:{free_port()}/0"})
    assert done.returncode != 0 and "canary-" not in done.stderr + done.stdout


# ---- Metrics ----------------------------------------------------------------

NAMES = ("tenure_leader tenure_epoch tenure_lease_left_seconds tenure_renewals_total "
         "tenure_store_failures_total tenure_renewal_duration_seconds_bucket "
         "tenure_takeovers_total tenure_fenced_commits_total tenure_guard_kills_total "
         "tenure_sealing tenure_unsealed_terms_total "
         "tenure_probe_success tenure_paused tenure_candidates worker_role "
         "worker_heartbeat_age_seconds worker_failovers_total job_lease_renewals_total").split()


def test_no_core_of_its_own(tmp_path, store):
    """It would hold passwords and the token.  The program's is its own affair."""
    if not pathlib.Path("/proc/sys/kernel/core_pattern").read_text().startswith("core"):
        pytest.skip("cores are written elsewhere here")
    allow = ":disable_coredump=0"  # sanitizers forbid cores to the whole tree
    env = {**os.environ, **{name: os.environ.get(name, "") + allow
                            for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")}}
    put_secret(tmp_path / "token", "canary-token-of-a-core\n")
    program = tmp_path / "program"
    program.mkdir()
    run = subprocess.Popen(
        ["sh", "-c", 'ulimit -c unlimited || exit 77; exec "$@"', "sh", TENURE, "run", "--name", "x",
         "--store", store, "--listen", "127.0.0.1:0", "--token-file", "token", "--log", "none", "--on-exit",
         "restart", "--", "sh", "-c", f"cd {program}; [ -e was ] || {{ : >was; kill -SEGV $$; }}; "
         ": >on; sleep 600"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, env=env)
    until(lambda: run.poll() is not None or (program / "on").exists())
    if run.poll() == 77:
        pytest.skip("no cores can be had here")
    run.send_signal(signal.SIGABRT)
    assert run.wait(60) == -signal.SIGABRT
    assert list(program.glob("core*")) and not list(tmp_path.glob("core*"))


def test_metrics(tmp_path, store):
    with Agent(tmp_path, store, "a", "--candidate-probe", "exec:true", "--probe", "exec:true",
               "--probe-interval", "200ms") as agent:
        agent.leads()
        until(lambda: 'tenure_probe_success{name="web",id="a",probe="program"} 1' in
              agent.ask("/metrics").text)
        text = agent.ask("/metrics").text
        subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=True)
        for name in NAMES:
            assert f"\n{name}{{" in text, name
        assert 'tenure_leader{name="web",id="a"} 1' in text
        with Agent(tmp_path, store, "b") as other:
            assert 'tenure_leader{name="web",id="b"} 0' in other.waits().ask("/metrics").text


def test_openmetrics(tmp_path, store):
    with Agent(tmp_path, store, 'with "quotes\\') as agent:
        answer = agent.leads().ask("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        families = {f.name: f for f in parser.text_string_to_metric_families(answer.text)}
        sample = families["tenure_leader"].samples[0]
        assert sample.value == 1 and sample.labels["id"] == 'with "quotes\\'


# ---- Malice -----------------------------------------------------------------

def test_bodies_are_not_waited_for_before_the_token(pair):
    """A stranger who announces a long body is answered before he sends it."""
    first, _ = pair
    with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
        s.sendall(b"PUT /v1/state/jobs/x HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Length: 1000000\r\n\r\n")
        assert b" 401 " in s.recv(4096)


def test_oversized(pair):
    first, _ = pair
    assert first.ask("/v1/state/jobs/big", "PUT", b"x" * (3 << 20), TOKEN).status == 413
    assert first.ask("/v1/pause", "POST", b"{" + b" " * 5000 + b"}", TOKEN).status == 413
    for body in (b"[]", b"{", b"\xff", b'{"to": 1}', b'{"to": "x", "to": "y"}'):
        assert first.ask("/v1/handover", "POST", body, TOKEN).status == 400, body
    assert first.ask("/v1/step-down", "POST", b'{"for_ms": -1}', TOKEN).status == 400
    with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
        try:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 100000)
            answer = s.recv(4096)
        except ConnectionError:
            answer = b""
        assert b" 200 " not in answer
    assert first.ask("/livez").status == 200


AMBIGUOUS = (
    b"Content-Length: 0\r\nContent-Length: %d", b"Content-Length: %d\r\nTransfer-Encoding: chunked",
    b"Content-Length : %d", b"Transfer-Encoding: xchunked\r\nX: %d", b"Content-Length:\r\n %d",
    b"Content-Length: 0\r\n %d", b"X: y\r\n Content-Length: %d", b"Transfer-Encoding:\r\n chunked\r\nX: %d",
    b"X: y\nContent-Length: %d", b"X: %d\n", b"Content-Length: 0\0%d", b"X: \0\r\nContent-Length: %d",
    b"Host: localhost\r\nX: %d", b"Host: elsewhere\r\nX: %d")


def test_a_request_whose_end_is_a_matter_of_opinion(pair):
    """What a proxy took for its body would be answered as the next one's request, or as another host's."""
    first, _ = pair
    hidden = b"GET /_ha/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for headers in AMBIGUOUS:
        with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
            s.sendall(b"GET /leader HTTP/1.1\r\nHost: localhost\r\n" + headers % (len(hidden) + 5) +
                      b"\r\n\r\n0\r\n\r\n" + hidden)
            said = b""
            while part := s.recv(4096):
                said += part
        assert said.startswith(b"HTTP/1.1 400 ") and said.count(b"HTTP/1.1 ") == 1, (headers, said)


def test_an_old_protocol_knows_no_coding(pair):
    first, _ = pair
    with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
        s.sendall(b"GET /leader HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_lines_end_with_both(pair):
    first, _ = pair
    lines = [b"GET /leader HTTP/1.1", b"Host: localhost", b""]
    for bare in range(1, 8):
        with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
            s.sendall(b"".join(line + (b"\n" if bare >> i & 1 else b"\r\n") for i, line in enumerate(lines)))
            assert s.recv(4096).startswith(b"HTTP/1.1 400 "), bare


CLEAR = (
    b"GET /leader HTTP/1.0\r\n\r\n", b"GET /leader HTTP/1.1\r\nHost:localhost\r\nX:\r\nY:  \ty\r\n\r\n",
    b"\r\nGET /leader?name=web HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=d\r\n\r\n",
    b"GET /leader HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde",
    b"GET /leader HTTP/1.1\r\nHost: localhost\r\n" + 50 * (b"X: " + 90 * b"x" + b"\r\n") + b"\r\n")


def test_whatever_is_clear_is_answered(pair):
    """Byte by byte as well, and one behind the other."""
    first, _ = pair
    for request in CLEAR:
        for parts in ([request + request], [bytes([c]) for c in request[:200]] + [request[200:]]):
            with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for part in parts:
                    s.sendall(part)
                assert s.recv(4096).startswith(b"HTTP/1.1 200 "), request


def test_the_longest_name_has_a_state(tmp_path, store):
    """What one part takes for a name, all do; longer ones are refused at the start (tests/e2e)."""
    with Agent(tmp_path, store, "a", "--state", "store", name="x" * 100) as agent:
        agent.leads()
        assert agent.ask("/v1/state/jobs/" + "y" * 100, "PUT", "x", TOKEN).status == 200


def test_a_name_that_ends_like_a_question(tmp_path, store):
    """Who asks whether "web" leads is not told of another election, here or not."""
    with Agent(tmp_path, store, "a", name="web/leader") as agent:
        agent.leads()
        assert agent.ask("/v1/elections/web/leader").status == 404
        assert agent.ask("/v1/elections/web/leader/leader").text == "ok\n"
        assert agent.ask("/leader?name=web/leader").text == "ok\n"
        assert agent.ask("/v1/elections/web/leader/leadership").json()["name"] == "web/leader"


def test_the_head_of_a_stream_has_no_body(pair):
    first, _ = pair
    with socket.create_connection(("127.0.0.1", first.port), timeout=30) as s:
        s.sendall(b"HEAD /v1/leadership?stream=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        said = b""
        while part := s.recv(4096):
            said += part
    assert [part[:15] for part in said.split(b"\r\n\r\n")] == [b"HTTP/1.1 200 OK"] * 2 + [b"ok\n"], said


def test_visitors_of_several_listeners_leave_descriptors_to_the_store(tmp_path):
    """Each alone is within its bounds; together they must be too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        agent = Agent(tmp_path, f"file:{tmp_path}/s", "a", "--renew", "300ms", "--log-level", "debug",
                      *2 * ("--listen", "127.0.0.1:0"), ttl="60s")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def told(event):
        return sum(e["event"] == event for e in agent.events())

    visitors = []
    with agent:
        until(lambda: told("renewed"))
        for port in re.findall(r"\(port (\d+)\)", agent.words()):
            for _ in range(120):
                visitors.append(socket.socket())
                visitors[-1].setblocking(False)
                visitors[-1].connect_ex(("127.0.0.1", int(port)))
        before = told("renewed")
        until(lambda: told("renewed") > before + 4)
        assert len(visitors) == 360 and not told("trouble"), agent.words()
        for s in visitors:
            s.close()


def flood(port, end, counts):
    request = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    paths = [b"livez", b"leader", b"_ha/status", b"metrics", b"nowhere"]
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
                s.settimeout(30)
                for _ in range(50):
                    s.sendall(b"".join(request % path for path in paths[:4]) * 4)
                    if not s.recv(1 << 16):
                        break
                    counts.append(1)
        except OSError:
            continue


def test_flooded_and_kept_waiting(tmp_path):
    """Requests at full rate, and connections that never finish theirs: no renewal is missed."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path)
    folder = pathlib.Path(memory) / f"tenure-flood-{os.getpid()}"
    folder.mkdir()
    slow = []
    try:
        with Agent(tmp_path, f"file:{folder}/s", "a", "--renew", "500ms", ttl="30s") as agent:
            agent.leads()
            epoch, renewals = agent.status()["epoch"], agent.status()["renewals"]["ok"]
            for _ in range(200):
                s = socket.create_connection(("127.0.0.1", agent.port), timeout=30)
                s.sendall(b"GET /livez HTTP/1.1\r\nHost: loc")
                slow.append(s)
            counts, end = [], time.monotonic() + 5
            threads = [threading.Thread(target=flood, args=(agent.port, end, counts))
                       for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(counts) > 10
            assert agent.ask("/livez").status == 200
            status = agent.status()
            assert (status["leading"], status["epoch"]) == (True, epoch)
            assert status["renewals"]["ok"] > renewals and not status["renewals"]["failed"]
            assert "lost" not in [e["event"] for e in agent.events()]
    finally:
        for s in slow:
            s.close()
        shutil.rmtree(folder)


def test_many_streams(tmp_path, store):
    """Streams leave room for probes, and cost little."""
    with Agent(tmp_path, store, "a") as agent:
        agent.leads()
        streams = []
        for _ in range(300):
            s = socket.create_connection(("127.0.0.1", agent.port), timeout=60)
            s.sendall(b"GET /v1/leadership?stream=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            streams.append(s)
        until(lambda: "tenure_http_streams 300\n" in agent.ask("/metrics").text)
        for s in streams:
            said = b""
            while b"event: status" not in said:
                part = s.recv(4096)
                assert part, said
                said += part
        assert agent.ask("/leader").status == 200
        for s in streams:
            s.close()
        until(lambda: "tenure_http_streams 0\n" in agent.ask("/metrics").text)
