"""A leader that cannot seal its state gives the lease up, and people see why.

What fails here is the candidate's own state store; the other one's is well."""

import contextlib
import json
import sqlite3
import subprocess

from agent import TENURE, Agent
from process import until

TTL = "3s"


def candidate(store, ident):
    """As `tenure status` shows it; without a state if it has not announced itself."""
    done = subprocess.run([TENURE, "status", "--name", "web", "--store", store, "--json"],
                          capture_output=True, timeout=60, check=False)
    found = json.loads(done.stdout)["candidates"]
    return next((c for c in found if c["id"] == ident), {"state": None})


def metric(agent, name):
    line = next(line for line in agent.ask("/metrics").text.splitlines()
                if line.startswith(name + "{"))
    return float(line.split()[-1])


@contextlib.contextmanager
def locked(path):
    """A database that nobody else can use meanwhile: an error that may pass."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        yield


def test_an_error_that_only_a_person_can_help(tmp_path):
    store, bad = f"file:{tmp_path}/lease", tmp_path / "bad"
    bad.write_text("this is no database\n" * 100)
    with Agent(tmp_path, store, "a", "--state", f"sqlite:{bad}", ttl=TTL) as a:
        until(lambda: metric(a, "tenure_unsealed_terms_total") > 0)
        with Agent(tmp_path, store, "b", "--state", f"sqlite:{tmp_path}/good", ttl=TTL) as b:
            b.leads()
            until(lambda: candidate(store, "a")["state"] == "unhealthy")
            assert not candidate(store, "a")["healthy"]
            assert "bad" in candidate(store, "a")["trouble"]
            assert "could not be sealed" in a.ask("/healthz").text
            assert a.process.poll() is None and "the lease is given up" in a.words()
            bad.unlink()
        a.leads()
        assert a.ask("/healthz").status == 200
        until(lambda: candidate(store, "a")["state"] == "leading")


def test_an_error_that_may_pass(tmp_path):
    store, state = f"file:{tmp_path}/lease", tmp_path / "state"
    with locked(state), \
            Agent(tmp_path, store, "a", "--state", f"sqlite:{state}", ttl=TTL) as a:
        # If not in this term, then in the next.
        until(lambda: a.status()["role"] == "sealing")
        until(lambda: metric(a, "tenure_sealing") == 1)
        until(lambda: candidate(store, "a")["state"] == "sealing")
        with Agent(tmp_path, store, "b", "--state", f"sqlite:{tmp_path}/good", ttl=TTL) as b:
            b.leads()
            assert metric(a, "tenure_unsealed_terms_total") > 0
