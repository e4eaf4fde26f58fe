"""Power cuts: commits to file: and sqlite: are traced, and the disk is brought into the states that
a crash may leave at each call.  Every one of them shows what was acknowledged, or newer.

STATES=3400 different ones for each of three ways to commit, unless told otherwise.
"""

import contextlib
import itertools
import os
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile

import crash
import pytest
import tenure

STATES = int(os.environ.get("STATES", "3400"))
COMMITS = 24
REPAIR_STATES = STATES // 3400  # at each call of a repair, beside none and all of what is not flushed


@pytest.fixture
def place():
    """In memory if there is such a place: a flush is of no use here."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="tenure-crash-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


COUNT = itertools.count()


def fresh(place):
    """After a crash processes are new, and ours is not: what it has used once it makes no more."""
    return place / f"state{next(COUNT)}"


SCHEMES = ["file", "slots", "sqlite"]  # in place; a slot a commit, as on network file systems


def url_of(scheme, folder):
    return {"file": f"file:{folder}", "slots": f"file:{folder}?commits=slots",
            "sqlite": f"sqlite:{folder}/db", "empty": f"sqlite:{folder}/db"}[scheme]


def commit_load(build, strace, url, *args):
    done = subprocess.run(
        [*strace, build / "tests/fault/commit_load", url, *args], capture_output=True, text=True,
        timeout=300, env={**os.environ, "TENURE_BUILD": str(build)})
    if "ptrace" in done.stderr.lower():
        pytest.skip("tracing is not allowed here")
    return done


def trace(build, scheme, place, commits=COMMITS):
    root = place / "traced"
    if scheme == "sqlite":
        root.mkdir()
    done = commit_load(build, crash.strace(place / "log"), url_of(scheme, root), str(commits), "7")
    assert done.returncode == 0, done.stderr
    return root, crash.read_log(place / "log")


def choosers(rng, n):
    """Nothing of what was not flushed; all of it; then any part."""
    yield lambda size: 0
    yield lambda size: size
    for _ in range(n):
        whole = rng.random()  # how much is there, this time

        def any_part(size):
            if size <= 1 or rng.random() < 0.3:
                return size if rng.random() < whole else 0
            if size > crash.BLOCK and rng.random() < 0.5:
                return [rng.random() < whole for _ in range(0, size, crash.BLOCK)]
            if size > 512 and rng.random() < 0.5:
                return rng.randrange(size // 512 + 1) * 512
            return rng.randrange(size + 1)
        yield any_part


def lay_out(disk, state, target):
    target.mkdir()
    for folder in disk.folders:
        pathlib.Path(os.fsdecode(os.fsencode(str(target)) + folder[len(disk.root):])).mkdir(
            parents=True, exist_ok=True)
    for name, content in state.items():
        path = pathlib.Path(str(target) + os.fsdecode(name))
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


def shown(store, document):
    value = store.read("app/state/docs/" + document)
    found = re.match(rb"tenure-doc 1 1\d [0-9a-f]{32} (\d+) -\nvalue (\d+) *$", value.data)
    assert found, value
    return int(found.group(2))


def check(scheme, disk, state, target, write):
    lay_out(disk, state, target)
    acknowledged = [int(n) for n in re.findall(rb"ack (\d+)\n", disk.said)]
    with tenure.Store(url_of(scheme, target)) as store:
        for parity, document in enumerate("ab"):
            least = max(n for n in acknowledged if n % 2 == parity)
            got = shown(store, document)
            assert least <= got <= least + 2 and got % 2 == parity, (least, got)
        if write:  # and it goes on from there
            before = store.read("app/state/docs/a")
            assert store.swap("app/state/docs/a", before.token, before.data).status == "ok"
    shutil.rmtree(target)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_state_recovers(build, scheme, place):
    root, calls = trace(build, scheme, place)
    rng = random.Random(f"crash {scheme}")
    points = sum(1 for _ in replay(root, calls))
    seen, count, rounds = set(), 0, 0
    while len(seen) < STATES and rounds < 500:
        rounds += 1
        for disk in replay(root, calls):
            for choose in choosers(rng, (STATES - len(seen)) // points + 1):
                state = disk.after_crash(choose)
                key = hash((disk.said, tuple(sorted(state.items()))))
                count += 1
                if key in seen:
                    continue
                seen.add(key)
                check(scheme, disk, state, fresh(place), count % 20 == 0)
    print(f"{scheme}: {len(seen)} different states at {points} calls, of {count} made up")
    assert len(seen) >= STATES


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_missing_flush_is_caught(build, scheme, place):
    """The test itself: the same calls without the flushes do not pass."""
    root, calls = trace(build, scheme, place)
    rng = random.Random(f"missing {scheme}")
    calls = [call for call in calls if call.name not in ("fsync", "fdatasync")]
    with pytest.raises((AssertionError, tenure.StoreError)):
        for disk in replay(root, calls):
            for choose in choosers(rng, 3):
                check(scheme, disk, disk.after_crash(choose), fresh(place), False)


# ---- A new store -----------------------------------------------------------


def check_new(scheme, disk, state, target):
    """What was acknowledged is there, from the very first commit on."""
    lay_out(disk, state, target)
    (target / "store").mkdir(exist_ok=True)
    acknowledged = [int(n) for n in re.findall(rb"ack (\d+)\n", disk.said)]
    try:
        with tenure.Store(url_of(scheme, target / "store")) as store:
            values = [store.read("app/state/docs/" + document).data for document in "ab"]
    except tenure.StoreError as error:  # of a half-made one a person may be told
        assert not acknowledged and error.status in ("config", "corrupt"), error
        values = []
    for n in acknowledged:
        assert re.search(rb"value (\d+) *$", values[n % 2]), (n, values)
        assert int(re.search(rb"value (\d+) *$", values[n % 2]).group(1)) >= n
    shutil.rmtree(target)


@pytest.mark.parametrize("scheme", SCHEMES + ["empty"])
def test_a_new_store_keeps_its_first_commit(build, scheme, place):
    """Even if whoever made it was killed at a flush and another went on: directories are flushed
    before anybody can build on what is in them.  And if an empty file is all that sqlite: finds,
    or all that the file system lets it make."""
    rng = random.Random(f"new {scheme}")
    states = set()
    for kill_at in range(100):
        folder = place / "disk"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "store").mkdir(parents=True)
        if scheme == "empty":
            (folder / "store" / "db").touch()
        elif scheme != "sqlite":
            (folder / "store").rmdir()
        disk = crash.Disk(folder, new=True)
        disk.load()
        url = url_of(scheme, folder / "store")
        kill = ["-e", f"inject=fsync,fdatasync:signal=KILL:when={kill_at}"]
        if kill_at and commit_load(build, crash.strace(place / "log1") + kill, url, "0").returncode == 0:
            break  # it has no more flushes
        assert commit_load(build, crash.strace(place / "log2"), url, "0").returncode == 0
        for log in ["log1", "log2"] if kill_at else ["log2"]:
            disk.next_process()
            for call in crash.read_log(place / log):
                if not disk.apply(call) and call.name != "write":
                    continue
                for choose in choosers(rng, 4):
                    state = disk.after_crash(choose)
                    key = hash((disk.said, tuple(sorted(state.items(), key=str))))
                    if key not in states:
                        states.add(key)
                        check_new(scheme, disk, state, fresh(place))
        assert b"ack 1" in disk.said
    else:
        pytest.fail("it flushes more often than it was killed")
    print(f"{scheme}: {len(states)} different states, killed at {kill_at - 1} flushes")
    assert kill_at > 3 and len(states) > 100


# ---- A repair --------------------------------------------------------------

JUNK = b"what is not a document"
REPAIRED = re.compile(rb"tenure-doc 1 10 [0-9a-f]{32} 1 o\nnew$")


def spoil(scheme, root):
    """Damage that the store finds, and in a journal, where the last frame may be torn, any other."""
    if scheme == "slots":
        max((root / "app/state/docs/a").glob("@*")).write_bytes(JUNK)
    elif scheme == "sqlite":
        with contextlib.closing(sqlite3.connect(root / "db", isolation_level=None)) as db:
            db.execute("PRAGMA ignore_check_constraints = 1")
            db.execute("UPDATE register SET nonce = x'00', data = ? WHERE key = 'app/state/docs/a'", (JUNK,))
    else:
        with tenure.Store(url_of(scheme, root)) as store:
            assert store.swap("app/state/docs/a", store.read("app/state/docs/a").token, JUNK).status == "ok"


def kept(store):
    """What is kept of the document, whole."""
    return [value.data for key, value in store.list("app/state/docs.damaged/")[0]
            if value.data.startswith(b"tenure-doc 1 ") and value.data.endswith(JUNK)]


def check_repair(scheme, disk, state, target):
    lay_out(disk, state, target)
    with tenure.Store(url_of(scheme, target)) as store:
        try:
            data = store.read("app/state/docs/a").data
        except tenure.StoreError as error:
            assert error.status == "corrupt", error
            data = JUNK
        done = REPAIRED.match(data)
        assert done or data == JUNK, data
        assert done or b"repaired" not in disk.said, "it was told"
        assert not done or len(kept(store)) == 1, "nothing is replaced that is not kept"
        assert shown(store, "b") == 1
    if not done:  # in its place, as it was; again, and it is repaired
        subprocess.run([disk.tenure, "state", "repair", "docs/a", "-", "--name", "app", "--force",
                        "--timeout", "60s", "--store", url_of(scheme, target)], input=b"new",
                       check=True, stdout=subprocess.DEVNULL, timeout=120)
        with tenure.Store(url_of(scheme, target)) as store:
            assert REPAIRED.match(store.read("app/state/docs/a").data) and len(kept(store)) == 1
    shutil.rmtree(target)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_repair_that_is_cut_drops_nothing(build, scheme, place):
    root, _ = trace(build, scheme, place, commits=0)
    spoil(scheme, root)
    disk = crash.Disk(root)
    disk.tenure = build / "tenure"
    disk.load()
    done = subprocess.run(
        [*crash.strace(place / "log"), build / "tenure", "state", "repair", "docs/a", "-", "--name", "app",
         "--timeout", "60s", "--store", url_of(scheme, root)], input=b"new", capture_output=True,
        timeout=300)
    assert done.returncode == 0, done.stderr
    rng = random.Random(f"repair {scheme}")
    seen = set()
    for call in crash.read_log(place / "log"):
        if not disk.apply(call):
            continue
        for choose in choosers(rng, REPAIR_STATES):
            state = disk.after_crash(choose)
            key = hash((disk.said, tuple(sorted(state.items()))))
            if key not in seen:
                seen.add(key)
                check_repair(scheme, disk, state, fresh(place))
    assert b"repaired" in disk.said
    print(f"{scheme}: {len(seen)} different states of a repair")
    assert len(seen) >= 10


def replay(root, calls):
    """The disk at each call that may change it, once the store is set up."""
    disk = crash.Disk(root)
    for call in calls:
        changed = disk.apply(call)
        if not disk.settled:
            if b"ready\n" in disk.said:
                disk.settle()
                yield disk
        elif changed:
            yield disk


# ---- The disk says no ------------------------------------------------------

@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS"])
@pytest.mark.parametrize("scheme,call", [("file", "write"), ("file", "fsync"), ("file", "link"),
                                         ("slots", "write"), ("slots", "fsync"),
                                         ("slots", "link"),
                                         ("sqlite", "write"), ("sqlite", "fsync")])
def test_an_error_is_told_and_loses_nothing(build, scheme, error, call, place):
    names = {"write": "pwrite64,writev", "fsync": "fsync,fdatasync", "link": "link,linkat"}
    met = 0
    for when in (4, 9, 15, 40) if scheme == "file" else (40, 90):
        root = place / f"{when}"
        if scheme == "sqlite":
            root.mkdir()
        done = commit_load(
            build, ["strace", "-f", "-o", "/dev/null", "-e", "trace=" + names[call],
                    "-e", f"inject={names[call]}:error={error}:when={when}+"],
            url_of(scheme, root), "60", "20")
        acknowledged = [int(n) for n in re.findall(r"ack (\d+)\n", done.stdout)]
        if "ready" not in done.stdout:
            continue
        met += done.returncode == 3
        with tenure.Store(url_of(scheme, root)) as store:
            for parity, document in enumerate("ab"):
                least = max(n for n in acknowledged if n % 2 == parity)
                assert least <= shown(store, document) <= least + 2
    assert met, "the error was never met by a commit"
