"""Mechanisms that exist only while a test runs that asks for them."""

from __future__ import annotations

import pytest

from tests.audit.toys import register_toys


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    register_toys(monkeypatch)
