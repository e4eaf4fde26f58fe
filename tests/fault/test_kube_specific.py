"""What only a kube-apiserver can do wrong, and what is said about it; what all servers can: test_server_calls.py."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import threading

import pytest
import server_kube
from flood import Flood
from process import until
from proxy import Proxy
from server_kube import Kube
from server_redis import make_certificates
from tenure import Store, StoreError, now

pytestmark = pytest.mark.skipif(server_kube.MISSING is not None, reason=str(server_kube.MISSING))

CANARY = "cAnArY-secret-78"
RECORD = {"holder": "me", "epoch": 7, "ttl_ms": 5000, "incarnation": "1" * 32, "grant": "2" * 32,
          "transitions": 3, "priority": 0, "address": "", "build": "", "cause": "",
          "acquired_at": "2026-01-31T12:00:00.250Z", "renewed_at": "2026-01-31T12:00:00.250Z"}


def record(**changes):
    return json.dumps({**RECORD, **changes}).encode()


@pytest.fixture(scope="module")
def shared():
    with Kube(users={"app": f"app-{CANARY}", "late": f"late-{CANARY}"}) as server:
        yield server


@pytest.fixture
def kube(shared):
    """A server that no test ends; the Leases go with every test."""
    shared.clear()
    return shared


@pytest.fixture
def proxy(kube):
    with Proxy(("127.0.0.1", kube.port)) as between:
        yield between


def refused(call, *args, **named):
    with pytest.raises(StoreError) as caught:
        call(*args, **named)
    assert CANARY not in str(caught.value)
    assert "\n" not in caught.value.text
    return caught.value


# ---- Watches ----------------------------------------------------------------------------------

def test_watch_does_not_wait_for_versions_that_a_restore_took_back(kube):
    with Store(kube.url()) as store, Store(kube.url()) as other:
        etcd = kube.etcd
        token = other.swap("a/control").token
        etcd.ctl("snapshot", "save", etcd.dir / "snapshot")
        last = None
        for _ in range(100):
            last = other.swap("a/else", last).token
        assert store.read("a/else").token == last
        assert not store.wait([("a/control", token)], timeout=0.5)
        kube.kill()
        etcd.kill()
        etcd.restore(etcd.dir / "snapshot")
        kube.restart()
        assert until(lambda: quietly(store.read, "a/control")).token == token
        until(lambda: quietly(lambda: [store.wait([("a/control", token)], timeout=1)]))
        assert until(lambda: quietly(other.read, "a/control")).token == token
        assert other.swap("a/control", token).status == "ok"
        assert store.wait([("a/control", token)])


def test_idle_standby_asks_once_an_interval(kube, proxy):
    with Store(kube.url(port=proxy.port)) as store, Store(kube.url()) as other:
        token = other.swap("a/lease", None, record()).token
        watches = lambda: [("a/lease", token), ("a/control", None)]  # noqa: E731
        assert not store.wait(watches(), timeout=1)
        store.read("a/lease")
        before = proxy.passed["up"]
        store.read("a/lease")
        one = proxy.passed["up"] - before
        before = proxy.passed["up"]
        for i in range(5):
            token = other.swap("a/lease", token, record(epoch=8 + i)).token
            assert store.read("a/lease").token == token
            store.wait(watches(), timeout=0.05)  # news of the last but one may come late
        assert proxy.passed["up"] - before < 6.5 * one
        other.swap("a/control")
        assert store.wait(watches())


def test_a_version_that_is_too_old_is_read_anew(kube):
    """The API server remembers changes for a while only: then it answers 410."""
    with Store(kube.url()) as store, Store(kube.url()) as other:
        token = store.swap("a/lease", None, record()).token
        mark = store.list("a/")[1]
        old = kube.lease("a")["metadata"]["resourceVersion"]
        for i in range(3):
            token = other.swap("a/lease", token, record(epoch=8 + i)).token
        kube.etcd.ctl("compact", str(kube.etcd.revision()))
        kube.restart()
        code, answer = kube.call("GET", server_kube.LEASES.format("default") +
                                 f"?watch=1&resourceVersion={old}&timeoutSeconds=1")
        assert code == 410 or answer["object"]["code"] == 410
        # `store` last heard of a version that is gone by now.
        seen = until(lambda: quietly(store.read, "a/lease")).token
        assert seen == token
        assert store.wait([("a/", mark)])
        assert not store.wait([("a/lease", token)], timeout=1)
        other.swap("a/lease", until(lambda: quietly(other.read, "a/lease")).token, record())
        assert store.wait([("a/lease", token)])


def quietly(call, *args):
    try:
        return call(*args)
    except StoreError as error:
        assert error.status in ("unavailable", "timeout")
        return None


# ---- The standard fields -----------------------------------------------------------------------

def test_a_record_in_standard_form(kube):
    with Store(kube.url("lock")) as store:
        token = store.swap("a/lease", None, record()).token
        spec = kube.lease("lock")["spec"]
        assert spec["holderIdentity"] == "me" and spec["leaseDurationSeconds"] == 5
        assert spec["leaseTransitions"] == 3
        assert spec["acquireTime"] == "2026-01-31T12:00:00.250000Z"
        notes = kube.lease("lock")["metadata"]["annotations"]
        assert notes["tenure/epoch"] == "7" and notes["tenure/grant"] == "2" * 32
        kube.patch("lock", {"metadata": {"annotations": {"team": "blue"}}})
        assert store.swap("a/lease", token, record()).status == "conflict"  # the version moved
        found = store.read("a/lease")
        assert found.token.nonce == token.nonce and json.loads(found.data) == RECORD
        token = found.token
        for _ in range(3):  # faster than a second each, and yet each is a second later
            before = kube.lease("lock")["spec"]["renewTime"][:19]
            token = store.swap("a/lease", token, record()).token
            assert kube.lease("lock")["spec"]["renewTime"][:19] > before
        assert kube.lease("lock")["metadata"]["annotations"]["team"] == "blue"
        assert store.swap("a/lease", token, record(holder="")).status == "ok"
        spec = kube.lease("lock")["spec"]
        assert spec["holderIdentity"] == "" and spec["leaseDurationSeconds"] == 1
        # Another election cannot have the same Lease.
        error = refused(store.read, "b/lease")
        assert error.status == "corrupt" and "a/lease" in error.text


@pytest.mark.parametrize("ttl_ms", [1000, 4000, 4999, 5500])
def test_ttl_that_a_lease_cannot_hold(kube, ttl_ms):
    with Store(kube.url()) as store:
        answer = store.swap("a/lease", None, record(ttl_ms=ttl_ms))
        assert answer.status == "invalid" and "whole seconds" in answer.text
        assert not store.read("a/lease").token


def test_words_of_client_go_count_and_ours_do_not(kube):
    with Store(kube.url("lock")) as store:
        token = store.swap("a/lease", None, record()).token
        kube.patch("lock", {"spec": {"holderIdentity": "gopher", "leaseDurationSeconds": 15,
                                     "renewTime": "2026-01-31T13:00:00.000000Z",
                                     "leaseTransitions": 4}})
        found = store.read("a/lease")
        said = json.loads(found.data)
        assert said["holder"] == "gopher" and said["ttl_ms"] == 15000 and said["epoch"] == 7
        assert said["grant"] != RECORD["grant"] and said["transitions"] == 4
        assert found.token != token and found.token.nonce != token.nonce
        assert found.prev == token.nonce
        assert store.read("a/lease").token == found.token
        # The same holder and another time is not ours either.
        kube.patch("lock", {"spec": {"holderIdentity": "me"}})
        again = store.read("a/lease")
        assert again.token.nonce != token.nonce and json.loads(again.data)["grant"] != "2" * 32
        # Its release, with the holder left out.
        kube.patch("lock", {"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}})
        free = store.read("a/lease")
        assert json.loads(free.data)["holder"] == ""
        assert store.swap("a/lease", again.token, record()).status == "conflict"
        assert store.swap("a/lease", free.token, record(epoch=8)).status == "ok"
        assert json.loads(store.read("a/lease").data)["epoch"] == 8


def test_a_lease_that_tenure_never_wrote(kube):
    for name, spec, words in (("empty", {}, {"holder": "", "epoch": 1}),
                              ("held", {"holderIdentity": "x", "leaseDurationSeconds": 9},
                               {"holder": "x", "ttl_ms": 9000}),
                              ("ever", {"holderIdentity": "x"}, {"holder": "x", "ttl_ms": 0})):
        kube.create(server_kube.LEASES.format("default"), {"metadata": {"name": name},
                                                           "spec": spec})
        with Store(kube.url(name)) as store:
            found = store.read("any/lease")
            assert words.items() <= json.loads(found.data).items()
            assert store.swap("any/lease").status == "conflict"
            assert store.swap("any/lease", found.token, record()).status == "ok"


def test_deleted_and_made_anew(kube):
    with Store(kube.url()) as store, Store(kube.url()) as unaware:
        for key, name in (("a/lease", "a"), ("a/other", None)):
            token = store.swap(key, None, record()).token
            name = name or next(each["metadata"]["name"] for each in kube.leases()
                                if each["metadata"]["annotations"]["tenure/key"] == key)
            assert not store.wait([(key, token)], timeout=0.5)
            assert unaware.read(key).token == token
            box = []
            thread = threading.Thread(
                target=lambda: box.append(store.wait([(key, token)], timeout=60)))
            thread.start()
            kube.delete(name)
            thread.join()
            assert box == [True]
            assert not store.read(key).token
            # A PUT of an object that is gone would create it, were it not for the uid.
            assert unaware.swap(key, token, record()).status == "conflict"
            assert store.swap(key, token, record()).status == "conflict"
            assert not store.read(key).token
            assert store.swap(key, None, record()).status == "ok"
            assert store.swap(key, token, record()).status == "conflict"


def list_is_sound(store):
    """Nothing in it is damaged."""
    try:
        return not any(value.token.version.startswith("damaged.") for _, value in store.list("")[0])
    except StoreError:
        return False


def test_registers_that_others_have_changed_are_corrupt(kube):
    with Store(kube.url()) as store:
        store.swap("a/other", None, b"\xff\x00")
        name = kube.leases()[0]["metadata"]["name"]
        for notes in ({"tenure/base64": "!!"}, {"tenure/base64": None},
                      {"tenure/base64": "", "tenure/text": "x"}, {"tenure/nonce": "x"},
                      {"tenure/key": "b/other"}, {"tenure/key": None}):
            good = kube.lease(name)["metadata"]["annotations"]
            kube.patch(name, {"metadata": {"annotations": notes}})
            assert refused(store.read, "a/other").status == "corrupt", notes
            assert not list_is_sound(store), notes
            kube.patch(name, {"metadata": {"annotations": {**dict.fromkeys(notes), **good}}})
            assert store.read("a/other").data == b"\xff\x00"


# ---- Who we are --------------------------------------------------------------------------------

ALL = ["get", "list", "watch", "create", "update", "patch"]


def test_rights_and_tokens(kube, tmp_path):
    error = refused(Store, kube.url("lock", user={"token": f"wrong-{CANARY}"}))
    assert error.status == "denied" and "401" in error.text
    kube.grant("app", [])
    kube.grant("late", ALL)
    app = kube.url("lock", user={"token": f"app-{CANARY}"}, name="config-app")
    error = until(lambda: not quietly_open(app) and refused(Store, app))
    assert error.status == "denied" and "role.yaml" in error.text
    kube.grant("app", ALL)
    file = tmp_path / "token"
    file.write_text(f"app-{CANARY}\n")
    url = kube.url("lock", user={"tokenFile": str(file)})
    until(lambda: quietly_open(url))
    with Store(url) as store:
        until(lambda: settled(store))
        for verb, call in (
                ("get", lambda: refused(store.read, "a/lease").status),
                ("update", lambda: store.swap("a/lease", store.read("a/lease").token,
                                              record()).status),
                ("create", lambda: store.swap("b/other").status),
                ("list", lambda: refused(store.list, "").status)):
            kube.grant("app", [v for v in ALL if v != verb])
            until(lambda: denied(call))
            kube.grant("app", ALL)
            until(lambda: settled(store))
        # The token is rotated under an open handle: the file is read again.
        token = store.read("a/lease").token
        assert not store.wait([("a/lease", token)], timeout=0.2)
        file.write_text(f"late-{CANARY}\n")
        assert store.swap("a/lease", token, record()).status == "ok"
        file.write_text("nonsense\n")
        assert refused(store.read, "a/lease").status == "denied"
        file.unlink()
        assert refused(store.read, "a/lease").status in ("denied", "config")


def quietly_open(url):
    try:
        Store(url).close()
        return True
    except StoreError as error:
        assert error.status == "denied"
        return False


def denied(call):
    try:
        return call() == "denied"
    except pytest.fail.Exception:  # it still went well: the role is cached for a moment
        return False


def settled(store):
    try:
        token = store.read("a/lease").token
        store.list("")
        return store.swap("a/lease", token, record()).status == "ok" and (
            store.swap("c/" + os.urandom(4).hex()).status == "ok")
    except StoreError:
        return False


def test_service_account_of_a_pod(kube, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("admin-token")
    (tmp_path / "ca.crt").write_bytes(kube.ca.read_bytes())
    (tmp_path / "namespace").write_text("default\n")
    url = f"kube:?serviceaccount={tmp_path}"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "not in a pod" in refused(Store, url).text.replace("not  in", "not in")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(kube.port))
    with Store(url) as store:
        assert store.swap("a/lease", None, record()).status == "ok"
        assert kube.lease("a")
    (tmp_path / "token").unlink()
    assert "service account" in refused(Store, url).text


def test_kubeconfig_in_all_its_forms(kube, tmp_path, monkeypatch):
    cert, key = kube.certificate(tmp_path, "app")
    b64 = lambda path: base64.b64encode(path.read_bytes()).decode()  # noqa: E731
    kube.grant("app", ALL)
    there = f"https://localhost:{kube.port}/"
    plugin = tmp_path / "plugin"
    plugin.write_text(f"""#!/bin/sh
