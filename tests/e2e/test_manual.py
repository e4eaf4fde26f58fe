"""The manual, --help and the completion say the same, verb by verb.

For each verb that `tenure help` lists there is a page in docs/reference/man: one whose line under NAME has
`tenure-VERB` in it (a page may be about two verbs).  To satisfy these tests:

  * every option that `tenure VERB --help` names (not in backquotes) is named in its page;
  * every option that the page defines (a line that begins with `*--option*`) or shows in its
    SYNOPSIS is named by --help of one of its verbs;
  * every number of the help's `Exit:` paragraph is in the page's EXIT STATUS;
  * tenure(1) names the verb, and refers to its page.

A page of another program (PROGRAMS) names the very options of that program's --help.
"""

import contextlib
import functools
import os
import pathlib
import re
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
TENURE = BUILD / "tenure"
PAGES = sorted((ROOT / "docs/reference/man").glob("*.scd"))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
EVERYWHERE = {"--help"}
PROGRAMS = {"tenure-conformance.1.scd": ["tests/conformance/tenure-conformance"]}  # no verbs


@functools.lru_cache(maxsize=None)
def output(*args, program=TENURE):
    done = subprocess.run([program, *args], capture_output=True, text=True, check=True,
                          stdin=subprocess.DEVNULL)
    return done.stdout


def verbs():
    return re.findall(r"^  ([a-z][a-z-]*)  ", output("help"), re.M)


def options_of(verb):
    """What stands in `backquotes` is another command."""
    return set(OPTION.findall(re.sub("`[^`]*`", "", output(verb, "--help")))) - EVERYWHERE


def section(page, title):
    found = re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", page.read_text(), re.M | re.S)
    return found.group(1) if found else ""


def verbs_of(page):
    return [v for v in verbs() if re.search(rf"\btenure-{v}\b(?!-)", section(page, "NAME"))]


def page_of(verb):
    found = [page for page in PAGES if verb in verbs_of(page)]
    assert len(found) == 1, f"{verb}: one page in docs/reference/man should have tenure-{verb} under NAME"
    return found[0]


@pytest.mark.parametrize("verb", verbs())
def test_every_option_of_the_help_is_in_the_page(verb):
    missing = options_of(verb) - set(OPTION.findall(page_of(verb).read_text()))
    assert not missing, f"{page_of(verb).name} lacks {sorted(missing)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_of_the_page_is_in_the_help(page):
    named = set()
    programs = PROGRAMS.get(page.name, ())
    for line in page.read_text().splitlines():
        if line.startswith("*--"):
            named |= set(OPTION.findall(line))
    if page.name != "tenure.1.scd":
        named |= set(OPTION.findall(section(page, "SYNOPSIS")))
    known = set().union(*(options_of(verb) for verb in verbs_of(page)), EVERYWHERE,
                        *(OPTION.findall(output("--help", program=BUILD / p)) for p in programs))
    if programs:
        assert known - EVERYWHERE <= named, f"{page.name} lacks {sorted(known - EVERYWHERE - named)}"
    assert not named - known, f"--help does not know {sorted(named - known)}"


@pytest.mark.parametrize("verb", verbs())
def test_exit_codes(verb):
    found = re.search(r"^Exit:(.*?)(?:\n\S|\Z)", output(verb, "--help"), re.M | re.S)
    told = set(re.findall(r"(?<![-+\w])\d+\b", found.group(1))) if found else set()
    assert told <= set(re.findall(r"\d+", section(page_of(verb), "EXIT STATUS")))


@pytest.mark.parametrize("verb", [None, *verbs()])
def test_help_fits_a_terminal(verb):
    text = output(verb, "--help") if verb else output("help")
    assert not [line for line in text.splitlines() if len(line) > 80]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_fit_a_terminal(page):
    """Literal lines are not filled, and man(1) indents them by eleven columns."""
    for text in re.findall(r"^```\n(.*?)^```", page.read_text(), re.M | re.S):
        assert not [line for line in text.splitlines() if len(line) > 80 - 11], page


