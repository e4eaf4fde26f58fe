"""Stores whose module is missing, or is none: a line that says what to install, and nothing is loaded."""

import pathlib
import shutil
import subprocess

import pytest
from agent import BUILD, TENURE


def status(binary, url):
    done = subprocess.run([binary, "status", "--name", "web", "--store", url], capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and not done.stdout
    return done.stderr


@pytest.fixture
def alone(tmp_path):
    """The binary without its modules."""
    if found := list(pathlib.Path("/usr/local/lib").glob("**/tenure-store-*.so")):
        pytest.skip(f"tenure is installed, and {found[0]} would be taken")
    return shutil.copy2(TENURE, tmp_path / "tenure")


def test_a_module_that_is_missing(alone):
    told = status(alone, "postgres://h/d")
    assert "'postgres:' is not in this build" in told and "libpq5" in told


def test_a_file_that_is_no_module(alone, tmp_path):
    (tmp_path / "tenure-store-postgres.so").write_text("nothing of the kind")
    told = status(alone, "postgres://h/d")
    assert "cannot load a module" in told and "libpq5" in told


def test_a_library_that_is_no_module_of_ours(alone, tmp_path):
    shutil.copy2(BUILD / "libtenure.so.0", tmp_path / "tenure-store-postgres.so")
    assert "is not a module of tenure" in status(alone, "postgres://h/d")


def test_a_stranger_that_nobody_knows(alone):
    told = status(alone, "somewhere://h")
    assert "no store is called 'somewhere:'" in told and "sqlite:" in told
