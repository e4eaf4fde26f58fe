"""A lease record that cannot be used: who meets it says what is wrong, where, and what to do."""

import json
import sqlite3
import subprocess

import pytest
import tenure
from agent import TENURE, Agent
from disk import SmallDisk, needs_mount
from process import until

BOUNDS = "an epoch is 1 to 9007199254740990, a ttl 1000 to 3600000 ms"


def run(*command):
    return subprocess.run([TENURE, *command], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)


def texts(agent, event):
    return [line["text"] for line in agent.events() if line["event"] == event]


def member(name, value):
    def damage(_, url):
        with tenure.Store(url) as store:
            before = store.read("web/lease")
            record = {**json.loads(before.data), name: value}
            assert store.swap("web/lease", before.token, json.dumps(record).encode()).status == "ok"
    return damage


def cut_slot(path, _):
    slot = max((path / "web/lease").glob("@*"))
    whole = slot.read_bytes()
    slot.unlink()
    slot.write_bytes(whole[:100])


def spoil_row(path, _):
    db = sqlite3.connect(path)
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute("UPDATE register SET nonce = x'00' WHERE key = 'web/lease'")
    db.commit()
    db.close()


CASES = {
    "too big": ("file", member("epoch", 2**64 - 1), "too big integer"),
    "epoch": ("sqlite", member("epoch", 2**53 - 1), BOUNDS),
    "ttl": ("file", member("ttl_ms", 7), "ttl_ms 7: " + BOUNDS),
    "slot": ("file", cut_slot, "cannot be trusted: it is shorter than its header"),
    "row": ("sqlite", spoil_row, "row 'web/lease' is malformed"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_and_what_to_do(tmp_path, case):
    scheme, damage, why = CASES[case]
    path = tmp_path / "store"
    url = f"{scheme}:{path}"
    assert run("run", "--name", "web", "--store", url, "--log", "none", "--", "true").returncode == 0
    damage(path, url)
    listed = json.loads(run("status", "--store", url, "--json").stdout)["elections"][0]
    assert listed["state"] == "refused" and why in listed["trouble"]
    with Agent(tmp_path, url, "a") as waiting:
        (text,) = until(lambda: texts(waiting, "trouble"))
        assert why in text
        assert text.endswith(f"`tenure reset --name web --store '{url}'`")
        until(lambda: why in waiting.status()["reason"])
        assert run("reset", "--name", "web", "--store", url, "--epoch-above", "7",
                   "--force").returncode == 0
        until(lambda: texts(waiting, "recovered") == ["the lease record can be read again"])
        waiting.leads()
        assert len(texts(waiting, "trouble")) == 1


def test_a_store_that_nobody_else_sees():
    done = run("run", "--name", "web", "--store", "memory:", "--log", "text", "--", "true")
    assert "memory: is seen by this process alone: another copy leads as well" in done.stderr


@needs_mount
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_file_system_that_cannot_be_written(scheme):
    with SmallDisk() as disk:
        url = f"{scheme}:{disk.path}/store"
        assert run("pause", "--name", "web", "--store", url).returncode == 0
        disk.read_only()
        done = run("resume", "--name", "web", "--store", url)
        assert done.returncode == 1 and "Read-only file system" in done.stderr
