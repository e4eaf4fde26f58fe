"""tenure state repair: what is damaged is told with its place, kept aside, and replaced on order."""

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import tempfile
import threading

import pytest
import tenure
from process import until
from test_state_socket import Leader
from world import TENURE

JUNK = b"\0not a document\xff\n"


@pytest.fixture
def tmp_path():
    """In memory if there is such a place: a flush is of no use here."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tenure-repair-", dir=base) as path:
        yield pathlib.Path(path)


@pytest.fixture(params=["file", "slots", "sqlite"])
def store(request, tmp_path):
    return {"sqlite": f"sqlite:{tmp_path}/db", "file": f"file:{tmp_path}/store",
            "slots": f"file:{tmp_path}/store?commits=slots"}[request.param]


def cli(store, *args, **more):
    return subprocess.run([TENURE, "state", *args, "--store", store, "--name", "app", "--timeout", "60s"],
                          capture_output=True, timeout=120, **more)


def damage(store, key, data=JUNK):
    """As a program would that writes past us.  Returns the version of it."""
    with tenure.Store(store) as s:
        done = s.swap(key, s.read(key).token, data)
        assert done.status == "ok"
        return s.read(key).token.version


def raw(store, key):
    with tenure.Store(store) as s:
        return s.read(key).data


def reset(store, *args):
    return subprocess.run([TENURE, "reset", "--store", store, "--name", "app", "--timeout", "60s", *args],
                          capture_output=True, timeout=120)


def fill(store):
    for name in ("a", "b/c"):
        assert cli(store, "put", f"jobs/{name}", input=name.encode()).returncode == 0


def test_repaired(store):
    fill(store)
    version = damage(store, "app/state/jobs/b_2fc")
    shown = cli(store, "show")
    assert shown.returncode == 1
    assert f"jobs/b/c  damaged: register app/state/jobs/b_2fc, version {version}" in \
        shown.stdout.decode()
    assert b"jobs/a  1 bytes" in shown.stdout
    assert [json.loads(line).get("damage") is None
            for line in cli(store, "show", "--json").stdout.splitlines()] == [True, False]
    # Nobody else touches it.
    for args in (["get", "jobs/b/c"], ["put", "jobs/b/c"], ["delete", "jobs/b/c"]):
        refused = cli(store, *args, input=b"over it")
        assert refused.returncode == 1 and b"app/state/jobs/b_2fc" in refused.stderr
    assert raw(store, "app/state/jobs/b_2fc") == JUNK
    done = cli(store, "repair", "jobs/b/c", "-", "--json", input=b"new")
    assert done.returncode == 0, done.stderr
    kept = f"jobs.damaged/b/c@{version}"
    assert json.loads(done.stdout) == {"collection": "jobs", "id": "b/c", "kept": kept}
    assert cli(store, "get", "jobs/b/c").stdout == b"new"
    assert cli(store, "get", kept).stdout == JUNK
    assert cli(store, "get", "jobs/a").stdout == b"a"
    assert cli(store, "show").returncode == 0
    again = cli(store, "repair", "jobs/b/c", "-", input=b"x")
    assert again.returncode == 1 and b"is not damaged" in again.stderr
    # A second damage is kept beside the first.
    second = damage(store, "app/state/jobs/b_2fc", b"")
    done = cli(store, "repair", "jobs/b/c", "--delete")
    assert done.returncode == 0 and f"jobs.damaged/b/c@{second}" in done.stdout.decode()
    assert cli(store, "get", "jobs/b/c").returncode == 3
    assert cli(store, "get", f"jobs.damaged/b/c@{second}").stdout == b""
    assert cli(store, "get", kept).stdout == JUNK


def test_bytes_that_the_disk_has_changed(tmp_path):
    """file: has sums of what it wrote: the store itself says what is damaged, and where."""
    store = f"file:{tmp_path}/store"
    for name in ("bad", "good", "last"):  # the last of all could be a torn write
        assert cli(store, "put", f"jobs/{name}", input=b"content of " + name.encode()).returncode == 0
    for journal in (tmp_path / "store/app/state/jobs").glob("+*"):
        content = journal.read_bytes()
        journal.write_bytes(content.replace(b"content of bad", b"cOntent of bad"))
    shown = cli(store, "show")
    assert shown.returncode == 1 and b"jobs/bad  damaged" in shown.stdout
    assert b"jobs/good  15 bytes" in shown.stdout
    told = cli(store, "get", "jobs/bad")
    assert told.returncode == 1 and b"at byte" in told.stderr and told.stdout == b""
    assert cli(store, "put", "jobs/bad", input=b"over it").returncode == 1
    done = cli(store, "repair", "jobs/bad", "-", "--json", input=b"new")
    assert done.returncode == 0, done.stderr
    assert cli(store, "get", "jobs/bad").stdout == b"new"
    assert cli(store, "get", json.loads(done.stdout)["kept"]).stdout.endswith(b"\ncOntent of bad")
    assert cli(store, "show").returncode == 0
    assert cli(store, "get", "jobs/good").stdout == b"content of good"


def test_a_damaged_root(store):
    fill(store)
    version = damage(store, "app/state/jobs")
    damage(store, "app/state/jobs/a")
    refused = cli(store, "repair", "jobs/a", "-", input=b"x")
    assert refused.returncode == 1 and b"root of the collection" in refused.stderr
    refused = cli(store, "put", "jobs/new", input=b"x")
    assert refused.returncode == 1
    assert cli(store, "repair", "jobs").returncode == 0
    assert cli(store, "get", f"jobs.damaged/@{version}").stdout == JUNK
    assert cli(store, "repair", "jobs/a", "-", input=b"x").returncode == 0
    assert cli(store, "put", "jobs/new", input=b"y").returncode == 0
    assert cli(store, "get", "jobs/a").stdout == b"x"
    assert cli(store, "get", "jobs/b/c").stdout == b"b/c"


@pytest.mark.parametrize("args", [["repair"], ["repair", "jobs/a"], ["repair", "jobs/a", "f", "g"],
                                  ["repair", "jobs/a", "f", "--delete"], ["repair", "jobs", "f"],
                                  ["repair", "jobs", "--delete"], ["repair", "/a", "f"]])
def test_usage(tmp_path, args):
    assert cli(f"sqlite:{tmp_path}/db", *args).returncode == 2


def test_under_the_fence_of_the_leader(store, tmp_path):
    """A repair while somebody leads is refused, unless forced; it fences nobody, and is adopted."""
    lease = f"file:{tmp_path}/lease"
    with Leader(tmp_path, lease, "--state", store) as leader:
        ask = leader.leads().ask
        assert ask("PUT", "/v1/state/jobs/a", b"one").status == 200
        damage(store, "app/state/jobs/a")
        assert ask("GET", "/v1/state/jobs/a").error() == (500, "corrupt")
        assert ask("PUT", "/v1/state/jobs/a", b"over it").error() == (409, "conflict")
        assert raw(store, "app/state/jobs/a") == JUNK
        refused = cli(store, "repair", "jobs/a", "-", "--lease", lease, input=b"two")
        assert refused.returncode == 1 and b"--force" in refused.stderr
        assert cli(store, "repair", "jobs/a", "-", "--force", input=b"two").returncode == 0
        got = ask("GET", "/v1/state/jobs/a")
        assert (got.body, got.headers["Tenure-Edited"]) == (b"two", "true")
        assert got.headers["Tenure-Epoch"] == leader.epoch
        assert ask("PUT", "/v1/state/jobs/a", b"three").status == 200


# ---- Damage that the store itself finds ------------------------------------

def slot_of(store, key):
    """The newest slot of a register."""
    return max((pathlib.Path(store[5:].split("?")[0]) / key).glob("@*"))


def flip_data(path):
    """Of a document, or of a root that has announced it."""
    content = path.read_bytes()
    path.write_bytes(content.replace(b"content", b"cOntent") if b"content" in content
                     else content.replace(b"bad\n", b"bAd\n"))


def flip_line(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b" nonce=", b" nonze="))


def instead(make):
    def spoil(path):
        path.unlink()
        make(path)
    return spoil


SLOTS = {"data": flip_data, "line": flip_line, "empty": lambda path: path.write_bytes(b""),
         "cut": lambda path: os.truncate(path, 180),
         "longer": lambda path: path.write_bytes(path.read_bytes() + b"x" * 2_200_000),
         "link": instead(lambda path: path.symlink_to("/etc/passwd")), "folder": instead(pathlib.Path.mkdir)}
ROWS = {"version": "version = -5", "last-version": f"version = {2 ** 63 - 1}",
        "late-version": f"version = {2 ** 62}", "nonce": "nonce = x'00'",
        "prev": "prev = x'0102'", "tombstone": "tombstone = 7",
        "long": "data = zeroblob(1200000)"}
LOOSE = {"text-version": "version = 'seven'",
         "text-nonce": "nonce = '0123456789abcdef'", "null-data": "data = NULL",
         "text-data": "data = 'text'", "text-tombstone": "tombstone = 'no'"}


def spoil_row(path, key, change, loose):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = 1")
        if loose:  # as a page would be whose bytes have changed
            db.execute("PRAGMA writable_schema = 1")
            db.execute("UPDATE sqlite_schema SET sql = replace(replace(sql, ' STRICT', ''), 'NOT NULL', '')"
                       " WHERE name = 'register'")
            db.execute("PRAGMA writable_schema = RESET")
        assert db.execute(f"UPDATE register SET {change} WHERE key = ?", (key,)).rowcount == 1


def flip_version(path, key):
    """One byte of the row on the disk: the index of the versions does not know of it."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        version, nonce = db.execute("SELECT version, nonce FROM register WHERE key = ?", (key,)).fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(pathlib.Path(path).read_bytes())
    at = content.index(key.encode() + bytes([version]) + nonce) + len(key)
    content[at] = 0x85
    pathlib.Path(path).write_bytes(content)


