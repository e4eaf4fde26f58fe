"""What a server holds under our names and tenure did not write, or not like that: told with its place by
everybody, never taken for absent, kept aside, and replaced on order, if it is still what was kept."""

import contextlib
import json
import select
import socket
import subprocess
import threading
from concurrent import futures

import pytest
import server_postgres
from process import until
from rig import RIGS
from server_postgres import PgBouncer, Psql
from tenure import Store, StoreError
from test_redis_conformance import RIGHTS
from test_state_socket import Leader
from world import TENURE

BAD = "app/state/jobs/bad"


# ---- How each store is damaged: (what is done, is the content still in it) -----------------------

def row(change):
    def spoil(rig, key):
        assert rig.server.sql(f"UPDATE tenure.register SET {change} WHERE key = '{key}' RETURNING 1")
    return spoil


def loosen(rig):
    """Nothing but types keeps the rows from being anything."""
    rig.server.sql("ALTER TABLE tenure.register DROP CONSTRAINT IF EXISTS register_version_check;"
                   + "".join(f"ALTER TABLE tenure.register ALTER {name} DROP NOT NULL;"
                             for name in ("version", "nonce", "tombstone", "data")))


ROWS = {"version": (row("version = -5"), True), "no-version": (row("version = NULL"), True),
        "last-version": (row("version = 9223372036854775807"), True),
        "zero-nonce": (row("nonce = '00000000-0000-0000-0000-000000000000'"), True),
        "no-nonce": (row("nonce = NULL"), True), "no-tombstone": (row("tombstone = NULL"), True),
        "no-data": (row("data = NULL"), False),
        "long-data": (row("data = data || convert_to(repeat('x', 2200000), 'UTF8')"), True)}


def name_of(key):
    return "{tenure}:k:" + key


def text(old, new):
    def spoil(rig, key):
        before = rig.server.cmd("GET", name_of(key))
        assert old in before
        rig.server.cmd("SET", name_of(key), before.replace(old, new, 1))
    return spoil


def commands(*rows):
    def spoil(rig, key):
        for command, *args in rows:
            rig.server.cmd(command, name_of(key), *args)
    return spoil


STRINGS = {"head": (text(b"tenure1 ", b"tenure7 "), True), "foreign": (commands(("SET", "hello")), False),
           "flag": (text(b" v\n", b" x\n"), True), "empty": (commands(("SET", "")), None),
           "long": (commands(("APPEND", "x" * 2_200_000)), True),
           "list": (commands(("DEL",), ("RPUSH", "a", "b")), False),
           "hash": (commands(("DEL",), ("HSET", "version", "7")), False),
           "stream": (commands(("DEL",), ("XADD", "*", "a", "b")), False)}


def pair(make, suffix=""):
    def spoil(rig, key):
        name = f"/tenure/{key}{suffix}"
        value = make(rig.server.get(name))
        if value is None:
            rig.server.delete(name)
        else:
            rig.server.put(name, value)
    return spoil


PAIRS = {"head": (pair(lambda value: value.replace(b"tenure1 ", b"tenure7 ")), True),
         "foreign": (pair(lambda _: b"hello"), False), "empty": (pair(lambda _: b""), False),
         "flag": (pair(lambda value: value.replace(b" v\n", b" x\n")), True),
         "long": (pair(lambda value: value + b"x" * 1_100_000), True),
         "companion": (pair(lambda _: b"1" * 32, "#nonce"), True),
         "no-companion": (pair(lambda _: None, "#nonce"), True)}


def consul_row(make):
    def spoil(rig, key):
        name = rig.server.row(f"tenure/{key}")
        rig.server.put(name, make(rig.server.get(name)))
    return spoil


def consul_name(suffix, value):
    """Behind '#' stands what tenure never wrote there."""
    return lambda rig, key: rig.server.put(f"tenure/{key}#{suffix}", value)


NAMES = {"head": (consul_row(lambda value: value.replace(b"tenure1 ", b"tenure7 ")), True),
         "foreign": (consul_row(lambda _: b"hello"), False), "empty": (consul_row(lambda _: b""), False),
         "flag": (consul_row(lambda value: value.replace(b" v\n", b" x\n")), True),
         "second-row": (consul_name("1" * 32, b"x"), True), "note": (consul_name("note", b"x"), True)}


def thing(make):
    def spoil(rig, key):
        name = f"tenure/{key}!"
        rig.server.put(name, make(rig.server.get(name)))
    return spoil


OBJECTS = {"head": (thing(lambda value: value.replace(b"tenure1 ", b"tenure7 ")), True),
           "foreign": (thing(lambda _: b"hello"), False),
           "long": (thing(lambda value: value + b"x" * 1_100_000), True)}


