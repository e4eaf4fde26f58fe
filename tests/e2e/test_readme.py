"""Every command in README.md does what it says there.

The fenced blocks are run as they stand, line by line, in a temporary HOME with the build in PATH.
What cannot be here is replaced: a database of somebody's by a file, a program of theirs by a script.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
README = (ROOT / "README.md").read_text()
PATIENCE = 180

sys.path.insert(0, str(ROOT / "tests" / "support"))
from process import die_with_parent, free_port  # noqa: E402


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def commands():
    """One a line; a quoted argument may go over several."""
    found, held = [], ""
    for line in "".join(blocks("sh")).splitlines():
        held = held + "\n" + line if held else line
        if held.count("'") % 2 == 0:
            found.append(held)
            held = ""
    return found


def command(beginning):
    found = [c for c in commands() if c.startswith(beginning)]
    assert len(found) == 1, f"README.md should have one command that begins with '{beginning}'"
    return found[0]


class Home:
    """A user's first day."""

    def __init__(self, path):
        self.path = path
        (path / "bin").mkdir()
        (path / "bin" / "tenure").symlink_to(BUILD / "tenure")
        self.env = {"HOME": str(path), "PATH": f"{path}/bin:/usr/bin:/bin", "COLUMNS": "80"}
        self.running = []

    def start(self, line):
        """Run it in a terminal of its own, so to speak."""
        out = open(self.path / f"out-{len(self.running)}", "w+b")
        p = subprocess.Popen(["bash", "-c", "exec " + line], cwd=self.path, env=self.env,
                             stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
                             preexec_fn=die_with_parent)
        self.running.append((p, out))
        return len(self.running) - 1

    def said(self, which):
        return pathlib.Path(self.running[which][1].name).read_text(errors="replace")

    def try_once(self, line):
        return subprocess.run(["bash", "-c", line], cwd=self.path, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300)

    def run(self, line, code=0):
        done = self.try_once(line)
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def until(self, what):
        limit = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < limit, [self.said(i) for i in range(len(self.running))]
            time.sleep(0.05)

    def until_prints(self, line, is_right):
        """On a busy machine a store may not answer by the deadline of a command: it is tried again."""
        done = None

        def succeeds():
            nonlocal done
            done = self.try_once(line)
            return done.returncode == 0 and is_right(done.stdout)

        try:
            self.until(succeeds)
        except AssertionError as late:
            raise AssertionError(f"{line}\n{done.stdout}{done.stderr}") from late

    def end(self):
        for p, out in self.running:
            if p.poll() is None:
                p.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    p.wait(PATIENCE)
            if p.poll() is None:
                p.kill()
                p.wait()
            out.close()


@pytest.fixture
def home(tmp_path):
    h = Home(tmp_path)
    yield h
    h.end()


def test_nothing_is_left_out():
    """Whoever adds a command adds its test."""
    tested = ("git clone", "make demo", "make test", "sudo make install", "tenure run --name hello",
              "tenure status", "tenure candidates", "tenure handover", "tenure watch",
              "export TENURE_STORE", "tenure doctor", "tenure run --name billing",
              "tenure run --name count", "tenure state show", "tenure run --name web",
              "curl http://127.0.0.1:8080/leader", "curl http://127.0.0.1:8080/metrics",
              "tenure history", "tenure sim")
    assert [c for c in commands() if not c.startswith(tested)] == []
    for beginning in tested:
        command(beginning)


def test_make():
    """The targets are there, and are what `make help` says; the tests do not run the tests."""
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout
    for target in ("demo", "test", "install"):
        command("sudo make " + target if target == "install" else "make " + target)
        assert f"make {target}" in told
        subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=True)