def spoiled(scheme, how, tmp_path):
    """A store, and what damages a register of it."""
    if scheme == "slots":
        store = f"file:{tmp_path}/store?commits=slots"
        return store, lambda key: SLOTS[how](slot_of(store, key))
    if how == "byte":
        return f"sqlite:{tmp_path}/db", lambda key: flip_version(tmp_path / "db", key)
    return f"sqlite:{tmp_path}/db", lambda key: spoil_row(tmp_path / "db", key, {**ROWS, **LOOSE}[how], how in LOOSE)


CASES = [("slots", how) for how in SLOTS] + [("sqlite", how) for how in [*ROWS, *LOOSE, "byte"]]


@pytest.mark.parametrize("scheme,how", CASES, ids=[f"{scheme}-{how}" for scheme, how in CASES])
def test_damage_that_the_store_finds(tmp_path, scheme, how):
    """Told with its place by every verb, never taken for absent; kept, and replaced on order."""
    store, spoil = spoiled(scheme, how, tmp_path)
    for name in ("bad", "good"):
        assert cli(store, "put", f"jobs/{name}", input=b"content of %s\n" % name.encode()).returncode == 0
    assert cli(store, "put", "jobs-2/other", input=b"x").returncode == 0
    before = cli(store, "export").stdout
    spoil("app/state/jobs/bad")
    listed = cli(store, "show", "--json")
    rows = {(row["collection"], row["id"]): row["damage"]
            for row in map(json.loads, listed.stdout.splitlines())}
    assert listed.returncode == 1 and b"tenure state repair" in listed.stderr
    assert [key for key, damage in rows.items() if damage] == [("jobs", "bad")] and len(rows) == 3
    assert "app/state/jobs/bad" in rows["jobs", "bad"] and str(tmp_path) in rows["jobs", "bad"]
    text = cli(store, "show", "jobs")
    assert text.returncode == 1 and re.search(rb"^jobs/bad  damaged: .*app/state/jobs/bad", text.stdout, re.M)
    backup = tmp_path / "backup"
    backup.write_bytes(before)
    for args in (["get", "jobs/bad"], ["put", "jobs/bad"], ["delete", "jobs/bad"], ["import", backup]):
        refused = cli(store, *args, input=b"over it")
        first = refused.stderr.splitlines()[0]
        assert refused.returncode == 1 and refused.stdout == b""
        assert b"app/state/jobs/bad" in first and b"tenure state repair" in first, first
    exported = cli(store, "export")
    assert exported.returncode == 1 and b"jobs/bad is damaged" in exported.stderr
    assert exported.stdout.splitlines() == [line for line in before.splitlines() if b'"bad"' not in line]
    done = cli(store, "repair", "jobs/bad", "-", "--json", input=b"new")
    assert done.returncode == 0, done.stderr
    assert cli(store, "get", "jobs/bad").stdout == b"new"
    kept = cli(store, "get", json.loads(done.stdout)["kept"])
    assert kept.returncode == 0
    if how in ("data", "line", "longer", *ROWS, "text-nonce", "byte") and how != "long":
        assert b"ntent of bad\n" in kept.stdout
    assert cli(store, "show").returncode == 0
    assert cli(store, "get", "jobs/good").stdout == b"content of good\n"
    # It is a document like any other again, and so is the rest of the store.
    assert cli(store, "import", backup).returncode == 0
    assert cli(store, "get", "jobs/bad").stdout == b"content of bad\n"
    if scheme == "sqlite" and how not in LOOSE:
        with contextlib.closing(sqlite3.connect(tmp_path / "db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def renumber(_store, tmp_path):
    """As the documentation says."""
    page = (pathlib.Path(__file__).parents[2] / "docs/explanation/internals/sqlite.md").read_text()
    statement = re.search(r"^UPDATE register .*?;$", page, re.M | re.S)[0]
    with contextlib.closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as db:
        assert db.execute(statement).rowcount == 1


def repaired(store, _tmp_path):
    assert cli(store, "repair", "jobs/bad", "-", input=b"bad").returncode == 0


@pytest.mark.parametrize("version", [2 ** 63 - 1, 2 ** 63 - 9, 2 ** 62])
@pytest.mark.parametrize("way_out", [repaired, renumber])
def test_a_version_that_leaves_no_room(tmp_path, version, way_out):
    """Nobody writes any more, and is told the row; afterwards no number comes back that was given out."""
    store = f"sqlite:{tmp_path}/db"
    for name in ("good", "bad"):
        assert cli(store, "put", f"jobs/{name}", input=name.encode()).returncode == 0
    with tenure.Store(store) as s:
        good, bad = s.read("app/state/jobs/good").token, s.read("app/state/jobs/bad").token
        assert int(bad.version) > int(good.version)  # the highest of all: nothing else knows of it
        _, mark = s.list("app/state/")
        spoil_row(tmp_path / "db", "app/state/jobs/bad", f"version = {version}", False)
        for key, expect in (("app/state/jobs/good", good), ("app/new", None)):
            refused = s.swap(key, expect)
            assert refused.status == "corrupt" and "'app/state/jobs/bad'" in refused.text, refused
            assert str(version) in refused.text and "docs/explanation/internals/sqlite.md" in refused.text
        with pytest.raises(tenure.StoreError):
            s.read("app/state/jobs/bad")
        assert s.read("app/state/jobs/good").token == good
        way_out(store, tmp_path)
        after = s.read("app/state/jobs/bad").token
        assert after.nonce != bad.nonce
        for key, value in s.list("")[0]:  # nor does who repairs write under one first
            assert int(value.token.version) < int(bad.version) or int(value.token.version) > 2 ** 42, key
        assert int(after.version) > 2 ** 42
        assert s.wait([("app/state/", mark)])  # whoever had listed before learns of it
        assert s.swap("app/state/jobs/bad", bad).status == "conflict"
        done = s.swap("app/state/jobs/good", good, b"next")
        assert done.status == "ok" and int(done.token.version) > int(after.version)
    assert cli(store, "get", "jobs/bad").stdout == b"bad"
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("scheme,how", [("slots", "data"), ("slots", "empty"), ("sqlite", "nonce"), ("sqlite", "byte")])
def test_a_root_that_the_store_finds_damaged(tmp_path, scheme, how):
    store, spoil = spoiled(scheme, how, tmp_path)
    for name in ("a", "bad"):
        assert cli(store, "put", f"jobs/{name}", input=name.encode()).returncode == 0
    assert cli(store, "put", "jobs.x/a", input=b"x").returncode == 0
    spoil("app/state/jobs")
    shown = cli(store, "show")
    assert shown.returncode == 1 and b"tenure state repair" in shown.stderr
    assert [line.split(b"  ")[0] for line in shown.stdout.splitlines()] == [b"jobs", b"jobs/a", b"jobs/bad", b"jobs.x/a"]
    first = json.loads(cli(store, "show", "jobs", "--json").stdout.splitlines()[0])
    assert first["id"] == "" and "app/state/jobs" in first["damage"]
    exported = cli(store, "export")
    assert exported.returncode == 1 and len(exported.stdout.splitlines()) == 3
    assert b"the root of jobs is damaged" in exported.stderr
    refused = cli(store, "put", "jobs/new", input=b"x")
    assert refused.returncode == 1 and b"tenure state repair" in refused.stderr
    assert cli(store, "get", "jobs/a").stdout == b"a"  # which needs no root
    assert cli(store, "repair", "jobs").returncode == 0
    assert cli(store, "put", "jobs/new", input=b"x").returncode == 0
    assert cli(store, "show").returncode == 0


def test_a_root_that_announces_nonsense(store):
    fill(store)
    head = raw(store, "app/state/jobs").split(b"\n", 1)[0]
    version = damage(store, "app/state/jobs", head + b"\n\n\n")
    shown = cli(store, "show")
    assert shown.returncode == 1 and f"jobs  damaged: register app/state/jobs, version {version}" in \
        shown.stdout.decode()
    assert cli(store, "repair", "jobs").returncode == 0
    assert cli(store, "show").returncode == 0


def test_the_largest_and_the_longest(store):
    """What is kept is longer than a document may be; and its name longer than an id."""
    name = "x" * 200
    largest = b"z" * (2 ** 20 - 4096)
    for key in ("big", name):
        assert cli(store, "put", f"jobs/{key}", input=largest).returncode == 0
    junk = b"j" * 2 ** 20
    for key in ("big", name):
        damage(store, f"app/state/jobs/{key}", junk)
        done = cli(store, "repair", f"jobs/{key}", "-", "--json", input=b"new")
        assert done.returncode == 0, done.stderr
        kept = json.loads(done.stdout)["kept"]
        assert cli(store, "get", kept).stdout + cli(store, "get", f"{kept}+2").stdout == junk
        assert cli(store, "get", f"jobs/{key}").stdout == b"new"


def test_the_floor_outlives_the_damage(store, tmp_path):
    """Neither a document nor a root comes back under an epoch that is older than the lease's (I3)."""
    lease = f"file:{tmp_path}/lease"
    with Leader(tmp_path, lease, "--state", store) as leader:
        ask = leader.leads().ask
        assert ask("PUT", "/v1/state/jobs/a", b"one").status == 200
        first = int(leader.epoch)
    with Leader(tmp_path, lease, "--state", store) as leader:
        leader.leads()  # it seals the root, and has not looked at the document
        second = int(leader.epoch)
    assert first < second
    for key in ("app/state/jobs", "app/state/jobs/a"):
        damage(store, key)
    assert cli(store, "repair", "jobs", "--lease", lease, "--force").returncode == 0
    root = raw(store, "app/state/jobs")
    assert root.startswith(b"tenure-doc 1 %d " % second)
    assert cli(store, "repair", "jobs/a", "-", "--lease", lease, "--force", input=b"two").returncode == 0
    assert raw(store, "app/state/jobs/a").split(b" ")[2:4] == root.split(b" ")[2:4]
    # Without the lease, what is left of the state tells it.
    damage(store, "app/state/jobs/a")
    assert cli(store, "repair", "jobs/a", "-", "--force", input=b"three").returncode == 0
    assert raw(store, "app/state/jobs/a").startswith(b"tenure-doc 1 %d " % second)
    damage(store, "app/state/jobs")
    assert cli(store, "repair", "jobs", "--force").returncode == 0
    assert raw(store, "app/state/jobs").startswith(b"tenure-doc 1 %d " % second)


def test_a_lease_that_cannot_tell_the_floor(tmp_path):
    """The fence does not sink below a grant because the record of it is junk (I3); unless forced."""
    store, lease = f"sqlite:{tmp_path}/db", f"file:{tmp_path}/lease"
    with Leader(tmp_path, lease, "--state", store) as leader:
        assert leader.leads().ask("PUT", "/v1/state/jobs/a", b"one").status == 200
    with Leader(tmp_path, lease, "--state", store) as leader:
        leader.leads()  # it seals the root alone: nothing else in the state knows of it
        second = int(leader.epoch)
    damage(store, "app/state/jobs")
    damage(lease, "app/lease")
    refused = cli(store, "repair", "jobs", "--lease", lease)
    assert refused.returncode == 1 and refused.stderr.count(b"\n") == 1, refused.stderr
    assert b"--force" in refused.stderr and b"tenure reset" in refused.stderr
    assert raw(store, "app/state/jobs") == JUNK
    assert reset(lease, "--epoch-above", str(second)).returncode == 0
    assert cli(store, "repair", "jobs", "--lease", lease).returncode == 0
    assert int(raw(store, "app/state/jobs").split(b" ")[2]) > second
    for place, key in ((store, "app/state/jobs"), (lease, "app/lease")):
        damage(place, key)
    assert cli(store, "repair", "jobs", "--lease", lease, "--force").returncode == 0


def test_ids_that_are_not_utf8_are_refused(store, tmp_path):
    """An earlier build took them: they are shown, exported and removed, but none is made."""
    for name in (b"old", b"caf\xc3\xa9", b"tab\there"):
        assert cli(store, "put", b"jobs/" + name, input=name).returncode == 0
    for name in (b"\xff\xfe", b"cut\xc3", b"\xed\xa0\x80"):
        refused = cli(store, "put", b"jobs/" + name, input=name)
        assert refused.returncode == 2 and b"UTF-8" in refused.stderr, refused
    damage(store, "app/state/jobs/_ff_fe", raw(store, "app/state/jobs/old"))
    assert cli(store, "delete", "jobs/old").returncode == 0
    done = cli(store, "export")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3
    rows = [json.loads(line) for line in cli(store, "show", "--json").stdout.splitlines()]
    assert sorted((row.get("id"), row.get("id_base64")) for row in rows if "id" in row) == \
        [("caf\xe9", None), ("tab\there", None)]
    assert [row["id_base64"] for row in rows if "id" not in row] == ["//4="]
    backup = tmp_path / "backup"
    backup.write_bytes(done.stdout)
    other = f"sqlite:{tmp_path}/other"
    refused = cli(other, "import", backup)
    assert refused.returncode == 1 and b"UTF-8" in refused.stderr
    assert cli(store, "get", b"jobs/\xff\xfe").stdout == b"old"
    assert cli(store, "delete", b"jobs/\xff\xfe").returncode == 0
    backup.write_bytes(cli(store, "export").stdout)
    assert cli(other, "import", backup).returncode == 0
    assert cli(other, "export").stdout == backup.read_bytes()
    backup.write_text('{"collection":"jobs","id":"a\\u0000b","data":"x"}\n')
    assert cli(other, "import", backup).returncode == 1  # no part of a name is a name
    assert cli(other, "get", "jobs/a").returncode == 3


@pytest.mark.parametrize("scheme,how", [("slots", "line"), ("slots", "empty"), ("sqlite", "nonce"),
                                        ("sqlite", "text-version")])
def test_the_lease_itself(tmp_path, scheme, how):
    """Nobody claims a lease that the store cannot read; an operator resets it, and epochs go on."""
    store, spoil = spoiled(scheme, how, tmp_path)
    run = [TENURE, "run", "--store", store, "--name", "app", "--log", "none", "--", "sh", "-c", "echo $TENURE_EPOCH"]
    first = subprocess.run(run, capture_output=True, timeout=60, check=True).stdout
    spoil("app/lease")
    options = ["--store", store, "--name", "app", "--timeout", "60s"]
    refused = subprocess.run([TENURE, "status", *options], capture_output=True, timeout=60)
    assert refused.returncode != 0 and b"app/lease" in refused.stdout + refused.stderr
    if how == "empty":  # it tells no epoch
        assert reset(store).returncode == 1
        done = reset(store, "--epoch-above", first.decode().strip())
    else:
        done = reset(store)
    assert done.returncode == 0, done.stderr
    second = subprocess.run(run, capture_output=True, timeout=60, check=True).stdout
    assert int(second) > int(done.stdout.split()[-1]) > int(first)


@pytest.mark.parametrize("whose", ["disk", "program"])
def test_a_reset_does_not_go_back(tmp_path, whose):
    """An epoch above the time is still legible, in what the store cannot read and in what it can (I2)."""
    store, high = f"file:{tmp_path}/store", 2 ** 52
    run = [TENURE, "run", "--store", store, "--name", "app", "--log", "none", "--", "sh", "-c", "echo $TENURE_EPOCH"]
    damage(store, "app/lease")
    assert reset(store, "--epoch-above", str(high)).returncode == 0
    first = subprocess.run(run, capture_output=True, timeout=60, check=True).stdout
    if whose == "disk":
        slot = slot_of(store, "app/lease")
        slot.write_bytes(slot.read_bytes().replace(b'"ttl_ms"', b'"ttl_mz"'))
    else:
        damage(store, "app/lease", raw(store, "app/lease").replace(b'"ttl_ms"', b'"ttl_mz"'))
    done = reset(store)
    assert done.returncode == 0, done.stderr
    second = subprocess.run(run, capture_output=True, timeout=60, check=True).stdout
    assert int(second) > int(done.stdout.split()[-1]) > int(first) > high


def test_a_reset_of_no_known_epoch(tmp_path):
    """Refused, whether the number is gone, cut, changed or out of bounds; an operator says what it was."""
    store = f"sqlite:{tmp_path}/db"
    sane = b'{"holder":"a","epoch":%s,"ttl_ms":15000,"incarnation":"' + b"0" * 32 + b'","grant":"' + b"0" * 32 + b'"}'
    for junk in (JUNK, b'{"epoch":12', b'{"epoch":1x2}', b'{"epoch":%d}' % (2 ** 53), b'{"epoch":5,"x":{"epoch":}}',
                 sane % b"0", sane % b"9007199254740991"):
        damage(store, "app/lease", junk)
        refused = reset(store)
        assert refused.returncode == 1 and refused.stderr.count(b"\n") == 1, junk
        assert b"--epoch-above" in refused.stderr and b"--force" in refused.stderr
        assert raw(store, "app/lease") == junk
    done = reset(store, "--epoch-above", str(2 ** 52))
    assert done.returncode == 0 and int(done.stdout.split()[-1]) > 2 ** 52
    damage(store, "app/lease")
    assert reset(store, "--force").returncode == 0


@pytest.mark.parametrize("scheme,how", [("slots", "line"), ("sqlite", "version")])
def test_a_leader_beside_damage(tmp_path, scheme, how):
    """What is damaged keeps nobody from leading with the rest; the leader does not write over it.
    Only a seal of the whole wants it repaired first, where the store does not look before it writes."""
    store, spoil = spoiled(scheme, how, tmp_path)
    whole = [] if scheme == "sqlite" else ["--seal", "jobs"]
    for name in ("bad", "good"):
        assert cli(store, "put", f"jobs/{name}", input=name.encode()).returncode == 0
    spoil("app/state/jobs/bad")
    with Leader(tmp_path, f"file:{tmp_path}/lease", "--state", store, *whole) as leader:
        ask = leader.leads().ask
        assert ask("GET", "/v1/state/jobs/bad").error() == (500, "corrupt")
        for method, body in (("PUT", b"over it"), ("DELETE", None)):
            assert ask(method, "/v1/state/jobs/bad", body).error() == (500, "corrupt")
        assert ask("PUT", "/v1/state/jobs/good", b"2").status == 200
        batch = {"commits": [{"collection": "jobs", "id": "bad", "data": "x"},
                             {"collection": "jobs", "id": "good", "data": "3"}]}
        answer = ask("POST", "/v1/state", json.dumps(batch).encode())
        assert [r["status"] for r in json.loads(answer.body)["results"]] == ["corrupt", "ok"]
        listed = json.loads(ask("GET", "/v1/state/jobs").body)["documents"]
        assert [(d["id"], "damage" in d) for d in listed] == [("bad", True), ("good", False)]
        assert cli(store, "repair", "jobs/bad", "-", "--force", input=b"repaired").returncode == 0
        assert ask("GET", "/v1/state/jobs/bad").body == b"repaired"
        assert ask("PUT", "/v1/state/jobs/bad", b"4").status == 200


def newest_journal(tmp_path, collection="jobs"):
    return max((tmp_path / f"store/app/state/{collection}").glob("+*"))


def overwrite(path, at, content):
    with open(path, "r+b") as journal:
        journal.seek(at)
        journal.write(content)


def block_of(path, words):
    """Where the frame begins that holds these words for the last time."""
    return path.read_bytes().rindex(words) // 512 * 512


JOURNALS = {"first-line": lambda path: overwrite(path, 0, bytes(512)),
            "first-page": lambda path: overwrite(path, 0, os.urandom(4096)),
            "frame": lambda path: overwrite(path, block_of(path, b"two of b"), bytes(48)),
            "entry": lambda path: overwrite(path, block_of(path, b"two of b") + 48 + 16, b"\xff" * 8),
            "block": lambda path: overwrite(path, block_of(path, b"two of b"), os.urandom(512))}


@pytest.mark.parametrize("how", list(JOURNALS))
def test_a_journal_that_cannot_be_read(tmp_path, how):
    """It is told, is not taken for empty and hides no other collection.  A repair of the root goes on from
    what is left; each document is repaired by itself, because it may have been newer; all is kept."""
    store = f"file:{tmp_path}/store"
    assert cli(store, "put", "other/x", input=b"1").returncode == 0
    for turn in ("one", "two"):
        lines = [json.dumps({"collection": "jobs", "id": name, "data": f"{turn} of {name}"}) for name in "abcd"]
        assert cli(store, "import", "-", input="\n".join(lines).encode()).returncode == 0
    assert cli(store, "delete", "jobs/d").returncode == 0
    lines = [json.dumps({"collection": "jobs", "id": name, "data": f"two of {name}"}) for name in "bca"]
    assert cli(store, "import", "-", input="\n".join(lines).encode()).returncode == 0
    newest = newest_journal(tmp_path)
    JOURNALS[how](newest)
    spoiled_bytes = newest.read_bytes()
    shown = cli(store, "show")
    assert shown.returncode == 1 and str(newest).encode() in shown.stderr
    assert [line.split(b"  ")[0] for line in shown.stdout.splitlines()] == [b"jobs", b"other/x"]
    assert cli(store, "show", "other").returncode == 0
    for args in (["show", "jobs"], ["get", "jobs/a"], ["get", "jobs/new"], ["put", "jobs/new"],
                 ["repair", "jobs/a", "--delete"], ["export"]):
        refused = cli(store, *args, input=b"x")
        assert refused.returncode == 1 and str(newest).encode() in refused.stderr, args
    assert newest.read_bytes() == spoiled_bytes and newest_journal(tmp_path) == newest
    assert cli(store, "repair", "jobs").returncode == 0
    asides = list(newest.parent.glob(".damaged-*"))
    assert spoiled_bytes in [path.read_bytes() for path in asides]
    listed = cli(store, "show", "jobs", "--json")
    rows = {row["id"]: row["damage"] for row in map(json.loads, listed.stdout.splitlines())}
    assert listed.returncode == 1 and {"a", "b", "c", "d"} == set(rows) and all(rows.values())
    assert all(".damaged-" in rows[name] for name in "ac")
    for name in "abc":
        told = cli(store, "get", f"jobs/{name}")
        assert told.returncode == 1 and told.stdout == b""
        assert cli(store, "put", f"jobs/{name}", input=b"over it").returncode == 1
        done = cli(store, "repair", f"jobs/{name}", "-", "--json", input=b"three")
        assert done.returncode == 0, done.stderr
        kept = cli(store, "get", json.loads(done.stdout)["kept"]).stdout.split(b"\n", 1)
        assert kept[1] in (f"one of {name}".encode(), f"two of {name}".encode())
        assert cli(store, "get", f"jobs/{name}").stdout == b"three"
    assert cli(store, "repair", "jobs/d", "--delete").returncode == 0
    assert cli(store, "show").returncode == 0 and cli(store, "get", "jobs/d").returncode == 3
    for turn in range(6):  # more take-overs than journals stay
        assert cli(store, "put", "jobs/new", input=b"%d" % turn).returncode == 0
    assert not newest.exists() and spoiled_bytes in [path.read_bytes() for path in asides]


def test_nothing_comes_back_with_what_is_left_of_a_journal(tmp_path):
    """A token that was replaced once is current in what is left, and yet replaces nothing (I3)."""
    store, root, x, y = f"file:{tmp_path}/store", "app/state/jobs", "app/state/jobs/x", "app/state/jobs/y"
    with tenure.Store(store) as writer:
        writer.swap(root, None, b"root")
        first = writer.swap(x, None, b"one").token
        second = writer.swap(x, first, b"the second").token
        other = writer.swap(y, None, b"content of y").token
        journal = newest_journal(tmp_path)
    overwrite(journal, block_of(journal, b"the second"), bytes(512))
    with tenure.Store(store) as plain, tenure.Store(f"{store}?repair=yes") as repairer:
        for key in (root, x, y):
            with pytest.raises(tenure.StoreError, match="corrupt"):
                plain.read(key)
        left = repairer.read(x)
        assert (left.token, left.data) == (first, b"one")
        assert [key for key, _ in repairer.list("app/")[0]] == [root, x, y]
        assert repairer.swap(x, second, b"blind").status == "conflict"

        def nobody_writes():
            for key, token in ((x, first), (x, second), (x, None), (y, other)):
                assert plain.swap(key, token, b"stale").status in ("corrupt", "conflict")
            for key in (x, y):
                with pytest.raises(tenure.StoreError, match="corrupt"):
                    plain.read(key)

        nobody_writes()
        assert repairer.swap(root, repairer.read(root).token, b"new root").status == "ok"
        assert plain.read(root).data == b"new root"
        nobody_writes()
        for number in range(4):  # over every take-over
            with tenure.Store(store) as another:
                assert another.swap(f"app/state/jobs/new{number}", None, b"z").status == "ok"
        nobody_writes()
        repaired = repairer.swap(x, first, b"repaired")
        assert repaired.status == "ok" and plain.read(x).data == b"repaired"
        for token in (first, second):
            assert plain.swap(x, token, b"stale").status == "conflict"
        assert plain.swap(x, repaired.token, b"next").status == "ok"
        with pytest.raises(tenure.StoreError, match="corrupt"):
            plain.read(y)
        assert repairer.read(y).data == b"content of y"


def test_a_writer_that_goes_on_while_its_journal_is_repaired(tmp_path):
    """It has its own in memory, and does not notice.  Whatever it was answered is in what is left (J2)."""
    for turn in range(5):
        store, root, x = f"file:{tmp_path}/store", f"app/state/jobs{turn}", f"app/state/jobs{turn}/x"
        with tenure.Store(store) as writer, tenure.Store(f"{store}?repair=yes") as repairer:
            writer.swap(root, None, b"root")
            done = [writer.swap(x, None, b"0")]
            overwrite(newest_journal(tmp_path, f"jobs{turn}"), 0, bytes(512))

            def write():
                while done[-1].status == "ok":
                    done.append(writer.swap(x, done[-1].token, b"%d" % len(done)))

            thread = threading.Thread(target=write)
            thread.start()
            until(lambda: len(done) > 20)
            found = repairer.read(root)
            assert found.data == b"root" and repairer.swap(root, found.token, b"new").status == "ok"
            thread.join()
            assert done[-1].status in ("corrupt", "unknown") and int(repairer.read(x).data) >= len(done) - 2


def test_a_journal_of_which_nothing_is_left(tmp_path):
    """Without the root there is nothing to go on from: it stays as it is, and is not taken for empty."""
    store = f"file:{tmp_path}/store"
    assert cli(store, "put", "jobs/a", input=b"1").returncode == 0
    for journal in newest_journal(tmp_path).parent.glob("+*"):
        journal.write_bytes(bytes(journal.stat().st_size))
    before = sorted((path.name, path.read_bytes()) for path in newest_journal(tmp_path).parent.iterdir())
    for args in (["repair", "jobs"], ["repair", "jobs/a", "--delete"], ["get", "jobs/a"], ["put", "jobs/a"]):
        refused = cli(store, *args, input=b"x")
        assert refused.returncode == 1 and str(newest_journal(tmp_path)).encode() in refused.stderr, args
    assert before == sorted((path.name, path.read_bytes()) for path in newest_journal(tmp_path).parent.iterdir())


def test_the_floor_outlives_a_journal(tmp_path):
    """The last seal is lost with its frame; the lease still tells it (I3)."""
    store, lease = f"file:{tmp_path}/store", f"sqlite:{tmp_path}/lease"
    epochs = []
    for turn in (b"one", b"two"):
        with Leader(tmp_path, lease, "--state", store) as leader:
            assert leader.leads().ask("PUT", "/v1/state/jobs/a", turn).status == 200
            epochs.append(int(leader.epoch))
    for journal in newest_journal(tmp_path).parent.glob("+*"):  # all that the second one wrote, with its heads
        content = bytearray(journal.read_bytes())
        for found in re.finditer(b"tenure-doc 1 %d " % epochs[1], content):
            content[found.start() - 80:found.end()] = b"x" * (80 + found.end() - found.start())
        journal.write_bytes(content)
    overwrite(newest_journal(tmp_path), 0, bytes(512))
    assert epochs[0] < epochs[1] and cli(store, "show", "jobs").returncode == 1
    with tenure.Store(f"{store}?repair=yes") as repairer:
        assert repairer.read("app/state/jobs").data.startswith(b"tenure-doc 1 %d " % epochs[0])
    assert cli(store, "repair", "jobs", "--lease", lease).returncode == 0
    assert raw(store, "app/state/jobs").startswith(b"tenure-doc 1 %d " % epochs[1])
    assert cli(store, "repair", "jobs/a", "-", "--lease", lease, input=b"three").returncode == 0
    assert raw(store, "app/state/jobs/a").startswith(b"tenure-doc 1 %d " % epochs[1])


@pytest.mark.parametrize("scheme,how", [("slots", "line"), ("sqlite", "nonce")])
def test_several_at_once(tmp_path, scheme, how):
    """One of them repairs it; what that one wrote is not taken for damage by the others."""
    store, spoil = spoiled(scheme, how, tmp_path)
    for number in range(3):
        name = f"bad{number}"
        assert cli(store, "put", f"jobs/{name}", input=b"content").returncode == 0
        spoil(f"app/state/jobs/{name}")
        command = [TENURE, "state", "repair", f"jobs/{name}", "-", "--store", store, "--name", "app",
                   "--timeout", "60s"]
        rivals = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL) for _ in range(5)]
        for i, rival in enumerate(rivals):
            rival.stdin.write(b"by %d" % i)
            rival.stdin.close()
        done = [i for i, rival in enumerate(rivals) if rival.wait(120) == 0]
        assert len(done) == 1 and cli(store, "get", f"jobs/{name}").stdout == b"by %d" % done[0]
    assert len(cli(store, "show", "jobs.damaged").stdout.splitlines()) == 3
