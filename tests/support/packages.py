"""Debian packages of these sources, built as anybody would; looked into without being installed."""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MISSING = None if shutil.which("dh") else "debhelper is not installed: run scripts/deps test"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sources():
    """Tracked files, as they are now."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout
    return [name for name in names.decode().rstrip("\0").split("\0") if (ROOT / name).exists()]


def copy_sources(folder):
    """What a tarball holds, with that commit in it.  Files that were changed are taken as they are."""
    folder.mkdir(parents=True)
    for name in sources():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    (folder / "COMMIT").write_text(COMMIT + "\n")
    return folder


class Deb:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def field(self, name):
        return subprocess.run(["dpkg-deb", "-f", self.path, name], check=True, capture_output=True,
                              text=True).stdout.strip()

    def depends(self):
        """Names of packages, each alternative by itself."""
        return set(re.findall(r"(?:^|[,|]) *([a-z0-9.+-]+)", self.field("Depends")))

    def files(self):
        """Paths of files and links, without the / before them."""
        listed = subprocess.run(["dpkg-deb", "--fsys-tarfile", self.path], check=True, capture_output=True).stdout
        names = subprocess.run(["tar", "t"], input=listed, check=True, capture_output=True).stdout.decode()
        return [name[2:] for name in names.splitlines() if not name.endswith("/")]

    def unpack(self, folder):
        subprocess.run(["dpkg-deb", "-x", self.path, folder], check=True)

    def control(self, folder):
        subprocess.run(["dpkg-deb", "-e", self.path, folder], check=True)


def build(folder, options="nocheck noopt noautodbgsym"):
    """{name: Deb}.  Not optimised: it is looked into, not measured."""
    folder.mkdir(exist_ok=True)
    source = copy_sources(folder / "tenure")
    done = subprocess.run(["dpkg-buildpackage", "-us", "-uc", "-b", "-d"], cwd=source, capture_output=True, text=True,
                          env={**os.environ, "DEB_BUILD_OPTIONS": f"{options} parallel={os.cpu_count()}"},
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return found(folder)


def found(folder):
    return {path.name.split("_")[0]: Deb(path) for path in folder.glob("*.deb")}


def build_once():
    """The same, in the build folder: one build for all tests of the same sources."""
    digest = sha256("".join(f"{name} {sha256((ROOT / name).read_bytes())}\n" for name in sources()).encode())[:16]
    top = BUILD / "test-packages"
    top.mkdir(exist_ok=True)
    with open(top / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = top / digest
        if not (folder / "done").exists():
            for old in top.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            build(folder)
            shutil.rmtree(folder / "tenure")
            (folder / "done").touch()
    return found(folder)
