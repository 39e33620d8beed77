"""Mechanisms that exist only while these tests run."""

from __future__ import annotations

import pytest

from tests.checks.toys import register_toys


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    register_toys(monkeypatch)
