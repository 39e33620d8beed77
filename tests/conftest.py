"""Which tests `make test-fast` leaves out: files whose tests take seconds each."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# How long one example takes says more about the machine than about the code.
settings.register_profile("ordinary", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=15)  # a test that asks for more gets more
settings.load_profile("ordinary")

SLOW = {
    "test_alive.py", "test_sampling.py", "test_boundary.py", "test_cascade_law.py",
    "test_cli_page.py", "test_conformance.py", "test_counted.py", "test_faults.py", "test_file_pairs.py",
    "test_golden.py", "test_interrupts.py", "test_law.py", "test_measured.py", "test_neighbouring_files.py",
    "test_neighbours.py", "test_one_by_one.py", "test_pages.py", "test_paper.py", "test_planted.py",
    "test_privacy.py", "test_report_browser.py", "test_selection.py", "test_site.py",
    "test_sound.py", "test_survival.py", "test_tables.py", "test_trouble.py", "test_values.py", "test_windows.py",
}  # fmt: skip
"""By name, wherever they lie. A single slow test of another file is marked where it stands."""


_LEDGERS, _numbers = Path(tempfile.gettempdir()) / f"headwater-ledgers-{os.getpid()}", count()
os.environ["XDG_STATE_HOME"] = str(_LEDGERS / "shared")


@pytest.fixture(autouse=True)
def _no_test_knows_what_others_have_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(_LEDGERS / str(next(_numbers))))


def pytest_unconfigure() -> None:
    shutil.rmtree(_LEDGERS, ignore_errors=True)


def pytest_configure() -> None:
    """A file that was renamed must not become fast by that."""
    gone = SLOW - {path.name for path in Path(__file__).parent.rglob("test_*.py")}
    if gone:
        raise pytest.UsageError(f"tests/conftest.py calls files slow that are not there: {', '.join(sorted(gone))}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow."""
    for item in items:
        if item.path.name in SLOW:
            item.add_marker(pytest.mark.slow)
