"""`make demo`: what it shows fits a terminal, agrees with itself, and leaves nothing behind."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / "build/tenure").exists(), reason="the demo shows build/tenure")
def test_demo(tmp_path):
    done = subprocess.run([ROOT / "scripts/demo"], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "NO_COLOR": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and not done.stderr, done
    assert not list(tmp_path.iterdir())
    lines = done.stdout.splitlines()
    assert not [line for line in lines if len(line) > 80 or line.endswith(" ")]
    first, second = re.findall(r"demo is led by (\w+)$", done.stdout, re.M)
    assert first != second
    for leader, shown in zip((first, second), done.stdout.split("demo is led by")[1:]):
        assert re.findall(r"^    (\w+) +leading ", shown, re.M) == [leader]
        assert re.findall(r"^    \S+ (\w+) +now ", shown, re.M) == [leader]
    terms = re.search(r"tenure history.*?\n(?:.*\n){4}", done.stdout)[0].splitlines()[2:]
    assert [term.split()[1] for term in terms[:2]] == [first, second]
    assert terms[0].endswith("crashed") and terms[1].split("  ")[-1].startswith("handed over to ")
