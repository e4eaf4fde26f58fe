"""ARCHITECTURE.md and docs/ point at what is there.

  * every file and folder that ARCHITECTURE.md or docs/explanation/internals names in `backquotes` exists, by its
    whole path: `elector.c` alone would be two files;
  * every `function()` stands in the file that is named next in the same line of ARCHITECTURE.md, and
    somewhere in the sources if docs/explanation/internals names it;
  * every relative link of a document leads to a file, and to a heading of it.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOUSE = ROOT / "ARCHITECTURE.md"
INTERNALS = sorted((ROOT / "docs/explanation/internals").glob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for folder in ("docs", "contrib", "examples", "tests", "bench")
                                          for path in (ROOT / folder).rglob("*.md"))])

QUOTED = re.compile(r"`([^`\n]+)`")
FUNCTION = re.compile(r"(\w+)\(\)")
PATH = re.compile(r"(?:src|include|tests|docs|scripts|bench|examples|contrib)/[\w./*-]*|[\w-]+\.(?:c|h|py|scd)")


def text_of(path):
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)


def names_in(text):
    return [word for word in QUOTED.findall(text) if PATH.fullmatch(word)]


def defines(path, function):
    """At the beginning of a line, and not as a declaration."""
    return re.search(rf"^[a-z][\w *]*\b{function}\((?:[^;{{]*)\)\s*\{{", path.read_text(), re.M)


@pytest.mark.parametrize("page", [HOUSE, *INTERNALS], ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    for name in names_in(text_of(page)):
        assert "/" in name, f"{page.name}: `{name}` may be several files; write its whole path"
        assert list(ROOT.glob(name)), f"{page.name}: there is no {name}"


def test_functions_stand_in_the_file_that_is_named_behind_them():
    pending, seen = [], 0
    for line in re.split(r"\n(?=[|#\d]|\n)", text_of(HOUSE)):
        for word in QUOTED.findall(line):
            if FUNCTION.fullmatch(word):
                pending.append(word[:-2])
            elif PATH.fullmatch(word):
                for function in pending:
                    assert defines(ROOT / word, function), f"{function}() is not in {word}"
                    seen += 1
                pending = []
        assert not pending, f"in which file is {pending}? {line}"
    assert seen > 50


@pytest.mark.parametrize("page", INTERNALS, ids=lambda page: page.name)
def test_functions_of_the_internals_exist(page):
    sources = [*(ROOT / "src").rglob("*.[ch]"), *(ROOT / "include").rglob("*.h")]
    known = {name for path in sources for name in re.findall(r"\b(\w+)\(", path.read_text())}
    named = {word[:-2] for word in QUOTED.findall(text_of(page)) if FUNCTION.fullmatch(word)}
    assert named <= known, f"nobody has {sorted(named - known)}"


def anchors(path):
    """The names of the headings, as pages on the web have them."""
    return {re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)", text_of(path), re.M)}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(there), f"{there.name} has no heading {anchor}"


def test_the_index_leads_to_every_page():
    index = ROOT / "docs/README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve()
              for link in re.findall(r"\]\(([^)\s]+)\)", text_of(index))}
    pages = {path for path in (ROOT / "docs").rglob("*.md") if path != index}
    assert not pages - linked, f"docs/README.md does not lead to {sorted(map(str, pages - linked))}"