echo run >>{tmp_path}/runs
case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 3 ;; esac
[ "$1 $EXTRA" = "token more" ] || exit 4
echo '{{"kind": "ExecCredential", "status": {{"token": "'$(cat {tmp_path}/answer)'"}}}}'
""")
    plugin.chmod(0o755)
    (tmp_path / "answer").write_text("admin-token")
    users = {
        "certificate data": {"client-certificate-data": b64(cert), "client-key-data": b64(key)},
        "certificate files": {"client-certificate": "app.pem", "client-key": "app.key"},
        "plug-in": {"exec": {"apiVersion": "client.authentication.k8s.io/v1",
                             "command": "./plugin", "args": ["token"],
                             "env": [{"name": "EXTRA", "value": "more"}]}},
    }
    for name, user in users.items():
        cluster = {"server": there, "certificate-authority-data": b64(kube.ca)}
        path = kube.config(user=user, cluster=cluster, folder=tmp_path)
        with Store(f"kube:default?kubeconfig={path}") as store:
            assert store.list("")[0] == [], name
    # The plug-in is asked once, and again when its token is refused.
    assert (tmp_path / "runs").read_text() == "run\n"
    with Store(f"kube:default?kubeconfig={path}") as store:
        kube.users["next"] = "unused"
        assert store.read("a/lease").token == store.read("a/lease").token
        assert (tmp_path / "runs").read_text() == "run\nrun\n"
    (tmp_path / "answer").write_text(CANARY)
    assert refused(Store, f"kube:default?kubeconfig={path}").status == "denied"
    plugin.write_text("#!/bin/sh\nexit 1\n")
    error = refused(Store, f"kube:default?kubeconfig={path}")
    assert error.status == "denied" and "plug-in" in error.text

    # Real YAML, several files, contexts, KUBECONFIG.
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("""# mine
current-context: one
contexts:
- context: {cluster: c, user: nobody}
  name: one