def test_install(tmp_path):
    """Everything has its place, and the program works from there (docs/start/two-machines.md, too)."""
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True,
                   env={**os.environ, "DESTDIR": str(tmp_path)}, stdout=subprocess.DEVNULL)
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    (tenure,) = [p for p in found if p.endswith("/bin/tenure")]
    prefix = tenure.removesuffix("bin/tenure")
    (library,) = [p for p in found if p.endswith("/libtenure.so.0")]
    folder = library.removeprefix(prefix).removesuffix("libtenure.so.0")
    wanted = {"bin/tenure", "bin/tenure-conformance", "libexec/tenure/tenure-guard",
              "libexec/tenure/tenure-sim", "share/bash-completion/completions/tenure",
              "share/fish/vendor_completions.d/tenure.fish", "share/zsh/site-functions/_tenure",
              "include/tenure/conformance.h", folder + "libtenure.so", folder + "libtenure.so.0",
              folder + "libtenure-conformance.a", folder + "pkgconfig/tenure.pc"}
    wanted |= {f"include/tenure/{p.name}" for p in (ROOT / "include/tenure").glob("*.h")}
    wanted |= {f"{folder}tenure/{p.name}" for p in BUILD.glob("tenure-*.so")}
    wanted |= {f"share/man/man{page.stem[-1]}/{page.stem}"
               for page in (ROOT / "docs/reference").glob("man*/*.scd")}
    verbs = re.findall(r"^  ([a-z][a-z-]*)  ", subprocess.run(
        [BUILD / "tenure", "help"], capture_output=True, text=True, check=True).stdout, re.M)
    wanted |= {f"share/man/man1/tenure-{verb}.1" for verb in verbs}  # man finds every verb
    documents = [*(path for end in ("md", "png", "svg") for path in (ROOT / "docs").rglob(f"*.{end}")),
                 ROOT / "docs/reference/openapi.yaml"]
    wanted |= {f"share/doc/tenure/{path.relative_to(ROOT)}" for path in documents}
    wanted |= {f"share/doc/tenure/examples/conformance/{name}"
               for name in ("README.md", "toy.c", "toy.h")}
    (unit,) = [p for p in found if p.endswith("lib/systemd/system/tenure@.service")]
    assert f"ExecStart=/{tenure} run " in (tmp_path / unit).read_text()
    (agent,) = [p for p in found if p.endswith("lib/systemd/system/tenure-agent.service")]
    beside = {p for p in found if p.startswith(prefix + "share/doc/tenure/")}
    for path in beside - {prefix + path for path in wanted}:  # nothing but files of the source tree, in their places
        assert (ROOT / path.removeprefix(prefix + "share/doc/tenure/")).is_file(), path
    assert found | beside == {prefix + path for path in wanted} | beside | {unit, agent}
    done = subprocess.run([tmp_path / tenure, "run", "--name", "x", "--store", f"file:{tmp_path}/s",
                           "--log", "none", "--", "sh", "-c", "echo $TENURE_NAME; exit 3"],
                          capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("x\n", 3), done.stderr


def test_installed_manual(tmp_path):
    """`man tenure-watch` works, and what the pages name is there; the example of a store compiles."""
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True,
                   env={**os.environ, "DESTDIR": str(tmp_path)}, stdout=subprocess.DEVNULL)
    (manual,) = [p for p in tmp_path.rglob("man1") if p.is_dir()]
    for page in manual.iterdir():
        other = re.fullmatch(r"\.so (man1/\S+)\n", page.read_text())
        assert not other or "\n.SH NAME\n" in (manual.parent / other.group(1)).read_text(), page
    (documents,) = [p for p in tmp_path.rglob("doc/tenure") if p.is_dir()]
    for page in (ROOT / "docs/reference").glob("man*/*.scd"):
        for name in re.findall(r"\b(?:docs|examples)/[\w./-]*\w", page.read_text()):
            assert (documents / name).exists(), f"{page.name} names {name}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "tenure-store-toy.so", "toy.c",
                    f"-I{documents.parents[2]}/include"], check=True,
                   cwd=documents / "examples/conformance")
    subprocess.run([BUILD / "tests/conformance/tenure-conformance", "--dir", tmp_path, "--filter",
                    "create", "toy:@TMP@/registers"], check=True, stdout=subprocess.DEVNULL)


def test_a_minute(home):
    run = command("tenure run --name hello")
    home.start(run)
    home.start(run)
    clock = re.compile(r"\d\d:\d\d:\d\d")
    home.until(lambda: any(clock.search(home.said(i)) for i in (0, 1)))
    home.until_prints(command("tenure candidates"), lambda text: text.count("answers") == 2)
    leader = 0 if clock.search(home.said(0)) else 1
    assert not clock.search(home.said(1 - leader))  # exactly one
    assert "hello" in home.run(command("tenure status"))
    assert (home.path / ".local/state/tenure/tenure.db").exists()

    watch = home.start(command("tenure watch").split("#")[0])
    home.until(lambda: home.said(watch).strip())
    gap = home.run(command("tenure handover"))
    assert "no program ran for" in gap
    home.until(lambda: clock.search(home.said(1 - leader)))
    home.until(lambda: home.said(watch).count("\n") >= 2)
    # "even with kill -9": the one that leads now; the other one goes on.
    before = len(clock.findall(home.said(leader)))
    home.running[1 - leader][0].send_signal(signal.SIGKILL)
    home.until(lambda: len(clock.findall(home.said(leader))) > before)


def test_a_shared_store(home):
    line = command("export TENURE_STORE").removeprefix("export ")
    name, url = line.split("=", 1)
    assert re.fullmatch(r"postgres://\S+", url)
    home.env[name] = f"file:{home.path}/shared"  # stands in for a database
    (home.path / "billing").write_text("#!/bin/sh\necho billing as $TENURE_NAME, $TENURE_EPOCH\n")
    (home.path / "billing").chmod(0o755)
    assert " 0 broken" in home.run(command("tenure doctor"))
    assert re.search(r"billing as billing, \d{13}", home.run(command("tenure run --name billing")))


