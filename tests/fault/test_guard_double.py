"""Two of guard, init and tenure fail at once: the third ends the program in time.  A handful of
cells; all of them: tests/trials/run.py matrix."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "trials"))

import matrix  # noqa: E402

CELLS = [matrix.Cell(*cell) for cell in [
    ((("guard", "stopped"), ("tenure", "killed")), "group", "daemon"),
    ((("guard", "stopped"), ("tenure", "killed")), "pidns", "daemon"),
    ((("tenure", "stopped"), ("guard", "stopped")), "group", "daemon"),
    ((("tenure", "stopped"), ("guard", "stopped")), "pidns", "plain"),
    ((("tenure", "stopped"), ("guard", "frozen")), "group", "daemon"),
    ((("guard", "frozen"), ("tenure", "killed")), "pidns", "daemon"),
    ((("guard", "frozen"), ("init", "frozen")), "group", "daemon"),
    ((("tenure", "killed"), ("init", "stopped"), ("guard", "killed")), "group", "daemon"),
]]


@pytest.fixture(scope="module")
def outcome():
    todo = [cell for cell in CELLS if not matrix.missing(cell)]
    return dict(zip(map(str, todo), matrix.run(todo, len(todo))))


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_double(cell, outcome):
    if matrix.missing(cell):
        pytest.skip(matrix.missing(cell))
    assert not outcome[str(cell)], "\n".join(outcome[str(cell)])
