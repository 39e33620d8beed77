"""Every mechanism passes the checks that ship with the package, also one that is registered in a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.checks import checks
from headwater.public import protocol as registry
from tests.checks.toys import TOYS, register_toys
from tests.support.nightly import NIGHTLY


def all_checks() -> dict[str, Callable[[], None]]:
    with pytest.MonkeyPatch.context() as patch:
        register_toys(patch)
        return {
            f"{name}: {title}": check for name in registry.names() for title, check in checks(name, thorough=NIGHTLY)
        }


CHECKS = all_checks()


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_mechanism_passes(check: Callable[[], None]) -> None:
    check()


def test_a_mechanism_is_registered_in_a_line_and_a_name_is_given_once() -> None:
    assert set(TOYS) <= set(registry.online())
    with pytest.raises(ValueError, match="there is a mechanism called 'toy' already"):
        registry.register("toy", "somewhere.else")
