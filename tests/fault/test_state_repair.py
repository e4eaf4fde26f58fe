"""tenure state repair: what is damaged is told with its place, kept aside, and replaced on order."""

import json
import subprocess

import pytest
import tenure
from test_state_socket import Leader
from world import TENURE

JUNK = b"\0not a document\xff\n"


@pytest.fixture(params=["file", "slots", "sqlite"])
def store(request, tmp_path):
    return {"sqlite": f"sqlite:{tmp_path}/db", "file": f"file:{tmp_path}/store",
            "slots": f"file:{tmp_path}/store?commits=slots"}[request.param]


def cli(store, *args, **more):
    return subprocess.run([TENURE, "state", *args, "--store", store, "--name", "app"],
                          capture_output=True, timeout=60, **more)


def damage(store, key, data=JUNK):
    """As a program would that writes past us.  Returns the version of it."""
    with tenure.Store(store) as s:
        done = s.swap(key, s.read(key).token, data)
        assert done.status == "ok"
        return s.read(key).token.version


def raw(store, key):
    with tenure.Store(store) as s:
        return s.read(key).data


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
