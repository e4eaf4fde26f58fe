"""What a mistake on the command line is answered: one line that says what to do, and the right code."""

import json
import os
import pathlib
import re
import sqlite3
import subprocess
import threading

import pytest

TENURE = pathlib.Path(os.environ["TENURE_BUILD"]) / "tenure"
VERBS = ("status", "watch", "history", "candidates", "handover", "step-down", "pause", "resume", "reset", "remove")
NAMES = ("", "/a", "a/", "../x", "\u00e9", "a b", "x" * 101,
         "web/state/jobs", "web/state", "a/b/candidates")  # keys of another election's


def run(*args, code, env=None):
    done = subprocess.run([TENURE, *args], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=env)
    assert done.returncode == code, done
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n") and not done.stdout, done
    return done.stderr[:-1]


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
    said = run(verb, "--no-such", "x", code=2)
    assert said == f"tenure {verb}: unrecognized option '--no-such'; 'tenure {verb} --help' lists them"


def test_options_that_are_nearly_there():
    assert "'--stroe' (did you mean '--store'?);" in run("status", "--stroe=x", code=2)
    assert "'--st' (4 options begin like this);" in run("run", "--st", "x", code=2)
    assert run("status", "--json=1", code=2) == "tenure status: --json takes no value"
    assert run("status", "--name", code=2) == "tenure status: --name needs a value: --name=..."


def test_verbs_that_are_not_there():
    assert "'hisotry' (did you mean 'history'?)" in run("hisotry", code=2)
    assert "unknown verb 'nosuch'" in run("help", "nosuch", code=2)
    assert "'lcok' (did you mean 'lock'?)" in run("lcok", code=2)  # two letters exchanged are one mistake
    assert "'lsit' (did you mean 'list'?)" in run("jobs", "lsit", "--group", "g", code=2)


@pytest.mark.parametrize("args,known", [(("state", "exprot"), "export"), (("config", "chekc"), "check"),
                                        (("store", "optoins"), "options")])
def test_subcommands_that_are_not_there(args, known):
    assert f"unknown subcommand '{args[1]}' (did you mean '{known}'?)" in run(*args, code=2)
    assert "missing subcommand, one of: " in run(args[0], code=2)


def test_help_in_every_way():
    verbs = re.findall(r"^  ([a-z][a-z-]*)  ", subprocess.run([TENURE, "help"], capture_output=True, text=True,
                                                               check=True).stdout, re.M)
    for verb in [*verbs, "version"]:
        told = {subprocess.run([TENURE, *words], capture_output=True, text=True, check=True,
                               stdin=subprocess.DEVNULL).stdout
                for words in ((verb, "--help"), (verb, "-h"), ("help", verb))}
        assert len(told) == 1 and (usage := told.pop()).startswith("usage: tenure"), verb
        for action in re.findall(rf"^(?:usage:|      ) tenure {verb} ([a-z][a-z-]+) ", usage, re.M):
            done = subprocess.run([TENURE, verb, action, "--help"], capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, usage), (verb, action, done.stderr)


def test_an_agent_without_a_store(tmp_path):
    file = tmp_path / "tenure.yaml"
    file.write_text("elections: [{name: web, run: {command: [sleep, '600']}}]\n")
    said = run("agent", "--config", file, code=2)
    assert "coordinate: no store is given: write 'coordinate:" in said


