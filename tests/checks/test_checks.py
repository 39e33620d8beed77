"""Every mechanism passes the checks that ship with the package, also one that is registered in a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.checks import checks
from headwater.mechanisms import registry

registry.register("toy", "tests.checks.toy")

CHECKS = [(f"{name}: {title}", check) for name in registry.names() for title, check in checks(name)]


@pytest.mark.parametrize("check", [check for _, check in CHECKS], ids=[title for title, _ in CHECKS])
def test_a_mechanism_passes(check: Callable[[], None]) -> None:
    check()
