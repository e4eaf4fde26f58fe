"""What docs/how-to and docs/start print can be run: options exist, examples work."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENURE = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build")) / "tenure"
PAGES = sorted([*(ROOT / "docs/how-to").glob("*.md"), *(ROOT / "docs/start").glob("*.md")])

sys.path.insert(0, str(ROOT / "tests" / "support"))
from process import die_with_parent, until  # noqa: E402


def blocks(page, language):
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.M | re.S)


def page(name):
    return ROOT / "docs/how-to" / name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_have_the_options_that_are_shown(path):
    text = "\n".join(blocks(path, "sh")).replace("\\\n", " ")
    for verb, rest in re.findall(r"\btenure (run|[a-z][a-z-]+(?: (?:export|import|show))?)\b([^\n]*)", text):
        done = subprocess.run([TENURE, *verb.split(), "--help"], capture_output=True, text=True)
        if done.returncode:  # a word of a comment
            assert verb.split()[0] not in ("run", "status", "state"), done.stderr
            continue
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]+", rest.split(" -- ")[0].split("#")[0]):
            assert option in done.stdout, f"tenure {verb} has no {option}"


def test_scripts_can_be_parsed():
    (script,) = [text for text in blocks(page("virtual-address.md"), "sh") if text.startswith("#!")]
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_the_file_for_cron_can_be_used(tmp_path):
    (text,) = blocks(page("script-lock.md"), "yaml")
    (tmp_path / "tenure.yaml").write_text(re.sub(r'"postgres:[^"]*"', f'"file:{tmp_path}/leases"', text))
    subprocess.run([TENURE, "config", "check", tmp_path / "tenure.yaml"], check=True, stdout=subprocess.DEVNULL)


def test_the_worker_resumes_and_moves_to_another_store(tmp_path):
    (text,) = blocks(page("python-worker.md"), "python")
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
        until(lambda: len(steps(0)) > 2, limit=60)
        start(old)
        running[0].kill()
        until(lambda: len(steps(1)) > 2, limit=60)
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
        until(lambda: steps(2), limit=60)
        assert steps(2)[0][1] in (last + 1, last + 2)
    finally:
        for process in running:
            process.kill()
            process.wait()
