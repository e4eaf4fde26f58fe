"""Small disks of one's own."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import pytest


def can_mount():
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and done.returncode == 0


class SmallDisk:
    """A tmpfs that can be filled and emptied."""

    def __init__(self, size="8m"):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tenure-disk-"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs",
                        str(self.path)], check=True)

    def fill(self):
        with contextlib.suppress(OSError), open(self.path / "ballast", "ab", buffering=0) as f:
            while True:
                f.write(b"x" * 512)

    def room(self):
        (self.path / "ballast").unlink()

    def read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True)

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], check=True)
        self.path.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


needs_mount = pytest.mark.skipif(not can_mount(), reason="nothing can be mounted here")
