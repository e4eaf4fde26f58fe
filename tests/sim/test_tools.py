"""The simulator as a tool: soaks that go on where they were, input that is no input,
and what a planted bug's campaign is said to have come to."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", HERE.parents[1] / "build"))
SIM = BUILD / "tenure-sim"
PATIENCE = 120.0

sys.path.insert(0, str(HERE / "planted"))
import run as planted  # noqa: E402


def sim(*args):
    return subprocess.run([SIM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600, check=False)


# ---- Soaks -------------------------------------------------------------------


def state_of(path):
    """The state file of a soak, as a table of lists."""
    table = {}
    for line in path.read_text().splitlines()[2:]:
        word, _, rest = line.partition(" ")
        table.setdefault(word, []).append(rest)
    return table


def soak(path, past):
    """Soak until so many histories were begun, then Ctrl-C; what the state file says then."""
    with subprocess.Popen([SIM, "--soak", path, "--jobs", "2"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        limit = time.monotonic() + PATIENCE
        seen = ""
        while time.monotonic() < limit:
            # The refreshed line: it ends with a carriage return before the next one.
            piece = os.read(process.stderr.fileno(), 4096).decode()
            seen = (seen + piece)[-400:]
            words = seen.rpartition("\r")[0].rpartition("\r")[2].split()
            if words and words[0].isdigit() and int(words[0]) > past:
                break
        # As a terminal does it: to all of them.
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    assert "0 violations" in out
    return state_of(path), out


def test_a_soak_goes_on_where_it_was(tmp_path):
    path = tmp_path / "soak"
    first, _ = soak(path, 50)
    shorts, longs = (int(n) for n in first["next"])
    # Every seed that was begun was lived and counted.
    assert [int(n) for n in first["histories"]] == [shorts - 1, longs]
    assert shorts + longs > 50

    second, out = soak(path, shorts + longs + 50)
    more = [int(n) for n in second["next"]]
    assert [int(n) for n in second["histories"]] == [more[0] - 1, more[1]]
    assert more[0] + more[1] > shorts + longs + 50
    for word in ("steps", "faults", "sim_ms"):
        assert all(int(b) >= int(a) for a, b in zip(first[word], second[word])), word
    # The same figures as one campaign over the same seeds has.
    whole = sim("--seeds", str(more[0] - 1), "--lasting", str(more[1])).stdout
    assert f"{more[0] - 1} short histories, {more[1]} long ones" in out
    assert f"{sum(int(n) for n in second['steps'])} steps" in whole
    assert f"{sum(int(n) for n in second['faults'])} faults" in whole


@pytest.mark.parametrize("text,word", [
    ("something else\n", "is not the state of a soak"),
    ("tenure-sim soak 1\nbuild another\nnext 5\n", "of build another"),
    ("tenure-sim soak 1\n", "is not the state of a soak"),
])
def test_a_state_file_that_is_none(tmp_path, text, word):
    path = tmp_path / "soak"
    path.write_text(text)
    done = sim("--soak", path)
    assert done.returncode == 2
    assert word in done.stderr
    assert path.read_text() == text


def test_a_damaged_state_file(tmp_path):
    path = tmp_path / "soak"
    soak(path, 1)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:6] + ["histories none"]) + "\n")
    done = sim("--soak", path)
    assert done.returncode == 2
    assert "is damaged: remove it to begin anew" in done.stderr


# ---- Input -------------------------------------------------------------------


@pytest.mark.parametrize("args,word", [
    (["--seed", "x"], "'x' is not a number"),
    (["--seed", "99999999999999999999999"], "is not a number"),
    (["--model", "etch", "--seed", "1"], "no model is called 'etch'; there are register,"),
    (["--seed", "1", "--only", "q7"], "'q7' is not the name of a fault"),
    (["--replay", "/nonexistent"], "cannot read /nonexistent"),
    (["--trace"], "need --seed"),
])
def test_bad_input(args, word):
    done = sim(*args)
    assert done.returncode == 2
    assert word in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_history_of_another_version(tmp_path):
    path = tmp_path / "history"
    assert sim("--seed", "7", "--save", path).returncode == 0
    assert sim("--replay", path).returncode == 0
    text = path.read_text()
    for old, new, word in (("trace 1", "trace 0", "is not a trace of this version"),
                           ("\nbuild ", "\nbuild x", "was made by build x"),
                           ("\nargs ", "\nargz ", "is damaged")):
        path.write_text(text.replace(old, new, 1))
        done = sim("--replay", path)
        assert done.returncode == 2
        assert word in done.stderr


# ---- What became of a planted bug --------------------------------------------

REPORT = "VIOLATION {}: {}\n  model register, history 17 of this campaign\n1.5 s of CPU\n"


@pytest.mark.parametrize("code,text,word", [
    (1, REPORT.format("I1", "two act"), None),
    (1, REPORT.format("I2", "an epoch"), "caught by I2 (an epoch), not by I1"),
    (1, REPORT.format("crash", "the process ended by signal 24 (an assertion?)"), "not caught"),
    (-24, "", "not caught in 9 s"),
    (0, "0 violations\n", "stopped"),
    (-2, "", "stopped"),
    (-9, "", "stopped"),
])
def test_stopped_is_not_the_same_as_not_caught(code, text, word):
    plant = types.SimpleNamespace(expected=["I1"])
    result, wrong = planted.judge(plant, code, text, 9)
    if word is None:
        assert wrong is None and result["seeds"] == 17
    else:
        assert word in wrong
