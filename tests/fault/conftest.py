"""Load: LOAD=4 keeps every core busy four times over while the tests run."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from process import die_with_parent  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def load():
    count = int(os.environ.get("LOAD", "0")) * len(os.sched_getaffinity(0))
    spinners = [
        subprocess.Popen(
            ["sh", "-c", "while :; do :; done"],
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        for _ in range(count)
    ]
    yield
    for s in spinners:
        s.kill()
        s.wait()
