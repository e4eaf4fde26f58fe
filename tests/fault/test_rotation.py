"""A certificate is replaced while candidates run: new connections see the new one, open ones go on,
and nobody's leadership notices."""

import http.client
import json
import shutil
import ssl
import subprocess

import pytest
from agent import TOKEN, Agent
from process import until

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed: "
                                "run scripts/deps, or apt-get install openssl")


def make(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", folder / f"{name}.key",
                    "-out", folder / f"{name}.pem", "-subj", f"/CN={name}", "-days", "2",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)


def replace(folder, name, end):
    """As tools do it: a new file under the old name."""
    put(folder, (folder / f"{name}.{end}").read_text(), end)


def put(folder, text, end):
    (folder / "fresh").write_text(text)
    (folder / "fresh").rename(folder / f"shown.{end}")


def shown(agent):
    return ssl.get_server_certificate(("127.0.0.1", agent.port))


def ask(connection, path):
    connection.request("GET", path, headers={"Authorization": "Bearer " + TOKEN})
    answer = connection.getresponse()
    return answer.status, answer.read()


def events(agent, word):
    return [line for line in agent.events() if line["event"] == word]


def test_an_authority_is_replaced(tmp_path):
    """Whose clients are trusted: the new one's at once, the former one's no more."""
    for name in ("server", "old", "new"):
        make(tmp_path, name)
    shutil.copy(tmp_path / "old.pem", tmp_path / "shown.pem")
    with Agent(tmp_path, f"sqlite:{tmp_path}/db", "a", "--tls-cert", str(tmp_path / "server.pem"),
               "--tls-key", str(tmp_path / "server.key"), "--tls-client-ca",
               str(tmp_path / "shown.pem")) as agent:
        def code(who):
            trust = ssl.create_default_context(cafile=tmp_path / "server.pem")
            trust.load_cert_chain(tmp_path / f"{who}.pem", tmp_path / f"{who}.key")
            connection = http.client.HTTPSConnection("127.0.0.1", agent.port, context=trust,
                                                     timeout=60)
            try:
                return ask(connection, "/leader")[0]
            finally:
                connection.close()

        until(lambda: code("old") == 200)
        assert code("new") == 403
        put(tmp_path, "nobody", "pem")
        until(lambda: code("old") == 200 and events(agent, "certificate-kept"))
        replace(tmp_path, "new", "pem")
        until(lambda: code("new") == 200)
        assert code("old") == 403
        assert "no others" in events(agent, "certificate")[0]["text"]


def test_a_certificate_is_replaced(tmp_path):
    store = f"sqlite:{tmp_path}/db"
    for name in ("old", "new", "third"):
        make(tmp_path, name)
    texts = {name: (tmp_path / f"{name}.pem").read_text() for name in ("old", "new", "third")}
    for end in ("pem", "key"):
        replace(tmp_path, "old", end)
    options = ("--tls-cert", str(tmp_path / "shown.pem"), "--tls-key", str(tmp_path / "shown.key"))
    with Agent(tmp_path, store, "a", *options) as leader:
        until(lambda: events(leader, "running"))
        with Agent(tmp_path, store, "b", *options) as waiting:
            until(lambda: events(waiting, "standby"))
            trust = ssl.create_default_context(cafile=tmp_path / "old.pem")
            kept = http.client.HTTPSConnection("127.0.0.1", waiting.port, context=trust, timeout=60)
            led = http.client.HTTPSConnection("127.0.0.1", leader.port, context=trust, timeout=60)
            assert ask(kept, "/leader")[0] == 503 and ask(led, "/leader")[0] == 200
            epoch = json.loads(ask(led, "/_ha/status")[1])["elections"][0]["epoch"]

            # Half of it: no pair, so that the old one is shown.  Said once.
            replace(tmp_path, "new", "pem")
            until(lambda: shown(waiting) == texts["old"] and events(waiting, "certificate-kept"))
            assert "not a pair" in events(waiting, "certificate-kept")[0]["text"]
            replace(tmp_path, "new", "key")
            for agent in (waiting, leader):
                until(lambda: shown(agent) == texts["new"])
                until(lambda: events(agent, "certificate"))
            assert len(events(waiting, "certificate-kept")) == 1
            # And once more; something that is no certificate changes nothing.
            put(tmp_path, "no key", "key")
            until(lambda: shown(waiting) == texts["new"]
                  and len(events(waiting, "certificate-kept")) == 2)
            for end in ("key", "pem"):
                replace(tmp_path, "third", end)
            until(lambda: shown(waiting) == texts["third"])
            until(lambda: shown(leader) == texts["third"])

            # Who was connected still is, and leadership went on.
            assert ask(kept, "/leader")[0] == 503 and ask(led, "/leader")[0] == 200
            status = json.loads(ask(led, "/_ha/status")[1])["elections"][0]
            assert (status["leading"], status["epoch"]) == (True, epoch)
            assert not events(leader, "lost") and not events(leader, "trouble")
            key = (tmp_path / "third.key").read_text().splitlines()[1]
            assert key not in leader.words() + waiting.words()
            kept.close()
            led.close()
