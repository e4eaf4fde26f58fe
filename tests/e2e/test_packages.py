"""Packages: what Debian's holds, what an RPM would, what each needs; completion; `tenure version`.

`make test-packages` installs them in fresh roots.
"""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
TENURE = BUILD / "tenure"

sys.path.insert(0, str(ROOT / "tests" / "support"))
import packages  # noqa: E402

needs_debhelper = pytest.mark.skipif(packages.MISSING is not None, reason=str(packages.MISSING))


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- tenure version

def test_version():
    first, *rest = output(TENURE, "--version").splitlines()
    assert re.fullmatch(r"tenure \d+\.\d+\.\d+", first)
    told = dict(line.split(None, 1) for line in rest)
    commit = output("git", "-C", ROOT, "rev-parse", "HEAD").strip() if (ROOT / ".git").exists() else ""
    assert re.fullmatch(r"([0-9a-f]{12}(-dirty)?|unknown)", told["commit"])
    assert told["commit"] == "unknown" or commit.startswith(told["commit"][:12])
    assert {"file", "memory", "noop"} <= set(told["stores"].split())
    assert told["http"] in ("yes", "no")
    found = json.loads(output(TENURE, "version", "--json"))
    assert found == {"version": first.split()[1], "commit": told["commit"], "stores": told["stores"].split(),
                     "missing": told.get("missing", "").split(), "http": told["http"] == "yes",
                     "sanitizers": told["sanitizers"]}


def test_version_names_modules_that_are_not_installed(tmp_path):
    alone = shutil.copy2(TENURE, tmp_path / "tenure")
    if json.loads(output(alone, "version", "--json"))["http"]:
        pytest.skip("tenure is installed, and its modules are taken")
    (tmp_path / "tenure-store-etcd.so").touch()
    found = json.loads(output(alone, "version", "--json"))
    assert "etcd" in found["stores"] and "redis" in found["missing"]
    assert not set(found["stores"]) & set(found["missing"])


def test_version_takes_no_other_argument():
    done = subprocess.run([TENURE, "version", "--jsno"], capture_output=True, text=True)
    assert done.returncode == 2 and "--jsno" in done.stderr and not done.stdout


# ---- make install