def lease_of(rig, key):
    (name,) = [lease["metadata"]["name"] for lease in rig.server.leases()
               if lease["metadata"]["annotations"].get("tenure/key") == key]
    return name


def notes(spec=None, **changed):
    def spoil(rig, key):
        rig.server.patch(lease_of(rig, key), {"spec": spec or {}, "metadata": {"annotations": {
            f"tenure/{name}": value for name, value in changed.items()}}})
    return spoil


LEASES = {"no-text": (notes(text=None), False), "nonce": (notes(nonce="x"), True),
          "no-nonce": (notes(nonce=None), True), "both": (notes(base64=""), True),
          "base64": (notes(text=None, base64="!!"), False),
          "stripped": (notes(text=None, nonce=None, prev=None), False),
          "held": (notes({"holderIdentity": "mallory", "leaseDurationSeconds": 60}), True)}


def node(make):
    def spoil(rig, key):
        path = f"/tenure/{key}#"
        rig.server.put(path, make(rig.server.get(path)))
    return spoil


def child(change):
    def spoil(rig, key):
        (path,) = rig.server.tree(f"/tenure/{key}#")[1:]
        change(rig.server, path)
    return spoil


NODES = {"head": (node(lambda value: value.replace(b"tenure1 ", b"tenure7 ")), True),
         "foreign": (node(lambda _: b"hello"), False), "empty": (node(lambda _: b""), False),
         "flag": (node(lambda value: value.replace(b" v\n", b" x\n")), True),
         "no-child": (child(lambda server, path: server.delete(path)), True),
         "children": (child(lambda server, path: server.put(path + "2", b"")), True)}


def message(make):
    def spoil(rig, key):
        name = "k." + key.replace("/", ".")
        rig.server.put(name, make(rig.server.get(name)))
    return spoil


MESSAGES = {"head": (message(lambda value: value.replace(b"tenure1 ", b"tenure7 ")), True),
            "foreign": (message(lambda _: b"hello"), False), "empty": (message(lambda _: b""), False),
            "flag": (message(lambda value: value.replace(b" v\n", b" x\n")), True)}
DAMAGES = {"postgres": ROWS, "redis": STRINGS, "etcd": PAIRS, "consul": NAMES, "kube": LEASES,
           "zookeeper": NODES, "nats": MESSAGES, "s3": OBJECTS}
LOOSEN = {"postgres": loosen, "advisory": loosen}
CASES = [(store, how) for store, ways in DAMAGES.items() for how in ways]
FIRST = {**{store: next(iter(ways)) for store, ways in DAMAGES.items()}, "advisory": "version"}
SERVERS = list(DAMAGES)
DAMAGES["advisory"] = ROWS  # the same rows; but a lease is written otherwise


@pytest.fixture(scope="module")
def rigs():
    running = {}
    yield running
    for rig in running.values():
        rig.close()


@pytest.fixture
def start(rigs):
    """Start a server, or empty the one that runs."""
    def get(name):
        kind = RIGS[name]
        if kind.missing:
            pytest.skip(kind.missing)
        if name not in rigs:
            rigs[name] = kind()
            LOOSEN.get(name, lambda rig: None)(rigs[name])
        rigs[name].clear()
        return rigs[name]
    return get


def cli(store, *args, **more):
    return subprocess.run([TENURE, "state", *args, "--store", store, "--name", "app", "--timeout", "60s"],
                          capture_output=True, timeout=120, **more)


