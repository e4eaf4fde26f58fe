"""docs/reference/stores/README.md has every store, and the figures that were measured."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from lib import stores_page  # noqa: E402


def test_every_store_is_compared():
    rows = [line for line in stores_page.PAGE.read_text().splitlines() if line.startswith("| [")]
    pages = {path.name for path in stores_page.PAGE.parent.glob("*.md")} - {"README.md", "faults.md"}
    assert {page for page in pages if any(f"]({page}) |" in row for row in rows)} == pages


def test_the_figures_are_those_of_the_benchmarks():
    assert stores_page.renewed() == stores_page.PAGE.read_text(), "run bench/run.py --write"
