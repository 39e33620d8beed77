"""Every mechanism passes the checks that ship with the package, also one that is registered in a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.audit import Subject, Traits, checks
from headwater.audit.cases import DELTA, traits_of
from headwater.audit.conformance import SCHEMAS
from headwater.public import protocol as registry
from tests.audit.disturbed import DISTURBED
from tests.audit.toys import TOYS, register_toys
from tests.audit.walks import check_any_sequence_of_calls


def all_checks() -> dict[str, Callable[[], None]]:
    with pytest.MonkeyPatch.context() as patch:
        register_toys(patch)
        return {f"{name}: {title}": check for name in registry.names() for title, check in checks(name)}


pytestmark = pytest.mark.usefixtures("toys")
CHECKS = all_checks()


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_mechanism_passes(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", DISTURBED)
@pytest.mark.parametrize("mechanism", [*registry.online(), *TOYS])
def test_a_run_that_is_disturbed_publishes_what_it_would_have_anyway(
    mechanism: str, check: Callable[[Subject], None]
) -> None:
    """Threads share it, an update is interrupted at any line, its process is killed."""
    check(Subject(mechanism, SCHEMAS["square"]))


@pytest.mark.filterwarnings("ignore::headwater.public.budget.DeltaWarning")
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("mechanism", [*registry.online(), *TOYS])
def test_what_is_published_does_not_depend_on_what_was_asked_before(mechanism: str, schema: str) -> None:
    """Random walks through all that can be done to a run, of a table with a δ as well."""
    for delta in (0.0, DELTA) if schema == "table" and traits_of(mechanism).deltas else (0.0,):
        check_any_sequence_of_calls(Subject(mechanism, SCHEMAS[schema], delta))


def test_a_mechanism_is_registered_in_a_line_and_a_name_is_given_once() -> None:
    assert set(TOYS) <= set(registry.online())
    with pytest.raises(ValueError, match="there is a mechanism called 'toy' already"):
        registry.register("toy", "somewhere.else")


def test_what_the_checks_must_know_of_a_mechanism_is_told_them() -> None:
    plain, told = ([name for name, _ in checks("toy", traits)] for traits in (None, Traits(deltas=True)))
    assert not any(name.endswith("delta") for name in plain)
    assert any(name.endswith("delta") for name in told)
    assert traits_of("toy").deltas
