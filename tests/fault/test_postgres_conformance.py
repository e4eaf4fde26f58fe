"""The conformance suite on every way to a real PostgreSQL."""

import subprocess

import pytest
import server_postgres
from conformance import suite
from proxy import Proxy
from server_postgres import PgBouncer, Postgres

pytestmark = pytest.mark.skipif(server_postgres.MISSING is not None,
                                reason=str(server_postgres.MISSING))


@pytest.fixture(scope="module")
def server():
    with Postgres() as running:
        yield running


def test_tcp(build, server):
    suite(build, server.url("?sslmode=disable"))


def test_unix_socket_and_another_schema(build, server):
    suite(build, f"postgresql:///postgres?host={server.dir}&port={server.port}&user=postgres"
          "&schema=Other_1")
    assert int(server.sql('SELECT count(*) FROM "Other_1".register')) > 0


def test_without_notifications(build, server):
    suite(build, server.url("?notify=off&poll=20ms"))


def test_through_a_slow_network(build, server):
    with Proxy(("127.0.0.1", server.port)) as proxy:
        proxy.delay = 0.001
        suite(build, server.url(port=proxy.port), "--processes", "4")


@pytest.mark.skipif(server_postgres.MISSING_POOLER is not None,
                    reason=str(server_postgres.MISSING_POOLER))
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_through_a_pooler(build, server, mode):
    with PgBouncer(server, mode, pool=3 if mode != "session" else 50) as pooler:
        suite(build, server.url("?poll=20ms", port=pooler.port))


def test_advisory(build, server):
    suite(build, server.url(scheme="postgres+advisory"))


@pytest.mark.parametrize("scheme", ["postgres", "postgres+advisory"])
def test_candidates_race(build, server, scheme):
    """Real processes fight for one lease; some are killed while they lead."""
    done = subprocess.run([build / "tests/fault/race_elect", server.url(scheme=scheme), "--dir",
                           build, "--terms", "300", "--kills", "3"],
                          capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