def ok(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def repairing(url):
    return Store(url + ("&" if "?" in url else "?") + "repair=yes")


def fill(url):
    for name in ("bad", "good"):
        ok(cli(url, "put", f"jobs/{name}", input=b"content of %s\n" % name.encode()))


@pytest.mark.parametrize("name,how", CASES, ids=[f"{name}-{how}" for name, how in CASES])
def test_told_kept_and_replaced(start, name, how):
    rig, (spoil, legible) = start(name), DAMAGES[name][how]
    url = rig.url()
    fill(url)
    spoil(rig, BAD)
    listed = cli(url, "show", "--json")
    rows = {row["id"]: row["damage"] for row in map(json.loads, listed.stdout.splitlines())}
    assert listed.returncode == 1 and b"tenure state repair" in listed.stderr, listed.stderr
    assert list(rows) == ["bad", "good"] and BAD in rows["bad"] and not rows["good"]
    exported = cli(url, "export")
    assert exported.returncode == 1 and len(exported.stdout.splitlines()) == 1
    # Nobody takes it for absent, and nobody else touches it.
    for args in (["get", "jobs/bad"], ["put", "jobs/bad"], ["delete", "jobs/bad"]):
        refused = cli(url, *args, input=b"over it")
        assert refused.returncode == 1 and BAD.encode() in refused.stderr, refused.stderr
    with Store(url) as plain:
        with pytest.raises(StoreError) as caught:
            plain.read(BAD)
        assert caught.value.status == "corrupt" and BAD in caught.value.text
        assert plain.swap(BAD).status in ("conflict", "corrupt")
        # It ends no batch of reads, and no neighbour is taken for it.
        good, absent = BAD.replace("bad", "good"), BAD.replace("bad", "never")
        status, reads, _ = plain.read_many([good, absent, BAD, good])
        assert (status, [one[0] for one in reads]) == ("ok", ["ok", "ok", "corrupt", "ok"])
        assert reads[0][1] == reads[3][1] == plain.read(good) and reads[1][1].token.version == ""
        seen = dict(plain.list("app/state/jobs/")[0])[BAD]
        assert plain.swap(BAD, seen.token).status in ("conflict", "corrupt")
    done = json.loads(ok(cli(url, "repair", "jobs/bad", "-", "--json", input=b"new")))
    assert seen.token.version.startswith("damaged.")
    assert done["kept"].startswith("jobs.damaged/bad@damaged.")
    kept = ok(cli(url, "get", done["kept"]))
    assert legible is None or kept and (b"content of bad\n" in kept or not legible)
    assert ok(cli(url, "get", "jobs/bad")) == b"new"
    ok(cli(url, "put", "jobs/bad", input=b"newer"))  # a document like any other
    assert ok(cli(url, "get", "jobs/good")) == b"content of good\n"
    ok(cli(url, "show"))
    again = cli(url, "repair", "jobs/bad", "-", input=b"x")
    assert again.returncode == 1 and b"is not damaged" in again.stderr


@pytest.mark.parametrize("name", SERVERS)
def test_only_what_was_read_is_replaced(start, name):
    """By whoever repairs too: not another damage, not what somebody has just repaired (C2)."""
    rig = start(name)
    spoils = [spoil for spoil, _ in DAMAGES[name].values()][:2]
    with Store(rig.url()) as plain, repairing(rig.url()) as repairer:
        tokens = []
        for spoil in spoils:
            sound = plain.read("a/x").token if tokens else plain.swap("a/x", None, b"content").token
            spoil(rig, "a/x")
            tokens.append(repairer.read("a/x").token)
            assert tokens[-1] != sound and dict(repairer.list("a/")[0])["a/x"].token == tokens[-1]
            for wrong in (None, sound, *tokens[:-1]):
                assert repairer.swap("a/x", wrong, b"blind").status in ("conflict", "corrupt")
            assert repairer.read("a/x").token == tokens[-1]
            repaired = repairer.swap("a/x", tokens[-1], b"content")
            assert repaired.status == "ok", repaired.text
            found = plain.read("a/x")
            assert (found.token, found.data) == (repaired.token, b"content")
            assert found.prev == tokens[-1].nonce
            assert repairer.swap("a/x", tokens[-1], b"again").status == "conflict"
        assert tokens[0] != tokens[1]
        # And is sound from now on, for everybody.
        assert plain.swap("a/x", found.token, b"next").status == "ok"
        assert repairer.read("a/x").data == b"next"
        assert not repairer.read("a/none").token


class Between:
    """A way to the server.  Once armed, at() is called before each request but the first."""

    def __init__(self, port):
        self.target, self.at, self.turns, self.calls = port, None, 0, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.socket.accept()[0],), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server, \
                contextlib.suppress(OSError):
            last = server
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is client and last is server:
                        self.turn()
                    last = source
                    (server if source is client else client).sendall(data)

    def turn(self):
        self.turns += 1
        if self.at and self.turns > 1:
            self.calls += 1
            self.at()

    def arm(self, at):
        self.turns, self.at = 0, at

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


@pytest.mark.parametrize("name", SERVERS)
def test_changed_after_the_repairer_has_looked(start, name):
    """It is the server that compares, when it writes."""
    rig = start(name)
    first, other = [spoil for spoil, _ in DAMAGES[name].values()][:2]
    with Store(rig.url()) as plain, Between(rig.port) as between, \
            repairing(rig.url(port=between.port)) as repairer:
        plain.swap("a/x", None, b"content")
        first(rig, "a/x")
        token = repairer.read("a/x").token
        between.arm(lambda: other(rig, "a/x"))
        assert repairer.swap("a/x", token, b"blind").status == "conflict" and between.calls
        between.arm(None)
        found = repairer.read("a/x")
        assert found.token.version.startswith("damaged.") and found.token != token
        assert repairer.swap("a/x", found.token, b"repaired").status == "ok"
        assert plain.read("a/x").data == b"repaired"


