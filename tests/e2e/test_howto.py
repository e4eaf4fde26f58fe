"""What docs/how-to and docs/start print is run, page by page, on real servers (CONTRIBUTING.md: the convention)."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
TENURE = BUILD / "tenure"
PAGES = sorted([*(ROOT / "docs/how-to").glob("*.md"), *(ROOT / "docs/start").glob("*.md")])

NETWORK = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]

sys.path.insert(0, str(ROOT / "tests" / "support"))
from document import Document, matches  # noqa: E402
from process import die_with_parent, until  # noqa: E402


SUDO = """#!/bin/sh
if [ "$1" = -u ]; then
    user=$2; shift 2
    [ "$(id -u)" != 0 ] || exec setpriv --reuid "$user" --regid "$user" --init-groups "$@"
fi
exec "$@"
"""


class Servers:
    """Each is started when the first page needs it, and is empty for every page."""

    def __init__(self):
        self.running = {}

    def start(self, name, module, make):
        if name not in self.running:
            if module.MISSING:
                pytest.skip(module.MISSING)
            self.running[name] = make()
        return self.running[name]

    def postgres(self, page):
        import server_postgres
        server = self.start("postgres", server_postgres, server_postgres.Postgres)
        name = "page_" + re.sub(r"\W", "_", page.stem)
        server.sql(f"CREATE DATABASE {name}")
        return {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGDATABASE": name, "PGUSER": "postgres",
                "POSTGRES_URL": f"postgres://postgres@127.0.0.1:{server.port}/{name}",
                "POSTGRES_BIN": os.path.dirname(server_postgres._bin("postgres"))}

    def redis(self, page):
        import server_redis
        server = self.start("redis", server_redis, lambda: server_redis.Redis(("appendonly", "yes")))
        server.cmd("FLUSHALL")
        return {"REDIS_PORT": str(server.port), "REDIS_URL": server.url()}

    def etcd(self, page):
        import server_etcd
        server = self.start("etcd", server_etcd, server_etcd.Etcd)
        server.ctl("del", "", "--prefix")
        return {"ETCD_ENDPOINT": server.endpoint(), "ETCD_URL": server.url(), "ETCDCTL_API": "3"}

    def stop(self):
        for server in self.running.values():
            server.stop()


@pytest.fixture(scope="module")
def servers():
    made = Servers()
    yield made
    made.stop()


@pytest.fixture
def home():
    """An empty home with the build in PATH, where nothing is asked for a password.  Others may look into it: a page
    may have a user of its own."""
    tmp_path = pathlib.Path(tempfile.mkdtemp(prefix="tenure-page-"))
    tmp_path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tenure").symlink_to(TENURE)
    (tmp_path / "bin/sudo").write_text(SUDO)
    (tmp_path / "bin/sudo").chmod(0o755)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_of_a_page_is_run(path, home, servers):
    document = Document(path)
    env = {"PATH": f"{home}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/go/bin", "SOURCE": str(ROOT),
           "BUILD": str(BUILD)}
    prefix = []
    for need in document.needs:
        if hasattr(servers, need):
            env.update(getattr(servers, need)(path))
        elif need == "root":
            if os.geteuid():
                pytest.skip("this page changes its user: only root can")
        elif need == "network":
            if subprocess.run([*NETWORK, "true"], capture_output=True).returncode:
                pytest.skip("network namespaces are not allowed here")
            prefix = NETWORK
        elif not shutil.which(need, path=env["PATH"]):
            pytest.skip(f"{need} is not installed")
    for block in document.blocks:
        if block.elsewhere:
            test = ROOT / block.elsewhere.split("::")[0]
            assert path.name in test.read_text(), f"{path.name}:{block.line}: {test.name} does not name this page"
    wrong = document.run(home, env, prefix)
    assert wrong is None, wrong


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_have_the_options_that_are_shown(path):
    text = "\n".join(block.text for block in Document(path).blocks if block.language == "sh").replace("\\\n", " ")
    for verb, rest in re.findall(r"\btenure (run|[a-z][a-z-]+(?: (?:export|import|show))?)\b([^\n]*)", text):
        done = subprocess.run([TENURE, *verb.split(), "--help"], capture_output=True, text=True)
        if done.returncode:  # a word of a comment
            assert verb.split()[0] not in ("run", "status", "state"), done.stderr
            continue
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]+", rest.split(" -- ")[0].split("#")[0]):
            assert option in done.stdout, f"tenure {verb} has no {option}"


def test_a_page_that_is_wrong_is_noticed(home):
    """The net itself: a command that fails, an output that differs, a code that is not the one."""
    def run(text):
        (home / "page.md").write_text(text)
        return Document(home / "page.md").run(home, {"PATH": "/usr/bin:/bin"})

    assert run("```sh\nx=1\necho a b\n```\n\n```text\na …\n```\n\n```sh\n[ $x = 1 ]\n```\n") is None
    assert "page.md:1: exit code 1 of: false" in run("```sh\nfalse\ntrue\n```\n")
    assert "page.md:1: exit code 1 of: true" in run("```sh\nfalse | true\n```\n")
    assert "but it printed" in run("```sh\necho a\n```\n```text\nb\n```\n")
    assert run("<!-- run: exit 3 -->\n```sh\nexit 3\n```\n") is None
    assert "exit code 4" in run("<!-- run: exit 3 -->\n```sh\nexit 4\n```\n")
    assert run("<!-- file: say -->\n```\n#!/bin/sh\necho DB\n```\n<!-- put: ./s => ./s -->\n<!-- put: DB => $PORT1 -->\n"
               "<!-- sh\n[ $(./say) = $PORT1 ]\n-->\n") is None
    assert run("<!-- run: background one two -->\n```sh\nA=b sleep 1000\n```\n"
               "<!-- sh\nuntil_ok grep -q b /proc/$one/environ\nend one\nend two KILL\n-->\n") is None
    with pytest.raises(ValueError, match="unknown mark"):
        run("<!-- run: never -->\n```sh\nfalse\n```\n")


def test_output_is_compared_line_by_line():
    shown = "election  state  leader\nweb       held   a\n"
    assert matches("election state leader\nweb held …\n", shown)
    assert matches("web held a\n", shown)
    assert not matches("web held b\n", shown)
    assert not matches("web …\nelection …\n", shown)


def test_the_worker_resumes_and_moves_to_another_store(tmp_path):
    (text,) = [block.text for block in Document(ROOT / "docs/how-to/python-worker.md").blocks
               if block.language == "python"]
    (tmp_path / "worker.py").write_text(text)
    old, new = f"file:{tmp_path}/old", f"sqlite:{tmp_path}/new.db"
    running, outputs = [], []

    def start(store):
        outputs.append(tmp_path / f"out-{len(outputs)}")
        with open(outputs[-1], "wb") as out:
            running.append(subprocess.Popen(
                [TENURE, "run", "--name", "worker", "--store", store, "--state", "store", "--log", "none",
                 "--", sys.executable, tmp_path / "worker.py"], stdout=out, preexec_fn=die_with_parent))

    def steps(number):
        return [tuple(map(int, line.split())) for line in outputs[number].read_text().splitlines(keepends=True)
                if line.endswith("\n")]

    try:
        start(old)
        until(lambda: len(steps(0)) > 2)
        start(old)
        running[0].kill()
        until(lambda: len(steps(1)) > 2)
        (epoch, last), (later, first) = steps(0)[-1], steps(1)[0]
        assert later > epoch and first in (last + 1, last + 2)  # a step that was not printed any more counts
        running[1].terminate()
        running[1].wait(60)
        last = steps(1)[-1][1]
        for verb, store in (("export", old), ("import", new)):
            subprocess.run([TENURE, "state", verb, "--name", "worker", "--store", store, tmp_path / "state"],
                           check=True, stderr=subprocess.DEVNULL)
        assert json.loads((tmp_path / "state").read_text().splitlines()[0])
        start(new)
        until(lambda: steps(2))
        assert steps(2)[0][1] in (last + 1, last + 2)
    finally:
        for process in running:
            process.kill()
            process.wait()
