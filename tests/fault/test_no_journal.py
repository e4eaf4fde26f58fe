"""A power cut on file systems without a journal: what was acknowledged is there afterwards.

A real file system on a file.  Copying that file while it is mounted is the power cut: what the kernel
has not written yet is not in the copy.  Then it is checked, as at every boot, mounted and read."""

import os
import shutil
import subprocess
import sys

import pytest
from agent import TENURE
from disk import needs_mount

KINDS = {"ext4 without a journal": ("ext4", "-O", "^has_journal"), "ext2": ("ext2",),
         "ext4": ("ext4",)}
SUPPORT = os.path.join(os.path.dirname(__file__), "..", "support")
# Commits a document, and says so.
PROGRAM = f"""
import os, sys, time
sys.path.insert(0, {SUPPORT!r})
from unix_http import UnixConnection
connection = UnixConnection(os.environ["TENURE_SOCKET"])
connection.request("PUT", "/v1/state/counter/n", b"41")
print(connection.getresponse().status, os.environ["TENURE_EPOCH"], flush=True)
time.sleep(600)
"""


def run(*command, well=(0,)):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in well, (command, done.stdout, done.stderr)
    return done.stdout


class Mounted:
    def __init__(self, image, place):
        self.image, self.place = image, place

    def __enter__(self):
        self.place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-o", "loop", self.image, self.place], capture_output=True,
                              text=True, timeout=60)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a file here: {done.stderr.strip()}")
        return self.place

    def __exit__(self, *_):
        run("umount", self.place)


def cut_after_the_first_commit(place, scheme, image, copy):
    """The epoch that led."""
    leader = subprocess.Popen([TENURE, "run", "--name", "web", "--state", "store", "--log", "text",
                               "--store", f"{scheme}:{place}/store", "--", sys.executable, "-c",
                               PROGRAM], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        status, epoch = leader.stdout.readline().split()
        assert status == "200"
        shutil.copyfile(image, copy)
    finally:
        leader.terminate()
        leader.communicate(timeout=60)
    return epoch


@needs_mount
@pytest.mark.parametrize("scheme", ["sqlite", "file"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_survives(tmp_path, kind, scheme):
    """In directories of different sizes: which inodes are written back early, by chance, differs."""
    fs, *options = KINDS[kind]
    for others in range(5):
        # Files of their own: a mount namespace that others made meanwhile may still hold the last one's
        # mount, and a file that is written over below a mounted file system is no file system.
        image, copy = tmp_path / f"image{others}", tmp_path / f"copy{others}"
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        run(f"mkfs.{fs}", "-q", "-F", *options, image)
        with Mounted(image, tmp_path / "before") as place:
            for i in range(others):
                (place / f"other{i}").write_text("x")
            subprocess.run(["sync", "-f", place], check=True, timeout=60)
            epoch = cut_after_the_first_commit(place, scheme, image, copy)
        run("e2fsck", "-fy", copy, well=(0, 1))
        with Mounted(copy, tmp_path / "after") as place:
            common = ("--name", "web", "--store", f"{scheme}:{place}/store")
            assert f'"epoch":{epoch}' in run(TENURE, "status", "--json", *common).replace(" ", "")
            assert run(TENURE, "state", "get", "counter/n", *common).strip() == "41"
