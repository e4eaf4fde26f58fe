"""The conformance suite on every way to a real Redis."""

import pytest
import server_redis
from conformance import suite
from server_redis import Cluster, Redis, SentinelSet, make_certificates

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))

# What docs/reference/stores/redis.md tells people to grant.
RIGHTS = ("resetkeys", "~{tenure}:*", "resetchannels", "&{tenure}:k:*", "-@all", "+evalsha",
          "+script|load", "+get", "+getrange", "+exists", "+set", "+mset", "+zadd",
          "+zrangebylex", "+zrangebyscore", "+persist", "+info", "+publish", "+del", "+zrem", "+subscribe",
          "+psubscribe")


def test_tcp(build):
    with Redis() as redis:
        suite(build, redis.url())


def test_unix_socket(build):
    with Redis(("databases", "4")) as redis:
        suite(build, f"unix:{redis.socket}?db=3&prefix=other")
        assert b"db3:" in redis.cmd("INFO", "keyspace")
        assert b"db0:" not in redis.cmd("INFO", "keyspace")


def test_acl_user_with_just_the_rights(build, tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    with Redis(("user", "app", "on", ">hunter2", *RIGHTS)) as redis:
        suite(build, redis.url(f"?user=app&password_file={tmp_path}/password"))


def test_tls(build, tmp_path):
    ca, cert, key = make_certificates(tmp_path)
    port = server_redis.free_port()
    with Redis(("tls-port", port), ("tls-cert-file", cert), ("tls-key-file", key),
               ("tls-ca-cert-file", ca), ("tls-auth-clients", "no")):
        suite(build, f"rediss://localhost:{port}?ca_file={ca}")


def test_cluster(build):
    with Cluster() as cluster:
        hosts = ",".join(f"127.0.0.1:{n.port}" for n in cluster.nodes)
        suite(build, f"redis://{hosts}")


def test_sentinel(build):
    with SentinelSet() as servers:
        suite(build, servers.url())


def test_waiting_for_replicas(build):
    with Redis() as master, Redis(("replicaof", "127.0.0.1", master.port),
                                  ("repl-diskless-sync-delay", 0)) as replica:
        server_redis.until(lambda: replica.info("replication", "master_link_status") == "up")
        suite(build, master.url("?replicas=1"))
