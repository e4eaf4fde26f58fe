"""The conformance suite on a real Azurite."""

import pytest
import server_azurite
from conformance import suite
from server_azurite import CONTAINER, Azurite

pytestmark = pytest.mark.skipif(server_azurite.MISSING is not None, reason=str(server_azurite.MISSING))


def test_azurite(build, monkeypatch):
    with Azurite() as azurite:
        monkeypatch.setenv("AZURITE_KEY", azurite.key)
        suite(build, azurite.url().replace(f"{CONTAINER}?", f"{CONTAINER}/some/prefix?"), rounds=20)
        names = azurite.names()
        assert names and all(name.startswith("some/prefix/") for name in names)