@pytest.mark.parametrize("change", ["data = data || 'x'::bytea", "version = -6", "tombstone = true",
                                    "prev = gen_random_uuid()", "nonce = gen_random_uuid()"])
def test_a_change_under_way_postgres(start, change):
    """Not seen when the repairer looks, and yet not overwritten: the statement itself compares (C2)."""
    rig = start("postgres")
    with Store(rig.url()) as plain, repairing(rig.url()) as repairer, Psql(rig.server) as other:
        plain.swap("a/x", None, b"content")
        row("version = -5")(rig, "a/x")
        token = repairer.read("a/x").token
        other("BEGIN")
        other(f"UPDATE tenure.register SET {change}")
        with futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(repairer.swap, "a/x", token, b"blind")
            until(lambda: rig.server.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
            other("COMMIT")
            assert answer.result().status == "conflict"
        again = repairer.read("a/x").token
        assert again != token and repairer.swap("a/x", again, b"repaired").status == "ok"


@pytest.mark.parametrize("name", list(FIRST))
def test_fences_and_the_lease(start, name, tmp_path):
    """Epochs go on, in the state and in the lease, over damage of both (I2, I3)."""
    rig = start(name)
    url = rig.url()
    spoil = DAMAGES[name][FIRST[name]][0]
    with Leader(tmp_path, url, "--state", "store") as leader:
        ask = leader.leads().ask
        assert ask("PUT", "/v1/state/jobs/bad", b"content").status == 200
        spoil(rig, BAD)
        assert ask("GET", "/v1/state/jobs/bad").error() == (500, "corrupt")
        assert ask("PUT", "/v1/state/jobs/bad", b"over it").error()[0] in (409, 500)
        refused = cli(url, "repair", "jobs/bad", "-", input=b"two")
        assert refused.returncode == 1 and b"--force" in refused.stderr
        ok(cli(url, "repair", "jobs/bad", "-", "--force", input=b"two"))
        got = ask("GET", "/v1/state/jobs/bad")
        assert (got.body, got.headers["Tenure-Epoch"]) == (b"two", leader.epoch)
        assert ask("PUT", "/v1/state/jobs/bad", b"three").status == 200
        first = int(leader.epoch)
    for key in ("app/state/jobs", BAD):
        spoil(rig, key)
    refused = cli(url, "repair", "jobs/bad", "--delete")
    assert refused.returncode == 1 and b"root of the collection" in refused.stderr
    ok(cli(url, "repair", "jobs"))
    ok(cli(url, "repair", "jobs/bad", "-", input=b"four"))
    with Store(url) as plain:
        for key in ("app/state/jobs", BAD):
            assert int(plain.read(key).data.split(b" ")[2]) == first
    spoil(rig, "app/lease")
    options = ["--store", url, "--name", "app", "--timeout", "60s"]
    told = subprocess.run([TENURE, "status", *options], capture_output=True, timeout=60)
    assert told.returncode != 0 and b"app/lease" in told.stdout + told.stderr
    subprocess.run([TENURE, "reset", *options, "--epoch-above", str(first)], check=True, timeout=60,
                   capture_output=True)
    with Leader(tmp_path, url, "--state", "store") as leader:
        assert int(leader.leads().epoch) > first
        assert leader.ask("GET", "/v1/state/jobs/bad").body == b"four"


@pytest.mark.parametrize("name", SERVERS)
def test_several_at_once(start, name):
    rig = start(name)
    url = rig.url()
    fill(url)
    DAMAGES[name][FIRST[name]][0](rig, BAD)
    command = [TENURE, "state", "repair", "jobs/bad", "-", "--store", url, "--name", "app", "--timeout", "60s"]
    rivals = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL) for _ in range(4)]
    for i, rival in enumerate(rivals):
        rival.stdin.write(b"by %d" % i)
        rival.stdin.close()
    done = [i for i, rival in enumerate(rivals) if rival.wait(120) == 0]
    assert len(done) == 1 and ok(cli(url, "get", "jobs/bad")) == b"by %d" % done[0]


