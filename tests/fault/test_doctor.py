"""tenure doctor: says ok of stores that are sound, and finds out those that are not.

The broken ones are tests/conformance/toy.c, a store with bugs that can be planted by name.
"""

import concurrent.futures
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
from process import until

BUILD = pathlib.Path(os.environ["TENURE_BUILD"])
MACHINE = {"clock", "timers", "guard"}  # what they say depends on where the tests run
SHARED = ["reach", "rights", "conditions", "tombstones", "batch", "list", "wait", "notify", "reads",
          "one winner", "lost writes", "deadlines", "latency", "session"]


def doctor(*options, tenure=BUILD / "tenure", env=None):
    return subprocess.run([tenure, "doctor", "--quick", *options], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=env, timeout=300)


def verdicts(*options, **more):
    """({promise: verdict}, the whole answer, exit code)"""
    done = doctor("--json", *options, **more)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    return {p["name"]: p["verdict"] for p in answer["promises"]}, answer, done.returncode


def assert_sound(url, **more):
    """Nothing is broken, and of the store itself all is well (a slow disk may be weak)."""
    found, answer, code = verdicts("--store", url, "--timeout", "30s", **more)
    assert code == 0, answer
    assert [n for n in found if n not in MACHINE] == SHARED
    weak = {n for n in found if found[n] != "ok"} - MACHINE - {"latency", "session"}
    assert not weak, answer
    assert set(found.values()) <= {"ok", "weak"}, answer
    for kind in ("swap", "read", "notify", "session"):
        spread = answer["latency"][kind]
        assert 0 <= spread["min_us"] <= spread["p50_us"] <= spread["p99_us"] <= spread["max_us"]
        assert spread["n"] > 0
    return answer


def assert_tombstones(url):
    """Nothing that the doctor wrote is left alive."""
    if not (BUILD / "libtenure.so").exists() or "asan" in BUILD.name or "tsan" in BUILD.name:
        return  # Python cannot load a sanitized library
    from tenure import Store

    with Store(url) as store:
        found, _ = store.list("tenure-doctor/")
    assert found and all(value.tombstone for _, value in found), found


# ---- Sound stores -----------------------------------------------------------

def test_sound_sqlite(tmp_path):
    answer = assert_sound(f"sqlite:{tmp_path}/store")
    assert answer["limits"] and answer["timing"]["hold_ms"] > 0


def test_sound_file_and_what_stays(tmp_path):
    answer = assert_sound(f"file:{tmp_path}/store")
    root = tmp_path / "store" / answer["prefix"]
    registers = {slot.parent for slot in root.rglob("@*")}
    assert len(registers) == answer["tombstones_left"] > 0
    assert [p.name for p in (tmp_path / "store").iterdir() if not p.name.startswith(".")] == [
        "tenure-doctor"]
    assert_tombstones(f"file:{tmp_path}/store")


def test_polling_is_told(tmp_path):
    """A store without notifications works, and that costs time: weak."""
    found, answer, code = verdicts("--strict", "--timeout", "30s", "--store",
                                   f"file:{tmp_path}/store?fs=network&retain=1s&poll=10ms")
    assert code == 5, answer
    assert found["notify"] == "weak", answer


def test_one_process_only():
    found, _, code = verdicts("--store", "memory:x")
    assert code == 0
    assert found["reach"] == "weak" and found["conditions"] == "ok"
    assert "one winner" not in found


def test_text(tmp_path):
    done = doctor("--store", f"file:{tmp_path}/store")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ ok, \d+ weak, 0 broken: (this store|it) can carry leadership.*", lines[-1])
    assert max(map(len, lines)) <= 80
    assert any("conditions" in line for line in lines)
    assert "\033" not in done.stdout
    assert "docs/how-to/fencing.md" in done.stdout  # what no test can show


def test_on_a_terminal(tmp_path):
    """Shows what it is at, and leaves the same lines."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([BUILD / "tenure", "doctor", "--quick", "--store",
                                f"file:{tmp_path}/store"], stdin=subprocess.DEVNULL, stdout=theirs,
                               stderr=theirs, env={**os.environ, "TERM": "xterm", "NO_COLOR": ""})
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0, seen
    assert b"...\033[0m" in seen and b"\033[32mok" in seen


def test_beside_a_leader(tmp_path):
    """Elections of the same store are left alone."""
    store = f"file:{tmp_path}/store"
    leader = subprocess.Popen([BUILD / "tenure", "run", "--name", "hello", "--store", store,
                               "--log", "none", "--", "sleep", "1000"], stdin=subprocess.DEVNULL)

    def status():
        done = subprocess.run([BUILD / "tenure", "status", "--name", "hello", "--store", store,
                               "--json"], capture_output=True, text=True)
        answer = json.loads(done.stdout or "{}")
        return answer.get("state"), answer.get("epoch")

    try:
        until(lambda: status()[0] == "held", 60)
        before = status()
        assert_sound(store)
        assert status() == before
    finally:
        leader.terminate()
        leader.wait()


def test_interrupted(tmp_path):
    """What it wrote are tombstones all the same."""
    process = subprocess.Popen([BUILD / "tenure", "doctor", "--store", f"file:{tmp_path}/store"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert any("conditions" in line for line in iter(process.stdout.readline, ""))
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    assert process.wait(60) == 128 + signal.SIGINT, said
    assert " broken:" not in said  # no verdict
    assert_tombstones(f"file:{tmp_path}/store")


def test_the_guard_page_has_its_numbers():
    """The time line in docs/explanation/guard.md is that of the defaults."""
    _, answer, _ = verdicts("--store", "memory:x")
    t = {name: ms / 1000 for name, ms in answer["timing"].items()}
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/explanation/guard.md").read_text()
    line = [float(word) for word in re.findall(r"^ +(\d+\.\d\d)   ", page, re.M)]
    hold = t["hold_ms"]
    wanted = [0, t["renew_ms"], t["renew_ms"] + t["request_ms"], hold - t["grace_ms"],
              hold - answer["guard"]["margin_ms"] / 1000, hold, hold + t["kill_ms"],
              answer["ttl_ms"] / 1000]
    assert line == [round(w, 2) for w in wanted]


# ---- Errors -----------------------------------------------------------------

@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_an_ordinary_user_is_told_what_he_may_do():
    """What root could do here is not claimed, and not denied either."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        for name in ("tenure", "tenure-guard"):
            shutil.copy(BUILD / name, folder)
        folder.chmod(0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", folder / "tenure",
                               "doctor", "--quick", "--json", "--store", "memory:"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300)
        said = {p["name"]: p["text"] for p in json.loads(done.stdout)["promises"]}["guard"]
        assert "available to this user: group" in said
    finally:
        shutil.rmtree(folder)


