"""Conformance checks: what every mechanism must pass, whoever wrote it.

`checks` lists them for one registered mechanism, as names and functions without arguments, to be handed to
``pytest.mark.parametrize``; `check_mechanism` runs them all. They assume nothing of how a mechanism works: not cells,
not trees, not how wide its rows are. They need what ``headwater[cli]`` installs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial

from headwater.audit.suite import DELTA
from headwater.checks import attack, behaviour, durable, interrupts, offline, people, threads
from headwater.checks.cases import SCHEMAS, Case, CheckFailed
from headwater.public.budget import DeltaWarning
from headwater.secret.mechanism import mechanism_class

__all__ = ["Case", "CheckFailed", "check_mechanism", "checks"]

Check = Callable[[Case], None]

ANY: tuple[Check, ...] = (*offline.CHECKS, *attack.CHECKS)
"""Of every mechanism, once."""
ONLINE: tuple[Check, ...] = behaviour.CHECKS
"""Of a mechanism that takes records one after another, for each schema."""
ONCE: tuple[Check, ...] = (*interrupts.CHECKS, *threads.CHECKS, *durable.CHECKS, *people.CHECKS)
"""Of such a mechanism, for one schema: they are slow, and a schema makes no difference."""


def checks(mechanism: str, *, thorough: bool = False) -> Iterator[tuple[str, Callable[[], None]]]:
    """The names and functions of all checks that apply to a mechanism.

    Parameters
    ----------
    mechanism
        The name under which it is registered (`headwater.public.protocol`).
    thorough
        Whether exact audits look at every pair of streams and every published byte: some times as slow.
    """
    kind, case = mechanism_class(mechanism), partial(Case, mechanism, thorough=thorough)
    for check in ANY + (ONCE if kind.online else ()):
        yield check.__name__, partial(check, case(SCHEMAS["square"]))
    if kind.online:
        for check in ONLINE:
            for name, schema in SCHEMAS.items():
                yield f"{check.__name__}, {name}", partial(check, case(schema))
    if kind.deltas:
        for check in ANY + (ONLINE if kind.online else ()):
            yield f"{check.__name__}, delta", partial(_with_delta, check, case(SCHEMAS["table"], DELTA))


def _with_delta(check: Check, case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaWarning)  # it is meant to be large
        check(case)


def check_mechanism(mechanism: str) -> None:
    """Run all checks; the first that fails raises `CheckFailed` or an `AuditAlarm`, which are assertion errors.

    Parameters
    ----------
    mechanism
        The name under which it is registered (`headwater.public.protocol`).
    """
    for _, check in checks(mechanism):
        check()
