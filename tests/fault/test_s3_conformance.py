"""The conformance suite on a real MinIO."""

import pytest
import server_minio
from conformance import suite
from server_minio import BUCKET, Minio

pytestmark = pytest.mark.skipif(server_minio.MISSING is not None, reason=str(server_minio.MISSING))
BROKE = "the connection broke before an answer came"


def run(build, url):
    """True if it passes.  On a very busy machine a kept connection was seen to end just as a change left on it: that is
    unknown, as C3 has it, and some checks want an answer.  Such a run, and no other one, says nothing."""
    try:
        suite(build, url, rounds=20)
        return True
    except AssertionError as error:
        failed = [line for line in str(error).splitlines() if line.startswith("FAILED")]
        if failed and all(BROKE in line for line in failed):
            return False
        raise


def test_minio(build, monkeypatch):
    monkeypatch.setenv("MINIO_PASSWORD", "password-one")
    with Minio() as minio:
        assert any(run(build, minio.url().replace(f"{BUCKET}?", f"{BUCKET}/some/prefix{number}?")) for number in range(3))
        names = minio.names()
        assert names and all(name.startswith("some/prefix") for name in names)
