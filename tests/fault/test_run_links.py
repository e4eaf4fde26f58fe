"""What the program's user plants in a directory of its own is neither followed nor written to."""

import os
import signal
import subprocess

import pytest
import world as w
from world import TENURE, World, eventually

NOBODY = 65534


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "victim"
    file.write_text("precious\n")
    return file


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_role_file_in_a_directory_of_the_programs_user(victim):
    """Root writes the file; the links are where it wrote to before, and where it ends."""
    with World(ttl_ms=15000) as world:
        folder = world.dir / "theirs"
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
        role = folder / "role"
        for planted in (role, folder / "role.new"):
            planted.symlink_to(victim)
        c = world.start(options=["--user", str(NOBODY), "--warm-file", str(role), "--warm-signal",
                                 "USR1", "--on-exit", "restart"], command=["sleep", "1000"])
        eventually("the role", lambda: "leading" in victim.read_text() or not role.is_symlink()
                   and "leading" in role.read_text())
        # The directory that was given stays the directory, whatever takes its name.
        moved, first = world.dir / "moved", role.stat().st_ino
        folder.rename(moved)
        folder.symlink_to(victim.parent)
        init = w.children(c.guard())[0]
        os.kill(eventually("the program", lambda: w.children(init))[0], signal.SIGKILL)
        eventually("the role again", lambda: (moved / "role").stat().st_ino != first
                   or (victim.parent / "role").exists())
        assert not (victim.parent / "role").exists()
        assert victim.read_text() == "precious\n"
        assert sorted(p.name for p in moved.iterdir()) == ["role", "role.new"]


def test_role_file_without_a_directory(tmp_path):
    done = subprocess.run([TENURE, "run", "--name", "w", "--store", "noop:", "--warm-file",
                           tmp_path / "no" / "role", "--", "true"], capture_output=True)
    assert done.returncode == 2 and b"role file's directory" in done.stderr


@pytest.mark.parametrize("plant", ["symlink_to", "hardlink_to"])
def test_trace_is_no_link(tmp_path, victim, plant):
    trace = tmp_path / "trace"
    getattr(trace, plant)(victim)
    done = subprocess.run([TENURE, "run", "--name", "w", "--store", "noop:", "--trace", trace,
                           "--", "true"], capture_output=True)
    assert done.returncode == 2 and b"trace" in done.stderr, done.stderr
    assert victim.read_text() == "precious\n"
