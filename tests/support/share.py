"""A share: one file system, mounted by several machines, each at a place of its own."""

import pathlib
import shutil
import subprocess
import tempfile


def missing():
    """Why none can be made here, or None."""
    tried = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           capture_output=True, check=False)
    return None if tried.returncode == 0 else "nothing can be mounted here"


class Share:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-share-"))
        self.mounted = set()
        self.dir.chmod(0o755)
        (self.dir / "server").mkdir()

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.dir / "server"], check=True)
        return self

    def __exit__(self, *_):
        for name in list(self.mounted):
            self.unmount(name)
        subprocess.run(["umount", "-l", self.dir / "server"], check=True)
        shutil.rmtree(self.dir)

    def mount(self, name):
        """Where that machine has it."""
        place = self.dir / name
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", self.dir / "server", place], check=True)
        self.mounted.add(name)
        return place

    def unmount(self, name):
        """As `umount -l` does, with everything that is open there.  Returns what lies under it."""
        subprocess.run(["umount", "-l", self.dir / name], check=True)
        self.mounted.remove(name)
        return self.dir / name