def test_other_mistakes(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": ""}
    assert "must be greater than 0" in run("status", "--timeout", "0", code=2, env=env)
    for text in ("-1s", "1e9h", "99999999999h", "5", ""):
        assert "is not a duration" in run("status", "--timeout", text, code=2, env=env)
    assert "is not a duration" in run("run", "--name", "x", "--ttl", "soon", "--", "true", code=2)
    assert "name another" in run("config", "check", f"{tmp_path}/a.yaml", code=1, env=env)
    assert "the token: secret file /no/such: No such file" in run(
        "run", "--log", "text", "--name", "x", "--listen", "127.0.0.1:0", "--token-file", "/no/such",
        "--", "true", code=1, env=env)


@pytest.mark.parametrize("ttl", ["1s", "15s", "1001ms", "2m"])
def test_timings_that_are_advised_are_accepted(ttl, tmp_path):
    def renew(every):
        return subprocess.run([TENURE, "run", "--name", "x", "--store", f"sqlite:{tmp_path}/db",
                               "--ttl", ttl, "--renew", every, "--log", "text", "--", "true"],
                              capture_output=True, text=True, timeout=60)
    done = renew("10m")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    advised = re.search("give a renew of 1ms to ([0-9]+)ms;", done.stderr)[1]
    assert renew(f"{advised}ms").returncode == 0
    done = renew(f"{int(advised) + 1}ms")
    assert done.returncode == 2 and re.search(f"give a renew of 1ms to {advised}ms\\b", done.stderr), done


# Each is the same mistake for every verb: what is written has to change, not the store.
WRONG = {"a scheme": ("nosuch:/x", "no store is called"),
         "no scheme": ("/x", "has no scheme"),
         "a parameter": ("sqlite:{}/foreign?shiny=yes", "does not know the parameter 'shiny'"),
         "a directory": ("sqlite:{}/", "needs the name of a file"),
         "a foreign database": ("sqlite:{}/foreign", "foreign")}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("verb", [*VERBS, "state show", "state put", "run", "doctor"])
def test_a_store_that_cannot_be(verb, wrong, tmp_path):
    with sqlite3.connect(tmp_path / "foreign") as other:
        other.execute("CREATE TABLE customers (name)")
    url, text = WRONG[wrong]
    args = [*verb.split(), "--store", url.format(tmp_path)]
    if verb == "doctor":
        done = subprocess.run([TENURE, *args, "--quick"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and text.split()[0] in done.stdout, done
        return
    said = run(*args, "--name", "x", *{"state put": ["a/b"], "run": ["--log", "text", "--", "true"]}
               .get(verb, []), code=2)
    assert text in said, said


# ---- A store that is not there -----------------------------------------------

READERS = ("history", "candidates", "handover", "step-down", "resume", "reset", "state show",
           "state get", "state export", "state delete", "state repair")


@pytest.mark.parametrize("url", ["sqlite:{}/typo.db", "file:{}/typo", "sqlite:{}/no/dir/typo.db"])
@pytest.mark.parametrize("verb", ["status", *READERS])
def test_who_looks_makes_nothing(verb, url, tmp_path):
    """A store that is mistyped is no healthy empty one."""
    url = url.format(tmp_path)
    said = run(*verb.split(), "--store", url, "--name", "x",
               *{"state get": ["a/b"], "state delete": ["a/b"], "state repair": ["a"]}.get(verb, []),
               code=2)
    assert f"there is no store at {url.split(':')[1]}; " in said and "`tenure run` makes it" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", READERS[:5])
def test_who_looks_makes_no_default_store(verb, tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": ""}
    assert f"{tmp_path}/.local/state/tenure/tenure.db yet; " in run(verb, "x", code=2, env=env)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_no_store(tmp_path):
    (tmp_path / "empty").touch()
    for url in (f"file:{tmp_path}", f"sqlite:{tmp_path}/empty"):
        run("status", "--store", url, code=2)
    assert [(p.name, p.stat().st_size) for p in tmp_path.iterdir()] == [("empty", 0)]


def test_status_before_the_first_run(tmp_path):
    """The default store cannot be mistyped: nobody has led, and a line says where that was looked up."""
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": ""}
    for args, out in ((["--name", "x"], "x has never been led\n"),
                      ([], "there are no elections in this store\n")):
        done = subprocess.run([TENURE, "status", *args], capture_output=True, text=True, env=env)
        assert (done.returncode, done.stdout) == (3, out)
        assert done.stderr.count("\n") == 1 and "no store at" in done.stderr
        done = subprocess.run([TENURE, "status", *args, "--json"], capture_output=True, text=True,
                              env=env)
        assert done.returncode == 3
        assert json.loads(done.stdout).get("state", "absent") == "absent"
    assert not list(tmp_path.iterdir())


def test_who_leaves_something_makes_it(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": ""}
    subprocess.run([TENURE, "pause", "x"], check=True, env=env)
    assert (tmp_path / ".local/state/tenure/tenure.db").exists()
    assert subprocess.run([TENURE, "status", "x"], env=env, capture_output=True).returncode == 3
    subprocess.run([TENURE, "state", "put", "--name", "x", "--store", f"file:{tmp_path}/new", "a/b"],
                   check=True, stdin=subprocess.DEVNULL)
    run("pause", "x", "--store", f"sqlite:{tmp_path}/a/b.db", code=2)


@pytest.mark.parametrize("verb", [*VERBS, "state show", "run", "doctor"])
def test_a_home_that_is_not_there(verb, tmp_path):
    """Who has none does not get one from us, owned by whoever came first."""
    for state in ("", f"{tmp_path}/home/.local/state"):
        env = {**os.environ, "HOME": f"{tmp_path}/home", "XDG_STATE_HOME": state}
        said = run(*verb.split(), *["--name", "x"] * (verb != "doctor"),
                   *["--", "true"] * (verb == "run"), code=2, env=env)
        assert f"the home directory {tmp_path}/home is not there; give --store" in said
    assert not list(tmp_path.iterdir())


def test_watch_waits_for_its_store(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    with subprocess.Popen([TENURE, "watch", "--name", "x", "--store", url], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        try:
            assert watch.stderr.readline() == \
                f"tenure watch: there is no store at {tmp_path}/db yet; waiting for it\n"
            assert not list(tmp_path.iterdir())
            subprocess.run([TENURE, "run", "--name", "x", "--store", url, "--log", "none", "--",
                            "true"], check=True)
            assert " x: free" in watch.stdout.readline()
        finally:
            watch.kill()


# ---- Damage --------------------------------------------------------------------

@pytest.fixture
def damaged(tmp_path):
    url = f"file:{tmp_path}/d"
    subprocess.run([TENURE, "run", "--name", "x", "--store", url, "--log", "none", "--", "true"],
                   check=True)
    for slot in (tmp_path / "d/x/lease").iterdir():
        slot.write_bytes(b"garbage")
    return url


def test_a_damaged_record_is_told_the_same_everywhere(damaged):
    """By `status` with a name and without, in JSON too."""
    one, every = (subprocess.run([TENURE, "status", "--json", "--store", damaged, *name],
                                 capture_output=True, text=True) for name in (["x"], []))
    assert (one.returncode, one.stderr, every.returncode, every.stderr) == (1, "", 1, "")
    one, every = json.loads(one.stdout), json.loads(every.stdout)["elections"][0]
    assert one["state"] == "refused" and "cannot be trusted" in one["trouble"]
    assert {k: v for k, v in one.items() if k in every} == {k: v for k, v in every.items() if k in one}


def test_advice_names_the_store_that_was_given(damaged, tmp_path):
    """Pasted as it is, it must not act on another one."""
    def advice(*args, **env):
        done = subprocess.run([TENURE, "status", "x", *args], capture_output=True, text=True,
                              env={**os.environ, **env})
        return done.stdout.split("run `")[1].split("`")[0]
    assert advice("--store", damaged) == f"tenure reset --name x --store {damaged}"
    assert advice("--store", damaged + "?poll=1s") == f"tenure reset --name x --store '{damaged}?poll=1s'"
    assert advice(TENURE_STORE=damaged) == "tenure reset --name x"
    subprocess.run(["sh", "-c", f"'{TENURE}'{advice('--store', damaged)[6:]} --force"], check=True)
    assert subprocess.run([TENURE, "status", "x", "--store", damaged]).returncode == 3


def test_watch_goes_on_over_damage(damaged):
    """Somebody may repair it meanwhile."""
    with subprocess.Popen([TENURE, "watch", "--name", "x", "--store", damaged], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        try:
            assert " x: refused: file: " in watch.stdout.readline()
            subprocess.run([TENURE, "reset", "--name", "x", "--store", damaged, "--force"], check=True)
            assert " x: free" in watch.stdout.readline()
        finally:
            watch.kill()
        assert watch.stderr.read() == ""


def test_an_argument_wins_over_the_environment(tmp_path):
    url = f"sqlite:{tmp_path}/db"
    for name in ("a", "b"):
        subprocess.run([TENURE, "run", "--name", name, "--store", url, "--log", "none", "--", "true"],
                       check=True)
    env = {**os.environ, "TENURE_NAME": "a", "TENURE_STORE": url}
    done = subprocess.run([TENURE, "status", "b"], capture_output=True, text=True, env=env)
    assert done.stdout.startswith("b is free")
    assert "unexpected 'b'" in run("status", "--name", "a", "b", code=2, env=env)


def test_a_pause_of_what_is_not_there(tmp_path):
    done = subprocess.run([TENURE, "pause", "--name", "wbe", "--store", f"sqlite:{tmp_path}/db"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("wbe is paused")
    assert done.stderr == "tenure pause: wbe has never had a leader: is the name right?\n"


def test_history_follows(tmp_path):
    """Terms as they begin and as they end, for people and for programs; nobody who reads ends it."""
    url = f"sqlite:{tmp_path}/db"
    subprocess.run([TENURE, "pause", "y", "--store", url], check=True)
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
