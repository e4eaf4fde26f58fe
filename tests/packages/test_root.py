"""Installed in fresh roots of Debian: the packages, and `make install`.  See docs/how-to/packages.md.

    make test-packages      needs root and Debian's mirror; 5 to 10 minutes

Not a stage of `make test`, which builds the packages and looks into them (tests/e2e/test_packages.py).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import packages
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")

pytestmark = [
    pytest.mark.skipif(packages.MISSING is not None, reason=str(packages.MISSING)),
    pytest.mark.skipif(os.geteuid() != 0, reason="a fresh root needs root"),
    pytest.mark.skipif(not shutil.which("debootstrap"), reason="debootstrap is not installed: run scripts/deps packages"),
]
MODULES = {"sqlite": "libsqlite3-0", "postgres": "libpq5", "redis": "libhiredis0.14", "etcd": "libcurl4",
           "consul": "libcurl4", "kube": "libcurl4", "object": "libcurl4",
           "zookeeper": "libzookeeper-st2", "nats": "libnats3.4"}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """An empty Debian, as a tar: the smallest that there is."""
    folder = tmp_path_factory.mktemp("debian")
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", folder / "root", MIRROR], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["tar", "-C", folder / "root", "-cf", folder / "root.tar", "."], check=True)
    shutil.rmtree(folder / "root")
    return folder / "root.tar"


class Machine:
    """A copy of it, in namespaces of its own."""

    def __init__(self, fresh, folder):
        self.root = folder / "root"
        self.root.mkdir()
        subprocess.run(["tar", "-C", self.root, "-xf", fresh], check=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")

    def run(self, script, code=0):
        """In a shell; what it prints."""
        inside = ('mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
                  'exec chroot "$0" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin '
                  'HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$1"')
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, self.root, script],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def install(self, *names):
        self.run("apt-get -qq update && apt-get -qq install -y --no-install-recommends " + " ".join(names))

    def has(self, package):
        return package in self.run("dpkg-query -W -f '${Package}\\n'").split()


@pytest.fixture
def machine(fresh, tmp_path):
    yield Machine(fresh, tmp_path)
    shutil.rmtree(tmp_path / "root")


@pytest.fixture(scope="module")
def debs(tmp_path_factory):
    """As they are shipped: optimised, stripped."""
    return packages.build(tmp_path_factory.mktemp("shipped"), "nocheck noautodbgsym")


def copy(machine, debs):
    (machine.root / "debs").mkdir()
    for deb in debs.values():
        shutil.copy(deb.path, machine.root / "debs")


def test_lintian(debs):
    """The one complaint that is left is for uploads to Debian."""
    done = subprocess.run(["lintian", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs",
                           *(str(deb.path) for deb in debs.values())], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_packages_in_a_fresh_root(machine, debs):
    copy(machine, debs)
    before = set(machine.run("find / -xdev -path /proc -prune -o -path /debs -prune -o -print").splitlines())
    machine.install("/debs/tenure_*.deb")
    told = json.loads(machine.run("tenure version --json"))
    assert told["commit"] == packages.COMMIT[:12] and told["sanitizers"] == "none"
    assert set(told["stores"]) == {"file", "memory", "noop"} and not told["http"]
    assert not [library for library in MODULES.values() if machine.has(library)]
    assert machine.run("tenure run --name x --store file:/tmp/store -- echo led") == "led\n"
    for scheme in MODULES:
        done = machine.run(f"tenure status --name x --store {scheme}://h/d 2>&1 || :")
        assert f"install tenure-store-{scheme}" in done
    # One by one: each brings its library, and nothing else is missed.
    for scheme, library in MODULES.items():
        machine.install(f"/debs/tenure-store-{scheme}_*.deb")
        assert machine.has(library)
        assert scheme in json.loads(machine.run("tenure version --json"))["stores"]
        assert "not in this build" not in machine.run(f"tenure status --name x --timeout 1s --store {scheme}://127.0.0.1:1/d 2>&1 || :")
    machine.install("/debs/tenure-http_*.deb")
    assert json.loads(machine.run("tenure version --json"))["missing"] == []
    assert machine.run("tenure run --name x --listen unix:/tmp/http -- echo led") == "led\n"  # the default store: sqlite
    assert machine.run("tenure sim --seed 7 | wc -l") != "0\n"

    # A program with the library.
    machine.install("gcc libc6-dev pkg-config /debs/libtenure0_*.deb /debs/libtenure-dev_*.deb")
    machine.run("cc -Wall -Werror -o /tmp/elect /usr/share/doc/tenure/examples/elect.c $(pkg-config --cflags --libs tenure)")
    assert "libtenure.so.0 => /" in machine.run("ldd /tmp/elect")
    machine.run("tenure-conformance file:/tmp/conformance --seconds 1")

    # Nothing stays behind but what other packages brought.
    machine.run("apt-get -qq purge -y tenure* libtenure* && apt-get -qq autoremove --purge -y")
    after = set(machine.run("find / -xdev -path /proc -prune -o -path /debs -prune -o -print").splitlines())
    assert not [path for path in after - before if re.match(r"/(usr|lib|etc)/.*tenure", path)]


def test_make_install_in_a_fresh_root(machine):
    """Without Debian's tools for packages, where Meson takes lib64; the library links and starts."""
    packages.copy_sources(machine.root / "src")
    machine.install("make")
    machine.run("cd /src && scripts/deps build && ! command -v dpkg-architecture && make install")
    told = json.loads(machine.run("tenure version --json"))
    assert told["missing"] == [] and told["http"] and told["commit"] == packages.COMMIT[:12]
    assert machine.run("tenure run --name x --listen unix:/tmp/http -- echo led") == "led\n"
    machine.run("cc -Wall -Werror -o /tmp/elect /src/examples/elect.c $(pkg-config --cflags --libs tenure)")
    assert "libtenure.so.0 => /usr/local/lib/libtenure.so.0" in machine.run("ldd /tmp/elect")
    machine.run("tenure-conformance sqlite:/tmp/conformance.db --seconds 1")