- name: two
  context:
    cluster: c
    user: "u"
    namespace: default
""")
    second.write_text(f"""apiVersion: v1
kind: Config
preferences: {{}}
current-context: other
clusters:
  - name: c
    cluster:
      server: {there}
      certificate-authority: {kube.ca}
users:
  - name: u
    user:
      token: admin-token
""")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:/none")
    assert "no user 'nobody'" in refused(Store, "kube:default").text
    Store("kube:default?context=two").close()
    Store("kube:?context=two").close()
    assert "no context 'three'" in refused(Store, "kube:default?context=three").text
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "~/.kube/config" in refused(Store, "kube:default").text
    (tmp_path / ".kube").mkdir()
    os.symlink(kube.config(), tmp_path / ".kube/config")
    Store("kube:default").close()


@pytest.mark.parametrize("words", [
    "sleep 1000",                          # nothing is printed
    "sleep 1000 & wait",                   # by what it started
    "exec >&-; sleep 1000",                # it has no more to say, and stays
    "echo '{}' ; exec >&- ; sleep 1000 & wait",
    "yes",                                 # far too much
])
def test_plugin_that_does_not_end(tmp_path, words):
    """The call ends at its deadline, and nobody is left behind by each of many tries."""
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{words}\n")
    plugin.chmod(0o755)
    config = {"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
              "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
              "users": [{"name": "u", "user": {"exec": {
                  "command": str(plugin), "env": [{"name": "MARK", "value": str(tmp_path)}]}}}],
              "current-context": "x"}
    (tmp_path / "config").write_text(json.dumps(config))
    error = refused(Store, f"kube:default?kubeconfig={tmp_path}/config", timeout=0.4)
    assert error.status == "unavailable" and "did not end in time" in error.text
    until(lambda: not carriers(tmp_path))


def carriers(mark):
    """The processes that have it in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"MARK={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


