"""A few trials of every kind.  By the thousand, under load: make trials."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "trials"))

import kinds  # noqa: E402
import run  # noqa: E402
import world as w  # noqa: E402

# One bed for each mixture of containment and store.
BEDS = 4


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda k: k.name)
def test_trials(kind):
    if kind.missing():
        pytest.skip(kind.missing())
    count = w.TRIALS or 2 * BEDS
    tally = run.run(kind, count, BEDS)
    assert not tally.bad(), "\n".join(tally.bad())
    assert tally.trials == count