def test_the_library_goes_where_the_loader_looks(tmp_path):
    """Also where Debian's own tools for packages are missing: Meson would take lib64 then."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name != "dpkg-architecture" and not (tools / name).is_symlink():
                (tools / name).symlink_to(os.path.join(folder, name))
    subprocess.run(["make", "-C", ROOT, tmp_path / "build/build.ninja", f"BUILD={tmp_path}/build"],
                   env={**os.environ, "PATH": str(tools), "CC": "gcc"}, check=True, capture_output=True)
    options = {option["name"]: option["value"] for option in
               json.loads(output("meson", "introspect", "--buildoptions", tmp_path / "build"))}
    assert options["prefix"] == "/usr/local" and options["libdir"] == "lib"


# ---- Debian

@pytest.fixture(scope="module")
def debs():
    """{name: package}, built from what a tarball holds, with an invented commit."""
    return packages.build_once()


MODULES = {"tenure-http": "libmicrohttpd12", "tenure-link": "libwslay1", "tenure-store-sqlite": "libsqlite3-0",
           "tenure-store-postgres": "libpq5", "tenure-store-redis": "libhiredis0.14",
           "tenure-store-etcd": "libcurl4", "tenure-store-consul": "libcurl4", "tenure-store-kube": "libcurl4",
           "tenure-store-object": "libcurl4", "tenure-store-replica": "libsqlite3-0",
           "tenure-store-zookeeper": "libzookeeper-st2", "tenure-store-nats": "libnats3.4"}
CLIENTS = {*MODULES.values(), "libgnutls30", "libssl3"}


@needs_debhelper
def test_each_package_needs_what_it_uses(debs):
    assert set(debs) == {"tenure", "libtenure0", "libtenure-dev", *MODULES}
    for name, library in MODULES.items():
        assert library in debs[name].depends(), name
        assert re.search(r"tenure \(= \S+\) \| libtenure0 \(= \S+\)", debs[name].field("Depends"))
    for name in ("tenure", "libtenure0", "libtenure-dev"):
        assert not CLIENTS & debs[name].depends(), name
    assert {"libhiredis0.14", "libssl3"} <= debs["tenure-store-redis"].depends()
    assert "libtenure0" in debs["libtenure-dev"].depends()


@needs_debhelper
def test_each_file_is_in_its_package(debs):
    where = {}
    for name, deb in debs.items():
        for path in deb.files():
            assert path not in where or where[path] == name, path
            where[path] = name

    def holder(pattern):
        found = {where[path] for path in where if fnmatch.fnmatchcase(path, pattern)}
        assert len(found) == 1, (pattern, found)
        return found.pop()

    for pattern in ("usr/bin/tenure", "usr/libexec/tenure/tenure-guard", "usr/libexec/tenure/tenure-sim",
                    "lib/systemd/system/tenure@.service", "lib/systemd/system/tenure-agent.service",
                    "usr/share/man/man1/tenure-run.1.gz", "usr/share/man/man5/tenure.yaml.5.gz",
                    "usr/share/bash-completion/completions/tenure",
                    "usr/share/fish/vendor_completions.d/tenure.fish",
                    "usr/share/zsh/vendor-completions/_tenure",
                    "usr/share/doc/tenure/docs/how-to/systemd.md",
                    "usr/share/doc/tenure/contrib/kubernetes/base/deployment.yaml",
                    "usr/share/doc/tenure/contrib/grafana/tenure.json",
                    "usr/share/doc/tenure/contrib/prometheus/tenure.rules.yml",
                    "usr/share/doc/tenure/contrib/helm/tenure/Chart.yaml",
                    "usr/share/doc/tenure/clients/tenure.py", "usr/share/doc/tenure/examples/elect.c"):
        assert holder(pattern) == "tenure"
    for module in (ROOT / "src/store").glob("*/meson.build"):
        for name in re.findall(r"store_modules \+= \[\['(\w+)'", module.read_text()):
            assert holder(f"usr/lib/*/tenure/tenure-store-{name}.so") == f"tenure-store-{name}"
    assert holder("usr/lib/*/tenure/tenure-store-rediss.so") == "tenure-store-redis"
    assert holder("usr/lib/*/tenure/tenure-http.so") == "tenure-http"
    assert holder("usr/lib/*/tenure/tenure-link.so") == "tenure-link"
    assert holder("usr/lib/*/libtenure.so.0") == "libtenure0"
    for pattern in ("usr/lib/*/libtenure.so", "usr/include/tenure/tenure.h", "usr/lib/*/pkgconfig/tenure.pc",
                    "usr/bin/tenure-conformance"):
        assert holder(pattern) == "libtenure-dev"
    # Every page of the manual.
    for page in (ROOT / "docs/reference/man").glob("*.scd"):
        holder(f"usr/share/man/man1/{page.stem}.gz")


@needs_debhelper
def test_an_installed_unit_starts_the_installed_program(debs, tmp_path):
    debs["tenure"].unpack(tmp_path)
    for name in ("tenure@.service", "tenure-agent.service"):
        text = (tmp_path / "lib/systemd/system" / name).read_text()
        assert "\nExecStart=/usr/bin/tenure " in text and "/usr/local" not in text
    # Nothing starts or enables itself: there is nothing to run yet.
    debs["tenure"].control(tmp_path / "DEBIAN")
    assert "start" not in re.sub(r"#.*", "", (tmp_path / "DEBIAN/postinst").read_text()).split()


@needs_debhelper
def test_the_commit_of_a_tarball_is_told(debs, tmp_path):
    debs["tenure"].unpack(tmp_path)
    found = json.loads(output(tmp_path / "usr/bin/tenure", "version", "--json"))
    assert found["commit"] == packages.COMMIT[:12]


# ---- RPM

@needs_debhelper
@pytest.mark.skipif(not shutil.which("rpmspec"), reason="rpmspec is not installed: run scripts/deps test")
def test_an_rpm_has_the_same_files(debs):
    """rpmspec understands the spec, and every file that is installed has a line of it."""
    spec = output("rpmspec", "-P", ROOT / "contrib/rpm/tenure.spec")
    version = re.search(r"^Version: *(\S+)", spec, re.M).group(1)
    assert version == output(TENURE, "--version").split()[1]
    assert debs["tenure"].field("Version").startswith(version)
    # systemd's macros are Fedora's.
    listed = spec[spec.index("\n%files"):spec.index("\n%changelog")].replace("%{_unitdir}", "/usr/lib/systemd/system")
    lines = re.findall(r"^(?:%exclude )?(/\S+)$", listed, re.M)
    installed = {}
    for deb in debs.values():
        for path in deb.files():
            path = "/" + re.sub(r"^lib/", "usr/lib/", path).replace("vendor-completions", "site-functions")
            path = re.sub(r"^/usr/lib/[a-z0-9_]+-linux-gnu\w*/", "/usr/lib64/", path).removesuffix(".gz")
            # Debian's own: licences, its changelog, lintian's.
            if not re.match(r"/usr/share/(doc/(lib)?tenure[-0-9a-z]*/[^/]*$|lintian/|doc/tenure-)", path):
                installed[path] = False
    for line in lines:
        matched = [path for path in installed if fnmatch.fnmatchcase(path, line + "*" * line.endswith("/"))]
        assert matched, line
        for path in matched:
            installed[path] = True
    assert [path for path, named in installed.items() if not named] == []


# ---- Completion

def fish(line):
    code = f'source "{ROOT}/contrib/completion/tenure.fish"; complete -C "$argv[1]"'
    return set(output("fish", "--no-config", "-c", code, line,
                      env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}).split())


def zsh(line):
    """As the completion of zsh calls it, with the words that it would offer printed."""
    code = ('compadd() { print -l -- "${(@P)2}" }; _files() { print FILES }; '
            '_normal() { print -r -- NORMAL $words }; fpath=($1 $fpath); autoload -U _tenure; shift; '
            'words=("$@"); CURRENT=$#; PREFIX=$words[-1]; _tenure')
    return set(output("zsh", "-fc", code, "zsh", ROOT / "contrib/completion", *line.split(" "),
                      env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}).split())


@pytest.mark.parametrize("complete", [fish, zsh], ids=["fish", "zsh"])
def test_completion(complete, monkeypatch, tmp_path):
    if not shutil.which(complete.__name__):
        pytest.skip(f"{complete.__name__} is not installed: run scripts/deps test")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert complete("tenure hand") == {"handover"}
    assert {"run", "agent", "help", "--version"} <= complete("tenure ")
    assert complete("tenure run --contain c") == {"cgroup"}
    assert "--name" in complete("tenure status --")
    (tmp_path / "here.txt").touch()
    monkeypatch.chdir(tmp_path)
    behind = complete("tenure run --name x -- cat he")
    assert behind == ({"here.txt"} if complete is fish else {"NORMAL", "cat", "he"})