def test_state(home):
    said = home.run(command("tenure run --name count"))
    assert said.strip().endswith("41"), said
    assert "n/a" in home.run(command("tenure state show"))
    shown = home.run("tenure state show --name count --json")
    assert json.loads(shown.splitlines()[0])


def test_seeing_it(home):
    port = str(free_port())
    (home.path / "web").write_text("#!/bin/sh\necho up\nexec sleep 1000\n")
    (home.path / "web").chmod(0o755)

    def local(beginning):
        return command(beginning).replace("8080", port)

    web = home.start(local("tenure run --name web"))
    home.until(lambda: "up" in home.said(web))
    home.until(lambda: home.run(local("curl http://127.0.0.1:8080/leader") + "\n:").strip() == "ok")
    assert 'tenure_leader{name="web"' in home.run(local("curl http://127.0.0.1:8080/metrics"))
    assert "<!doctype html>" in home.run(f"curl http://127.0.0.1:{port}/")
    # It is written when the term has begun, beside the lease.
    home.until_prints(command("tenure history"), lambda text: text.strip())


def test_several_at_once(home):
    """The file as it stands, on a share of ours and a port of ours; and what the text below it says."""
    (text,) = blocks("yaml")
    (share,) = re.findall(r"path: (\S+),", text)
    port = str(free_port())
    (home.path / "share").mkdir()
    (home.path / "web").write_text("#!/bin/sh\necho web with $*\nexec sleep 1000\n")
    (home.path / "web").chmod(0o755)

    def local(line):
        return line.replace(share, f"{home.path}/share/leases").replace("/usr/bin/web", f"{home.path}/web").replace(
            "8311", port)

    (home.path / "tenure.yaml").write_text(local(text))
    (doctor,) = re.findall(r"`(tenure doctor --store [^`]+)`", README)
    (check,) = re.findall(r"`(tenure config check)`", README)
    agent = home.start("tenure agent --config tenure.yaml 2>&1")
    home.until(lambda: "leases" in home.said(agent))  # not mounted: no store of its own
    home.running[agent][0].terminate()
    home.running[agent][0].wait(PATIENCE)
    assert not (home.path / "share/leases").exists()
    assert " 0 broken" in home.run(local(doctor))  # "make it once"
    told = home.run(check + " tenure.yaml")
    assert "web" in told and "nightly" in told
    agent = home.start("tenure agent --config tenure.yaml 2>&1")
    home.until(lambda: "web with --port 80" in home.said(agent))
    for name in ("web", "nightly"):
        home.until(lambda: subprocess.run(["curl", "-fs", f"http://127.0.0.1:{port}/leader?name={name}"],
                                          capture_output=True).returncode == 0)
    (home.path / "tenure.yaml").write_text(local(text).replace("  - name: nightly", "  - name: weekly\n  - name: nightly"))
    home.running[agent][0].send_signal(signal.SIGHUP)  # "SIGHUP reloads what can change"
    home.until(lambda: subprocess.run(["curl", "-fs", f"http://127.0.0.1:{port}/leader?name=weekly"],
                                      capture_output=True).returncode == 0)
    (home.path / "tenure.yaml").write_text(local(text).replace("run:", "rum:"))
    line = text[:text.index("run:")].count("\n") + 1
    assert f":{line}:" in subprocess.run(["tenure", "config", "check", "tenure.yaml"], cwd=home.path, env=home.env, text=True,
                                   capture_output=True).stderr  # "what is wrong in which line"


def test_simulator(home):
    assert "n1" in home.run(command("tenure sim"))


def test_the_c_snippet_compiles(tmp_path):
    (snippet,) = blocks("c")
    (tmp_path / "snippet.c").write_text(
        "#include <stdio.h>\n#include <tenure/elector.h>\n"
        "void work(uint64_t epoch);\n"
        "void started(void *arg, const struct tenure_term *term);\n"
        "void stopped(void *arg, const struct tenure_term *term, const char *why);\n"
        "void snippet(void);\n"
        "void snippet(void)\n{\n"
        "tenure_elector *elector;\nstruct tenure_error error;\n" + snippet + "}\n")
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                    f"-I{ROOT}/include", "snippet.c"], cwd=tmp_path, check=True)


def test_fits_a_terminal_of_80_columns():
    assert [line for line in README.splitlines() if len(line) > 80] == []


def test_what_it_points_at_is_there():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:examples|include|tests|docs)/[^`]*)`", README):
        assert (ROOT / path).exists(), path