# The simulator has a parser of its own, which tests/sim tries.
@pytest.mark.parametrize("verb", [verb for verb in verbs() if verb != "sim"])
def test_options_of_the_help_are_real(verb):
    """Each is given a value and is followed by one that does not exist, so that nothing happens."""
    for option in options_of(verb):
        done = subprocess.run([TENURE, verb, option + "=1s", "--no-such-option"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 2, (option, done)
        assert f"unrecognized option '{option}" not in done.stderr


@pytest.mark.parametrize("verb", verbs())
def test_overview(verb):
    text = (ROOT / "docs/reference/man/tenure.1.scd").read_text()
    assert re.search(rf"^\*.*\b{verb}\*", section(ROOT / "docs/reference/man/tenure.1.scd", "VERBS"), re.M)
    assert f"*{page_of(verb).name.removesuffix('.1.scd')}*(1)" in text


def complete(*words):
    script = f'. "{ROOT}/contrib/completion/tenure.bash"\nCOMP_WORDS=("$@")\n' \
             'COMP_CWORD=$(($# - 1))\n_tenure\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", script, "bash", str(TENURE), *words], check=True,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert not done.stderr
    return set(done.stdout.split())


def test_completion_of_verbs():
    assert complete("") == set(verbs()) | {"help", "--help", "--version"}
    assert complete("hand") == {"handover"}
    assert complete("help", "") == set(verbs())
    assert complete("help", "st") == {"status", "state", "step-down", "store"}


def await_words(words, *args):
    end = time.monotonic() + 60
    while words not in subprocess.run([TENURE, *args], capture_output=True, text=True, check=False,
                                      stdin=subprocess.DEVNULL).stdout:
        assert time.monotonic() < end, words
        time.sleep(0.05)


def test_completion_of_candidates(tmp_path):
    """Who may be handed over to: those of that election that do not lead."""
    url = f"sqlite:{tmp_path}/db"
    with contextlib.ExitStack() as stack:
        for name, ident in ("web", "node-a"), ("web", "node-b"), ("mail", "node-c"):
            one = stack.enter_context(subprocess.Popen(
                [TENURE, "run", "--name", name, "--id", ident, "--store", url, "--log", "none", "--", "sleep", "600"],
                stdin=subprocess.DEVNULL))
            stack.callback(one.terminate)
            await_words(ident, "status", "--name", name, "--store", url, "--json")
        end = time.monotonic() + 60
        while complete("handover", "web", "--store", url, "--to", "") != {"node-b"}:
            assert time.monotonic() < end
        assert complete("handover", "--name", "web", "--store", url, "--to", "x") == set()
        assert complete("handover", "--store", url, "--name", "web", "--to", "node-") == {"node-b"}


def test_completion_of_commands(tmp_path, monkeypatch):
    """Behind --, from PATH; then files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").touch()
    (tmp_path / "some-command").write_text("#!/bin/sh\n")
    (tmp_path / "some-command").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert complete("run", "--name", "x", "--", "some-co") == {"some-command"}
    assert "here.txt" in complete("run", "--name", "x", "--", "some-command", "he")
    assert "--name" not in complete("run", "--name", "x", "--", "some-command", "--")


@pytest.mark.parametrize("verb", verbs())
def test_completion_of_options(verb):
    assert complete(verb, "--") - EVERYWHERE == options_of(verb)


def test_completion_of_values():
    assert complete("run", "--contain", "c") == {"cgroup"}
    assert complete("run", "--on-loss", "") == {"standby", "exit", "restart-program"}


def test_completion_of_elections(tmp_path, monkeypatch):
    """From the store that the line names, which bash takes apart; nothing is made on the way."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    store = f"sqlite:{tmp_path}/db"
    for name in ("web", "team/jobs"):
        subprocess.run([TENURE, "run", "--name", name, "--store", store, "--log", "none", "--",
                        "true"], check=True)
    assert complete("history", "--store", store, "--name", "") == {"web", "team/jobs"}
    assert complete("status", "--store", "sqlite", ":", f"{tmp_path}/db", "--name", "t") == {"team/jobs"}
    assert complete("handover", "--store", "=", "sqlite", ":", f"{tmp_path}/db", "w") == {"web"}
    for other in (["--store", f"file:{tmp_path}/nope"], ["--store", "redis://127.0.0.1:1"], []):
        assert not complete("status", *other, "--name", "")
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("db-")) == ["db"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_well_formed(page):
    done = subprocess.run(["scdoc"], input=page.read_bytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    name = page.name.removesuffix(".1.scd")
    assert page.read_text().startswith(f"{name.upper()}(1)\n")
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
        assert section(page, title).strip(), f"{page.name} lacks {title}"
    for other in re.findall(r"\*(tenure[a-z-]*)\*\(1\)", page.read_text()):
        assert (ROOT / f"docs/reference/man/{other}.1.scd").exists(), f"{page.name} refers to {other}"


def test_every_event_of_the_log_is_in_the_table_with_its_level():
    told = {}
    for level, events in re.findall(r"^\| (error|warn|info|debug) \| ([^|]*) \|",
                                    (ROOT / "docs/reference/http.md").read_text(), re.M):
        for event in re.findall(r"`([a-z-]+)`", events):
            assert event not in told, f"{event} twice"
            told[event] = level
    source = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.c")))
    used = set(re.findall(r'\btn_(?:log\(|node_log\(d,)\s*"([a-z-]+)"', source))
    levels = {event: level.lower() for event, level in
              re.findall(r'\{"([a-z-]+)", TN_LEVEL_(\w+)\}', source)}
    assert told == {event: levels.get(event, "info") for event in used}
    assert set(levels) <= used
