"""What a mistake on the command line is answered: one line that says what to do, and the right code."""

import json
import os
import pathlib
import subprocess
import threading

import pytest

TENURE = pathlib.Path(os.environ["TENURE_BUILD"]) / "tenure"
VERBS = ("status", "watch", "history", "candidates", "handover", "step-down", "pause", "resume", "reset")
NAMES = ("", "/a", "a/", "../x", "\u00e9", "a b", "x" * 201)


def run(*args, code, env=None):
    done = subprocess.run([TENURE, *args], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=env)
    assert done.returncode == code, done
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 2 and not done.stdout, done
    assert len(lines) == 1 or lines[1].startswith("Try 'tenure "), done
    return lines[0]


@pytest.mark.parametrize("args", [*([verb] for verb in VERBS), ["state", "show"], ["run"]],
                         ids=lambda args: args[0])
def test_a_name_that_cannot_be(args, tmp_path):
    """As written: nothing was asked of the store, so it is no failure of it."""
    for name in NAMES:
        said = run(*args, "--store", f"sqlite:{tmp_path}/db", "--name", name,
                   *["--", "true"] * (args == ["run"]), code=2)
        assert said.startswith(f"tenure {args[0]}: '{name[:60]}' cannot be the name of an election")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", [*VERBS, "state", "run", "agent", "config", "doctor", "store"])
def test_an_option_that_is_not_there(verb):
    assert run(verb, "--stroe", "x", code=2) == f"tenure {verb}: unrecognized option '--stroe'"


def test_verbs_that_are_not_there():
    assert "'hisotry' (did you mean 'history'?)" in run("hisotry", code=2)
    assert "there is no verb 'nosuch'" in run("help", "nosuch", code=2)


def test_other_mistakes(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": ""}
    assert "give more than nothing" in run("status", "--timeout", "0", code=2, env=env)
    for text in ("-1s", "1e9h", "99999999999h", "5", ""):
        assert "is not a duration" in run("status", "--timeout", text, code=2, env=env)
    assert "make it: mkdir" in run("status", "--store", f"sqlite:{tmp_path}/a/b.db", code=1, env=env)
    assert "name another" in run("config", "check", f"{tmp_path}/a.yaml", code=1, env=env)
    assert "the token: secret file /no/such: No such file" in run(
        "run", "--log", "text", "--name", "x", "--listen", "127.0.0.1:0", "--token-file", "/no/such",
        "--", "true", code=1, env=env)


def test_a_pause_of_what_is_not_there(tmp_path):
    done = subprocess.run([TENURE, "pause", "--name", "wbe", "--store", f"sqlite:{tmp_path}/db"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("wbe is paused")
    assert done.stderr == "tenure pause: nobody has ever led wbe: is that its name?\n"


def test_history_follows(tmp_path):
    """Terms as they begin and as they end, for people and for programs; nobody who reads ends it."""
    url = f"sqlite:{tmp_path}/db"
    followers = [subprocess.Popen([TENURE, "history", "--name", "x", "--follow", "--store", url, *more],
                                  stdout=subprocess.PIPE, text=True) for more in ([], ["--json"])]
    watchdog = threading.Timer(60, lambda: [f.kill() for f in followers])
    watchdog.start()
    try:
        assert followers[0].stdout.readline().split()[0] == "from"
        for ident in ("a", "b"):
            subprocess.run([TENURE, "run", "--name", "x", "--store", url, "--id", ident, "--log",
                            "none", "--", "sleep", "0.3"], check=True)
        said = []
        while [t["holder"] for t in said if t["to_ms"]] != ["a", "b"]:
            said.append(json.loads(followers[1].stdout.readline()))
        assert said[-1]["end"] == "the program ended"
        lines = [followers[0].stdout.readline()]
        assert " a " in lines[0]
        while not (" b " in lines[-1] and "the program ended" in lines[-1]):
            lines.append(followers[0].stdout.readline())
            assert lines[-1], lines
        for f in followers:
            f.stdout.close()
        subprocess.run([TENURE, "run", "--name", "x", "--store", url, "--log", "none", "--", "true"],
                       check=True)
        assert [f.wait(60) in (1, -13) for f in followers] == [True, True]
    finally:
        watchdog.cancel()
        for f in followers:
            f.kill()
            f.wait()
