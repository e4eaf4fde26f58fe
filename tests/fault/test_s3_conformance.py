"""The conformance suite on a real MinIO."""

import pytest
import server_minio
from conformance import suite
from server_minio import BUCKET, Minio

pytestmark = pytest.mark.skipif(server_minio.MISSING is not None, reason=str(server_minio.MISSING))


def test_minio(build, monkeypatch):
    monkeypatch.setenv("MINIO_PASSWORD", "password-one")
    with Minio() as minio:
        suite(build, minio.url().replace(f"{BUCKET}?", f"{BUCKET}/some/prefix?"), rounds=20)
        names = minio.names()
        assert names and all(name.startswith("some/prefix/") for name in names)