def test_usage(tmp_path):
    store = f"file:{tmp_path}/store"
    assert doctor("--store", store, "surplus").returncode == 2
    assert doctor("--store", store, "--frobnicate").returncode == 2
    short = doctor("--store", store, "--ttl", "10ms")
    assert short.returncode == 2 and "ttl" in short.stderr
    assert not (tmp_path / "store").exists()


def test_cannot_be_reached():
    found, _, code = verdicts("--store", "redis://127.0.0.1:1", "--timeout", "2s")
    assert code == 1
    assert found["reach"] == "untested" and "conditions" not in found


def test_ttl_too_short_for_the_store(tmp_path):
    found, answer, code = verdicts("--store", f"file:{tmp_path}/s?fs=network&retain=1s&poll=10ms",
                                   "--ttl", "1s", "--timeout", "30s")
    assert (code, found["latency"]) == (4, "broken"), answer


def test_no_password_is_shown(tmp_path):
    env = {**os.environ, "TENURE_STORE": "postgres://me:hunter2@127.0.0.1:1/x"}
    for options in ([], ["--json"]):
        done = doctor(*options, env=env)
        assert done.returncode == 1
        assert "hunter2" not in done.stdout + done.stderr and "***" in done.stdout


# ---- Planted bugs -----------------------------------------------------------

PLANTED = {
    "no_version": "conditions",
    "no_nonce": "conditions",
    "no_compare": "conditions",
    "create_overwrites": "conditions",
    "erase_removes": "tombstones",
    "create_over_tombstone": "tombstones",
    "tombstone_loses_data": "tombstones",
    "batch_all_ok": "batch",
    "list_unsorted": "list",
    "list_by_segment": "list",
    "list_inclusive": "list",
    "list_never_stops": "list",
    "list_no_tombstones": "list",
    "wait_no_compare": "wait",
    "wait_no_prefix": "wait",
    "wait_not_cancelled": "wait",
    "wait_own_process": "notify",  # word from other processes is lost
    "read_cached": "reads",
    "read_sometimes_stale": "reads",
    "late_compare": "one winner|lost writes",
    "ok_not_applied": "lost writes",
    "timeout_applied": "deadlines",
    "hangs": "deadlines",
}


# Found by a time limit that passes.
PATIENT = {"wait_no_compare", "wait_no_prefix", "wait_not_cancelled", "wait_own_process", "read_cached",
           "hangs"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A tenure that finds the toy store's module beside it."""
    place = tmp_path_factory.mktemp("bin")
    module = BUILD / "tests/conformance/tenure-store-toy.so"
    (place / "tenure").symlink_to(BUILD / "tenure")
    (place / module.name).symlink_to(module)
    env = {**os.environ, "LD_LIBRARY_PATH": str(BUILD)}
    return lambda *options: verdicts(*options, tenure=place / "tenure", env=env)


@pytest.fixture(scope="module")
def planted(toy, tmp_path_factory):
    """{bug: what the doctor said}, several at a time: most of a run is waiting."""
    place = tmp_path_factory.mktemp("planted")

    def examine(bug):
        # Some are found by waiting for it; the others are given time, on a machine that stands still.
        limit = "3s" if bug in PATIENT else "20s"
        return toy("--store", f"toy:{place}/{bug}?bug={bug}", "--timeout", limit)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return dict(zip(PLANTED, pool.map(examine, PLANTED)))


@pytest.mark.parametrize("bug, promise", PLANTED.items())
def test_planted(planted, bug, promise):
    found, answer, code = planted[bug]
    assert code == 4, answer
    assert answer["verdict"] == "broken"
    assert "broken" in [found.get(name) for name in promise.split("|")], answer


def test_planted_sleepless(toy, tmp_path):
    found, answer, code = toy("--store", f"toy:{tmp_path}/registers?bug=wait_never_sleeps")
    assert code == 0 and found["wait"] == "weak", answer


@pytest.mark.parametrize("bug", ["none", "often_unknown"])
def test_the_same_store_without_bugs(toy, tmp_path, bug):
    """Also with answers that get lost, and are told as such."""
    found, answer, code = toy("--store", f"toy:{tmp_path}/registers?bug={bug}", "--timeout", "30s")
    assert code == 0, answer
    assert {found[n] for n in SHARED if n not in ("notify", "latency")} == {"ok"}, answer
