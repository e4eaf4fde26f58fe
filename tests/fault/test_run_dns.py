"""A name server that does not answer holds up nobody's loop."""

import os
import signal
import socket
import subprocess

import pytest
import world as w
from world import TENURE, World, eventually

CONFIG = """
coordinate:
  store: {url}
  ttl: 15s
elections:
  - name: w
    run:
      command: [sleep, "1000"]
      probe: {probe}
"""


@pytest.fixture
def silent(tmp_path):
    """A socket that hears the questions, and a wrapper whose resolver asks there, for 30 s."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.settimeout(w.PATIENCE)
    conf = tmp_path / "resolv.conf"
    try:
        server.bind(("127.53.53.53", 53))
    except OSError as error:
        pytest.skip(f"no port 53 here: {error}")
    conf.write_text("nameserver 127.53.53.53\noptions timeout:30 attempts:1\n")
    wrap = ["unshare", "--mount", "sh", "-c",
            f'mount --bind {conf} /etc/resolv.conf && exec "$@"', "sh"]
    if subprocess.run([*wrap, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a mount namespace needs privileges here")
    with server:
        yield server, wrap


def test_a_reload_waits_for_no_name(silent):
    server, wrap = silent
    with World(ttl_ms=15000) as world:
        config, log = world.dir / "agent.yaml", world.dir / "agent.log"
        config.write_text(CONFIG.format(url=world.url, probe="exec:true"))
        with open(log, "wb") as out:
            agent = subprocess.Popen([*wrap, TENURE, "agent", "--config", config], stderr=out,
                                     stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            eventually("it leads", lambda: "leading, epoch" in log.read_text())
            config.write_text(CONFIG.format(url=world.url, probe="tcp:slow.test:80"))
            agent.send_signal(signal.SIGHUP)
            assert b"slow" in server.recv(512)
            agent.send_signal(signal.SIGTERM)
            agent.wait(25)  # the resolver waits for 30 s
            assert "the probe stays as it was" not in log.read_text()
        finally:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