@pytest.mark.parametrize("text, words", [
    ("", "line 1"), ("[]", "not a kubeconfig"), ("a: [", "line"),
    ("a: &x 1\nb: *x", "alias"), ("{}", "no current-context"), ("[" * 40, "nested too deeply"), ("a: \x01", "line"),
    ("current-context: x\ncontexts: 7\n", "no context 'x'"),
    ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", "no cluster 'c'"),
    ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
     "clusters: [{name: c, cluster: {}}]\n", "no server"),
    ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
     "clusters: [{name: c, cluster: {server: 'ftp://x'}}]\n", "https://host:port"),
    ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
     "clusters: [{name: c, cluster: {server: 'https://x', proxy-url: 'http://y'}}]\n", "proxy-url"),
    ("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
     "clusters: [{name: c, cluster: {server: 'https://x'}}]\n"
     f"users: [{{name: u, user: {{username: u, password: {CANARY}}}}}]\n", "username"),
    ("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
     "clusters: [{name: c, cluster: {server: 'https://x'}}]\n"
     "users: [{name: u, user: {client-certificate: /x}}]\n", "needs its key"),
])
def test_kubeconfig_mistakes(tmp_path, text, words):
    (tmp_path / "config").write_text(text)
    error = refused(Store, f"kube:default?kubeconfig={tmp_path}/config")
    assert error.status in ("config", "unsupported") and words in error.text, error


