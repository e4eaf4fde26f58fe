"""What all tests that drive real processes share.

Run by `meson test`, or by hand:
    /usr/bin/python3 -m pytest tests/fault/test_redis_specific.py
The build folder is ./build, or what TENURE_BUILD says.
"""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
os.environ.setdefault("TENURE_BUILD", str(ROOT / "build"))


@pytest.fixture(scope="session")
def build():
    """The build folder."""
    return pathlib.Path(os.environ["TENURE_BUILD"])