def test_a_key_that_is_lost_kube(start):
    """Nobody can tell which it was: no listing passes it over, and an operator writes it again."""
    rig = start("kube")
    fill(rig.url())
    name = lease_of(rig, BAD)
    with Store(rig.url()) as plain, repairing(rig.url()) as repairer:
        plain.swap("app2/state/jobs/bad", None, b"x")
        before = plain.list("app/state/jobs/")[0]
        for lost in (None, "not a key", "app/state/jobs/good", "else/where"):
            rig.server.patch(name, {"metadata": {"annotations": {"tenure/key": lost}}})
            for store in (plain, repairer):
                for prefix in ("", "app/", "app/state/jobs/", "app/state/jobs/b"):
                    with pytest.raises(StoreError) as caught:
                        store.list(prefix)
                    assert caught.value.status == "corrupt" and name in caught.value.text
                assert [key for key, _ in store.list("app2/")[0]] == ["app2/state/jobs/bad"]
                assert store.list("app/state/jobs/c")[0] == store.list("other/")[0] == []
            with pytest.raises(StoreError):
                plain.read(BAD)
            shown = cli(rig.url(), "show")
            assert shown.returncode == 1 and name.encode() in shown.stderr and b"annotate" in shown.stderr
            rig.server.patch(name, {"metadata": {"annotations": {"tenure/key": BAD}}})
            assert [(key, value.data) for key, value in plain.list("app/state/jobs/")[0]] == \
                [(key, value.data) for key, value in before]


def test_somebody_elses_lease_kube(start, tmp_path):
    """Two elections on one Lease: neither repairs the other's away."""
    rig = start("kube")
    with Leader(tmp_path, rig.url(), "--state", "store") as leader:
        leader.leads()
        before = rig.object()["spec"]["holderIdentity"]
        done = subprocess.run([TENURE, "reset", "--store", rig.url(), "--name", "other", "--force", "--timeout", "20s"],
                              capture_output=True, timeout=60)
        assert done.returncode == 1 and b"it belongs to" in done.stderr, done.stderr
        with repairing(rig.url()) as repairer:
            with pytest.raises(StoreError) as caught:
                repairer.read("other/lease")
            assert caught.value.status == "corrupt"
        assert rig.object()["spec"]["holderIdentity"] == before


@pytest.mark.parametrize("name,spoil", [
    ("postgres", row("data = data || convert_to(repeat('x', 9000000), 'UTF8')")),
    ("redis", commands(("APPEND", "x" * 9_000_000)))], ids=["postgres", "redis"])
def test_too_large_to_be_kept(start, name, spoil):
    """It is listed all the same, is not replaced, and the reason is told."""
    rig = start(name)
    fill(rig.url())
    spoil(rig, BAD)
    listed = cli(rig.url(), "show", "--json")
    rows = {row["id"]: row["damage"] for row in map(json.loads, listed.stdout.splitlines())}
    assert listed.returncode == 1 and list(rows) == ["bad", "good"] and rows["bad"] and not rows["good"]
    refused = cli(rig.url(), "repair", "jobs/bad", "--delete")
    assert refused.returncode == 1 and b"too large to be kept" in refused.stderr
    with repairing(rig.url()) as repairer:
        assert [key for key, _ in repairer.list("app/state/jobs/")[0]] == [BAD, "app/state/jobs/good"]
        with pytest.raises(StoreError, match="too large"):
            repairer.read(BAD)


@pytest.mark.skipif(server_postgres.MISSING_POOLER is not None, reason=str(server_postgres.MISSING_POOLER))
def test_behind_a_pooler_postgres(start):
    rig = start("postgres")
    with PgBouncer(rig.server) as pooler, Store(rig.url()) as plain, \
            repairing(rig.url(port=pooler.port)) as repairer:
        plain.swap("a/x", None, b"content")
        row("version = -5")(rig, "a/x")
        token = repairer.read("a/x").token
        row("version = -6")(rig, "a/x")
        assert repairer.swap("a/x", token, b"blind").status == "conflict"
        repaired = repairer.swap("a/x", repairer.read("a/x").token, b"repaired")
        assert repaired.status == "ok" and plain.read("a/x").token == repaired.token


def test_with_the_rights_of_the_documentation_redis(start):
    rig = start("redis")
    with Store(rig.url()) as plain:
        plain.swap("a/x", None, b"content")
    rig.server.cmd("ACL", "SETUSER", "repairer", "reset", "on", ">pw", *RIGHTS, "+type", "+strlen", "+dump")
    with repairing(f"redis://repairer:pw@127.0.0.1:{rig.port}") as repairer:
        for how in ("foreign", "hash"):
            STRINGS[how][0](rig, "a/x")
            assert repairer.swap("a/x", repairer.read("a/x").token, b"repaired").status == "ok"
