"""Load: LOAD=4 keeps every core busy four times over while the tests run.  And the server stores (support/rig.py),
one at a time: a test that takes `rig` is run with each."""

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


@pytest.fixture(scope="session", params=["postgres", "advisory", "redis", "etcd", "consul", "kube", "zookeeper", "nats", "s3"])
def running(request):
    """A server that serves all tests with it; pytest puts them together."""
    from rig import running_rig  # the program that it prepares servers with need not be there
    yield from running_rig(request.param)


@pytest.fixture
def rig(running):
    running.settle()
    running.clear()
    return running


@pytest.fixture
def proxy(rig):
    from proxy import Proxy
    with Proxy(("127.0.0.1", rig.port)) as between:
        yield between
