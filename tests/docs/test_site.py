"""The site builds without a warning, needs nothing from elsewhere, and its generated parts can be made again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[2]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of our tools with this Python; the notice about another major version of mkdocs is not about us."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it. Not with --quiet: then warnings are not even counted, and nothing is strict."""
    done = run("-m", "mkdocs", "build", "--strict", "--site-dir", out := tmp_path_factory.mktemp("site"))
    loud = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith("INFO ")]
    assert (done.returncode, loud) == (0, [])
    return out


def test_pages_outside_of_docs_are_in_the_site(site: Path) -> None:
    proofs = {path.stem for path in (ROOT / "proofs").glob("*.md")} - {"README"}
    assert {path.stem for path in (site / "proofs").glob("*.html")} == proofs | {"index"}
    for name in ("security", "changelog", "contributing", "architecture"):
        assert (site / f"{name}.html").is_file()


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    fetched = r'(?:<(?:script|img|iframe|source)[^>]*\ssrc|<link[^>]*(?:stylesheet|preconnect|icon)[^>]*href)="?https?:'
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [page.name for page in pages if re.search(fetched, page.read_text(encoding="utf-8"))] == []


def test_every_public_name_is_on_the_page_of_the_api(site: Path) -> None:
    import headwater as hw

    page = (site / "api.html").read_text(encoding="utf-8")
    for name in set(hw.__all__) - {"__version__"}:
        home = getattr(hw, name).__module__
        assert f'id="headwater.{name}"' in page or f'id="{home}.{name}"' in page, name


def test_pictures_can_be_drawn_again(tmp_path: Path) -> None:
    for command in (("tools/draw-algorithms", "--out"), ("tools/draw-guarantees", "--out")):
        done = run(*command, tmp_path)
        assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (ROOT / "docs/assets").glob("*.svg")}
    assert all(path.stat().st_size < 200_000 for path in tmp_path.iterdir())


def test_tables_of_the_page_on_choosing_are_the_ones_that_are_measured() -> None:
    """A small run gives a table with the same heading and as many rows as the page has; numbers need a long one."""
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    assert page.count("<!-- measured: ") == page.count("<!-- end -->") == 4
    done = run("tools/measure-choices", "--print", "--only", "bounds", "--seeds", "1", "--part", "0.003")
    assert done.returncode == 0, done.stderr
    made = done.stdout.split("bounds\n\n")[1].strip().splitlines()
    shown = page.split("<!-- measured: bounds -->")[1].split("<!-- end -->")[0].strip().splitlines()
    assert (shown[0], len(shown)) == (made[0], len(made))
