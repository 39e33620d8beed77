"""A billion draws take minutes: `test_health.py` runs only if this folder is named, as `make test-statistics` does."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = (Path(argument.split("::")[0]).resolve() for argument in config.args)
    if collection_path.name == "test_health.py" and not any(HERE in (place, place.parent) for place in named):
        return True
    return None