@pytest.mark.parametrize("path, words", [
    ("//h/x", "without '//'"), ("UPPER", "not a namespace"), ("a.b/x", "not a namespace"),
    ("n" * 64, "not a namespace"), ("default/UP", "not the name of a Lease"),
    ("default/a/b", "not the name of a Lease"), ("default/" + "a" * 254, "not the name"),
    ("default/-a", "not the name"), ("default/a..b", "not the name"),
])
def test_url_mistakes(kube, path, words):
    error = refused(Store, f"kube:{path}?kubeconfig={kube.config()}")
    assert error.status == "config" and words in error.text
    error = refused(Store, f"kube:default?kubeconfig={kube.config()}&colour=red")
    assert "colour" in error.text


def test_tls_is_verified(kube, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    ca = make_certificates(other)[0]
    for cluster in ({"server": f"https://127.0.0.1:{kube.port}",  # the name is localhost
                     "certificate-authority": str(kube.ca)},
                    {"server": f"https://localhost:{kube.port}", "certificate-authority": str(ca)},
                    {"server": f"https://localhost:{kube.port}"}):
        error = refused(Store, kube.url(cluster=cluster, folder=tmp_path))
        assert error.status == "denied" and "certificate" in error.text
    with Store(kube.url(folder=tmp_path, cluster={"server": f"https://127.0.0.1:{kube.port}",
                                                  "insecure-skip-tls-verify": True})) as store:
        assert b"WARNING" in store.info().promise


# ---- Servers that answer with errors -----------------------------------------------------------

def plain_url(folder, port):
    (folder / "config").write_text(json.dumps({
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}))
    return f"kube:default?kubeconfig={folder}/config"


class Front:
    """Plain HTTP that answers the first request well, and every later one with `answer`."""

    def __init__(self, answer, headers=()):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked.append(self.path)
                code, body = (404, ABSENT) if len(asked) == 1 else answer
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                for header in headers if len(asked) > 1 else ():
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_PATCH = reply

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = self.server.server_address[1]

    def url(self, folder):
        return plain_url(folder, self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def absent(name):
    return json.dumps({"kind": "Status", "reason": "NotFound", "code": 404,
                       "details": {"kind": "leases", "name": name}}).encode()


ABSENT = absent("tenure")


def status(reason):
    return json.dumps({"kind": "Status", "reason": reason, "message": reason}).encode()


# What the answer is, what a change makes of it, and a read.
ANSWERS = [
    ((429, status("TooManyRequests")), "unavailable", "unavailable"),
    ((500, status("InternalError")), "unknown", "unavailable"),
    ((502, b"<html>"), "unknown", "unavailable"), ((503, b""), "unknown", "unavailable"),
    ((504, status("Timeout")), "unknown", "unavailable"), ((302, b""), "unknown", "unavailable"),
    ((403, status("Forbidden")), "denied", "denied"), ((401, b""), "denied", "denied"),
    ((404, b"not found"), "config", "config"), ((404, status("NotFound")), "config", "config"),
    ((409, b""), "unknown", "unavailable"),
    ((200, b""), "unknown", "unavailable"), ((200, b"[]"), "unknown", "unavailable"),
    ((200, b"{}"), "unknown", "corrupt"), ((200, b"{" * 5000), "unknown", "unavailable"),
    ((200, b'{"metadata": {"resourceVersion": 7, "uid": [], "annotations": "x"}}'), "unknown",
     "corrupt"),
    ((200, json.dumps({"metadata": {"resourceVersion": "9" * 70, "uid": "u"}}).encode()),
     "unknown", "corrupt"),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_answers_that_are_no_success(tmp_path, number):
    answer, change, read = ANSWERS[number]
    with Front(answer) as front:
        with Store(front.url(tmp_path)) as store:
            assert store.swap("a/lease", None, record(), timeout=5).status == change
            assert refused(store.read, "a/lease", timeout=5).status == read
            for call in (lambda: store.list("", timeout=0.5),
                         lambda: store.wait([("a/lease", None)], timeout=0.5)):
                try:
                    call()
                except StoreError as error:
                    assert error.status not in ("ok", "unknown", "conflict")


def test_a_server_that_asks_to_be_left_alone_is(tmp_path):
    with Front((429, status("Busy")), headers=[("Retry-After", "1")]) as front, \
            Store(front.url(tmp_path)) as store:
        end = now() + 1.2
        while now() < end:
            assert refused(store.read, "a/lease").status == "unavailable"
        assert len(front.asked) <= 1 + 3


def test_nobody_is_left_alone_for_longer_than_there_is_time(tmp_path):
    with Front((429, status("Busy")), headers=[("Retry-After", "3000")]) as front, \
            Store(front.url(tmp_path)) as store:
        for calls in range(2, 4):
            # Asked, and answered: not given up without a word.
            assert refused(store.read, "a/lease", timeout=3).status == "unavailable"
            assert len(front.asked) == calls
        # Who waits for his turn can be called off.
        ours, theirs = os.pipe()
        timer = threading.Timer(0.2, lambda: os.write(theirs, b"x"))
        timer.start()
        error = refused(store.wait, [("a/lease", None)], timeout=120, wake_fd=ours)
        assert error.status == "cancelled" and len(front.asked) == calls
        timer.join()
        os.close(ours)
        os.close(theirs)


def test_watch_that_never_stops_talking_ends_at_the_deadline(tmp_path):
    with Flood(b'{"type": "BOOKMARK", "object": {}}\n',
               lambda path: (404, absent(path.rpartition("/")[2]))) as flood, \
            Store(plain_url(tmp_path, flood.port)) as store:
        assert not store.wait([("a/lease", None)], timeout=0.5)
