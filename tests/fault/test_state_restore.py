"""The lease in one store, the state in another: either may be lost, or come back from a back-up."""

import pathlib
import shutil
import time

import pytest
import tenure
from test_state_socket import Leader, cli


@pytest.fixture(params=[("file", "sqlite"), ("sqlite", "file")], ids="-".join)
def stores(request, tmp_path):
    """Lease and state, each in a folder of its own."""
    for name in ("lease", "state"):
        (tmp_path / name).mkdir()
    return [f"{scheme}:{tmp_path}/{name}/store"
            for scheme, name in zip(request.param, ("lease", "state"))]


def term(tmp_path, stores, *asks):
    """One leader from its start to its end.  Its epoch, and the answers."""
    with Leader(tmp_path, stores[0], "--state", stores[1], "--seal", "jobs") as leader:
        answers = [leader.leads().ask(*ask) for ask in asks]
        return int(leader.epoch), answers


PUT = ("PUT", "/v1/state/jobs/a")
GET = ("GET", "/v1/state/jobs/a")


def save(tmp_path, what):
    shutil.copytree(tmp_path / what, tmp_path / f"{what}.saved")


def restore(tmp_path, what):
    shutil.rmtree(tmp_path / what)
    shutil.copytree(tmp_path / f"{what}.saved", tmp_path / what)


def push_ahead(state):
    """The state knows an epoch of an hour from now: of a leader whose clock ran ahead."""
    epoch = int(time.time() * 1000) + 3_600_000
    with tenure.Store(state) as s:
        for key in ("app/state/jobs", "app/state/jobs/a"):
            value = s.read(key)
            head, data = value.data.split(b"\n", 1)
            words = head.split(b" ")
            words[2] = b"%d" % epoch
            assert s.swap(key, value.token, b" ".join(words) + b"\n" + data).status == "ok"
    return epoch


def test_an_old_lease(tmp_path, stores):
    """The lease record goes back or is gone: the floor in the state keeps epochs rising (I2, I4)."""
    first, _ = term(tmp_path, stores, PUT + (b"one",))
    save(tmp_path, "lease")
    ahead = push_ahead(stores[1])
    second, (two,) = term(tmp_path, stores, PUT + (b"two",))
    assert two.status == 200 and first < ahead < second
    restore(tmp_path, "lease")
    third, (got, three) = term(tmp_path, stores, GET, PUT + (b"three",))
    assert (got.body, three.status) == (b"two", 200) and third > second
    shutil.rmtree(tmp_path / "lease")
    (tmp_path / "lease").mkdir()
    fourth, (got,) = term(tmp_path, stores, GET)
    assert got.body == b"three" and fourth > third


def test_an_old_state(tmp_path, stores):
    """The state goes back: who leads next has a higher epoch all the same, and loads what is there."""
    _, _ = term(tmp_path, stores, PUT + (b"one",))
    save(tmp_path, "state")
    push_ahead(stores[1])
    second, _ = term(tmp_path, stores, PUT + (b"two",))
    restore(tmp_path, "state")
    third, (got, three) = term(tmp_path, stores, GET, PUT + (b"three",))
    assert (got.body, three.status) == (b"one", 200) and third > second
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").mkdir()
    fourth, (got, four) = term(tmp_path, stores, GET, PUT + (b"four",))
    assert (got.status, four.status) == (404, 200) and fourth > third
    assert cli(stores[1], "get", "jobs/a").stdout == b"four"


def test_a_state_that_goes_back_under_the_leader(tmp_path):
    """It is told, not undone: the next commit is a conflict, and GET shows what is there."""
    stores = [f"file:{tmp_path}/lease", f"sqlite:{tmp_path}/db"]
    with Leader(tmp_path, stores[0], "--state", stores[1]) as leader:
        leader.leads()
        assert leader.ask(*PUT, b"one").status == 200
        with tenure.Store(stores[1]) as s:
            old = {key: s.read(f"app/state/jobs{key}") for key in ("", "/a")}
        assert leader.ask(*PUT, b"two").status == 200
        # The same bytes under new versions: what an import or a logical restore leaves.
        with tenure.Store(stores[1]) as s:
            for key, value in old.items():
                now = s.read(f"app/state/jobs{key}")
                assert s.swap(f"app/state/jobs{key}", now.token, value.data).status == "ok"
        assert leader.ask(*PUT, b"three").error() == (409, "conflict")
        assert leader.ask(*GET).body == b"one"
        assert leader.ask(*PUT, b"three").status == 200
    assert pathlib.Path(f"{tmp_path}/db").exists()
