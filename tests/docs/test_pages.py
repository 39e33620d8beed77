"""Every example on every page works as it is written, and every page can be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.console import Command, SavedFile, follow, steps_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WITH_CONSOLE = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_CONSOLE, ids=lambda page: page.stem)
def test_commands_on_the_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    follow(steps_of(page.read_text(encoding="utf-8")), tmp_path)


def test_tutorial_uses_every_command_that_a_newcomer_needs() -> None:
    steps = steps_of((DOCS / "tutorial.md").read_text(encoding="utf-8"))
    lines = [step.line for step in steps if isinstance(step, Command)]
    words = {line.split("headwater ")[1].split()[0] for line in lines if "headwater " in line}
    assert words >= {"schema", "run", "info", "report", "release", "evaluate"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_shows_a_headwater_command_that_is_not_run(page: Path) -> None:
    """Prompts stand in console blocks only, where the test above sees them."""
    text = page.read_text(encoding="utf-8")
    prompts = re.findall(r"^\s*\$ (?:\S+ )*?headwater .*$", text, flags=re.MULTILINE)
    assert len(prompts) == sum(map(_is_headwater, steps_of(text)))


@pytest.mark.parametrize(
    ("console", "problem"),
    [
        ("$ false", "ended with 1, not 0"),
        ("$ echo one\ntwo", "did not say: two"),
        ("$ false\n$ echo $?\n3", "ended with 1, not 3"),
        ("$ true\n$ echo $?\n3", "ended with 0, not 3"),
        ("$ cat nothing.txt", "ended with 1, not 0"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(console: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=problem):
        follow(steps_of(f"```console\n{console}\n```\n"), tmp_path)


def test_a_page_that_is_right_is_followed(tmp_path: Path) -> None:
    page = '```text title="a.txt"\n1 pear\n```\n\n```console\n$ cat a.txt\n2 pear\n$ false\n$ echo $?\n1\n```\n'
    steps = steps_of(page)
    assert steps[0] == SavedFile("a.txt", "1 pear\n")
    follow(steps, tmp_path)


@pytest.mark.parametrize("picture", sorted((DOCS / "assets").glob("*.svg")), ids=lambda path: path.stem)
def test_pictures_are_small(picture: Path) -> None:
    assert picture.stat().st_size < 200_000


def _is_headwater(step: SavedFile | Command) -> bool:
    return isinstance(step, Command) and "headwater " in step.line
