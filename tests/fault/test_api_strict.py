"""What is refused instead of ignored, and what the log tells of those who asked."""

import json

import pytest
from agent import TOKEN, Agent
from process import until
from unix_http import ask as ask_unix

WRONG = "canary-token-that-is-wrong"


@pytest.fixture(scope="module")
def leader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leader")
    with Agent(folder, f"sqlite:{folder}/db", "a", "--state", "store", "--address", "http://192.0.2.7:80") as agent:
        yield agent.leads()


def texts(agent, event):
    return [e["text"] for e in agent.events() if e["event"] == event]


@pytest.mark.parametrize("path, known", [
    ("/leader?nmae=web", "known: name"), ("/livez?x=1", "none is known here"),
    ("/v1/leadership?wiat=60", "known: name, wait, since, stream"), ("/metrics?name=web", "none"),
    ("/leader?name=web&name=web", "twice"), ("/v1/elections/web/leader?name=other", "another election"),
    ("/v1/leadership?wait=soon", "wait"), ("/v1/leadership?stream=perhaps", "stream")])
def test_unknown_parameters_are_refused(leader, path, known):
    answer = leader.ask(path)
    assert answer.status == 400 and answer.json()["error"] == "invalid", answer.text
    assert known in answer.json()["detail"]


def test_what_is_known_is_taken(leader):
    for path in ("/leader?name=web", "/leader?", "/v1/elections/web/leader?name=web", "/?anything=1",
                 "/v1/leadership?name=web&wait=0.1&stream=0"):
        assert leader.ask(path).status == 200, path
    assert leader.order("/v1/pause?name=web", {"name": "web", "by": "ops"}).status == 200
    assert leader.order("/v1/resume", {"name": "web"}).status == 200


@pytest.mark.parametrize("path, body, known", [
    ("/v1/pause", {"raeson": "x"}, "known: name, by, reason"), ("/v1/resume", {"x": 1}, "known: name"),
    ("/v1/step-down", {"for": 1}, "known: name, for_ms, force"), ("/v1/handover", {"t": "b"}, "known: name, to"),
    ("/v1/pause", {"name": "other"}, "another election"),
    ("/v1/state", {"commits": [], "x": 1}, "known: commits"),
    ("/v1/state", {"commits": [{"collection": "c", "id": "i", "data": "", "dleete": True}]},
     "known: collection, id, data, base64, delete")])
def test_unknown_members_are_refused(leader, path, body, known):
    answer = leader.order(path, body)
    assert answer.status == 400 and answer.json()["error"] == "invalid", answer.text
    assert known in answer.json()["detail"]
    assert not leader.status()["paused"]


def test_a_wrong_token_is_not_none(leader):
    none, wrong = leader.ask("/v1/pause", "POST"), leader.ask("/v1/pause", "POST", token=WRONG)
    assert (none.status, none.json()["error"]) == (401, "token")
    assert "--token-file" in none.json()["detail"]
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="tenure"'
    assert (wrong.status, wrong.json()["error"]) == (401, "wrong-token")
    assert 'error="invalid_token"' in wrong.headers["WWW-Authenticate"]
    for _ in range(20):
        assert leader.ask("/v1/pause", "POST", token=WRONG).status == 401
    # Who it was; neither the token, nor a line for each.
    told = until(lambda: texts(leader, "token"))
    assert "127.0.0.1:" in told[0] and "POST /v1/pause" in told[0]
    assert len(texts(leader, "token")) < 20
    assert WRONG not in leader.words() and TOKEN not in leader.words()


def test_the_state_says_which_token(leader):
    answer = leader.ask("/v1/state")
    assert answer.status == 401 and "--token-file" in answer.json()["detail"]
    answer = leader.ask("/v1/state", token=TOKEN)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    assert leader.ask("/v1/pause", "PUT", "", TOKEN).headers["Allow"] == "POST, DELETE"


def test_changes_are_logged_with_who_asked(tmp_path):
    path = tmp_path / "sock"
    with Agent(tmp_path, f"sqlite:{tmp_path}/db", "a", "--state", "store", "--listen", f"unix:{path}") as agent:
        agent.leads()
        assert agent.order("/v1/pause", {}).status == 200
        assert ask_unix(path, "POST", "/v1/resume", "{}").status == 200
        assert agent.ask("/v1/state/jobs/one", "PUT", b"x", TOKEN).status == 200
        told = texts(agent, "order")
        assert "pause web, by 127.0.0.1:" in told[0] and "resume web, by uid " in told[1]
        assert "PUT /v1/state/jobs/one, by 127.0.0.1:" in told[2]


def test_a_standby_names_the_leader(tmp_path, leader):
    store = f"sqlite:{leader.folder}/db"
    with Agent(tmp_path, store, "b") as second:
        second.waits()
        answer = second.ask("/leader")
        assert answer.status == 503
        epoch = leader.status()["epoch"]
        assert answer.text == f"not the leader: a leads, epoch {epoch}, at http://192.0.2.7:80\n"
    with Agent(tmp_path, store, "c", "--listen-reads", "token") as third:
        until(lambda: third.ask("/leader", token=TOKEN).text.endswith(":80\n"))
        assert third.ask("/leader").text == "not the leader\n"


def test_an_agent_passes_on_who_asked(tmp_path):
    from test_listener import Fleet
    with Fleet(tmp_path, "a") as fleet:
        fleet.leads()
        answer = fleet.order("/v1/pause?name=web", {"raeson": "x"})
        assert answer.status == 400 and "known: name, by, reason" in answer.json()["detail"]
        assert fleet.order("/v1/pause?name=web", {}).status == 200
        assert any("pause web, by 127.0.0.1:" in json.loads(line)["text"]
                   for line in fleet.words().splitlines() if line.startswith("{"))
