"""The files that are built in: compressed for those who can read that, and sent once."""

import gzip
import http.client
import os
import pathlib
import re
import subprocess

import pytest
from agent import BUILD, TENURE, Agent
from process import until

pytestmark = pytest.mark.skipif(not (BUILD / "tenure-http.so").exists(), reason="without libmicrohttpd")
ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = {"/": "text/html; charset=utf-8", "/openapi.yaml": "application/yaml"}


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    made = Agent(folder, f"sqlite:{folder}/db", "a")
    yield made
    made.process.terminate()
    made.process.wait(60)


def ask(agent, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize("path", FILES)
def test_compressed_only_for_those_who_accept_it(agent, path):
    answer, plain = ask(agent, path)
    assert answer.status == 200 and answer.getheader("Content-Encoding") is None
    for accept in ("gzip", "GZIP", "br, gzip;q=0.5", "deflate,x-gzip", "*", "identity, *;q=0.1", "gzip ;q=1"):
        answer, body = ask(agent, path, Accept_Encoding=accept)
        assert answer.getheader("Content-Encoding") == "gzip", accept
        assert answer.getheader("Content-Type") == FILES[path]
        assert gzip.decompress(body) == plain and len(body) < len(plain) / 2
    for accept in ("", "br", "gzip;q=0", "gzip; q=0.0, *", "identity", "*;q=0", "gzipped", "br, , ;"):
        answer, body = ask(agent, path, Accept_Encoding=accept)
        assert answer.getheader("Content-Encoding") is None and body == plain, accept
        assert answer.getheader("Vary") == "Accept-Encoding"


@pytest.mark.parametrize("path", FILES)
def test_what_the_browser_has_is_not_sent_again(agent, path):
    tags = {}
    for accept in ("gzip", "identity"):
        answer, body = ask(agent, path, Accept_Encoding=accept)
        tags[accept] = answer.getheader("ETag")
        assert answer.getheader("Cache-Control") == "no-cache"  # asked for each time, and seldom sent
        for known in (tags[accept], "W/" + tags[accept], f'"x", {tags[accept]}', "*"):
            again, nothing = ask(agent, path, Accept_Encoding=accept, If_None_Match=known)
            assert (again.status, nothing) == (304, b""), known
            assert again.getheader("ETag") == tags[accept]
        again, whole = ask(agent, path, Accept_Encoding=accept, If_None_Match='"x"')
        assert again.status == 200 and whole == body
    assert tags["gzip"] != tags["identity"]
    again, _ = ask(agent, path, Accept_Encoding="gzip", If_None_Match=tags["identity"])
    assert again.status == 200  # the other form is not this one
    head, nothing = ask(agent, path, "HEAD", Accept_Encoding="gzip")
    assert head.status == 200 and head.getheader("ETag") == tags["gzip"] and nothing == b""


def parts(index):
    """The parts, scripts and styles that a page names."""
    return re.findall(r'(?:<script src="|rel="stylesheet" href="|<!-- include )([^" ]+)',
                      (ROOT / "src/api/page" / index).read_text())


def check_document(text, policy, index):
    assert text.count("<script") == 1 and text.count("<style") == 1
    assert ' src="' not in text and "<link rel=\"stylesheet\"" not in text
    assert "default-src 'none'" in policy and "unsafe" not in policy and "'self'" not in policy.split("connect-src")[0]
    assert "require-trusted-types-for 'script'" in policy
    for name in parts(index):
        part = (ROOT / "src/api/page" / name).read_text()
        assert part in text
        for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert sink not in part, f"{name} uses {sink}"


def test_the_page_is_one_document_under_a_strict_policy(agent):
    answer, body = ask(agent, "/")
    check_document(body.decode(), answer.getheader("Content-Security-Policy"), "index.html")


def test_each_file_is_part_of_a_page():
    files = {path.name for path in (ROOT / "src/api/page").iterdir()} - {"index.html", "jobs.html"}
    assert files == {*parts("index.html"), *parts("jobs.html")}


def pages(agent):
    return {c["id"]: c["page"] for c in agent.status()["candidates"]}


def test_candidates_name_the_address_of_their_page(tmp_path):
    """Each its own: under the name that it was given, and none where nobody could open it."""
    store = f"sqlite:{tmp_path}/db"
    with Agent(tmp_path, store, "a") as a, \
            Agent(tmp_path, store, "b", "--listen-host", "b.example", listen="0.0.0.0:0") as b, \
            Agent(tmp_path, store, "c", listen="0.0.0.0:0") as c:
        until(lambda: all(len(pages(one)) == 3 for one in (a, b, c)))
        assert pages(b) == {"a": f"http://127.0.0.1:{a.port}/", "b": f"http://b.example:{b.port}/", "c": ""}


def test_a_loopback_address_of_another_machine_is_no_link(tmp_path):
    (tmp_path / "boot").write_text("00000000-0000-4000-8000-000000000000\n")
    elsewhere = ["unshare", "--mount", "sh", "-c",
                 f'mount --bind {tmp_path}/boot /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
    if os.geteuid() or subprocess.run([*elsewhere, "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here")
    store = f"sqlite:{tmp_path}/db"
    with Agent(tmp_path, store, "near") as near:
        far = subprocess.Popen([*elsewhere, TENURE, "run", "--name", "web", "--store", store, "--id", "far", "--log", "none",
                                "--listen", "127.0.0.1:0", "--", "sleep", "600"], stdin=subprocess.DEVNULL)
        try:
            until(lambda: len(pages(near)) == 2)
            assert pages(near) == {"near": f"http://127.0.0.1:{near.port}/", "far": ""}
        finally:
            far.terminate()
            far.wait(60)
