"""The checks have teeth: a mechanism with a fault fails the check that it should fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater import one_run
from headwater import state as synthesizer_state
from headwater.audit import AuditAlarm
from headwater.checks import CheckFailed, behaviour, interrupts, offline, threads
from headwater.checks.cases import Case
from headwater.public.budget import Ledger, Spend
from headwater.public.laws import IntegerLaplace
from headwater.public.protocol import Rows
from headwater.secret.noise import Noise
from headwater.state import SynthesizerState
from headwater.synthesizer import Synthesizer
from tests.checks.toy.measure import ToyMechanism
from tests.checks.toy.model import ToyModel

TOY, CASCADE, PAPER = (Case(name, hw.unit_cube(2)) for name in ("toy", "cascade", "paper"))
Fault = Callable[[pytest.MonkeyPatch], None]


def other_noise_after_load(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(synthesizer_state, "restored_keys", lambda _, public: (Noise(seed=12), bytes.fromhex(public)))


def part_of_a_bad_batch(patch: pytest.MonkeyPatch) -> None:
    update = Synthesizer.update

    def hasty(self: Synthesizer, table: Any) -> None:  # noqa: ANN401 - any table
        for i in range(len(table)) if np.ndim(table) == 2 else [...]:
            update(self, table[i])

    patch.setattr(Synthesizer, "update", hasty)


def a_record_too_few(patch: pytest.MonkeyPatch) -> None:
    points = ToyModel.points
    patch.setattr(ToyModel, "points", lambda self, seed: points(self, seed)[:-1])


def asking_changes_something(patch: pytest.MonkeyPatch) -> None:
    measured = ToyMechanism.measured

    def counting(self: ToyMechanism, start: int, seed: int) -> Any:  # noqa: ANN401 - handed on
        self.open = self.open + 1
        return measured(self, start, seed)

    patch.setattr(ToyMechanism, "measured", counting)


def listed(patch: pytest.MonkeyPatch, factor: float) -> None:
    """The ledger lists noise of another scale than is drawn."""

    def ledger(self: ToyMechanism, t: int | None = None) -> Ledger:
        return Ledger([Spend("count", IntegerLaplace(factor * self.law.scale), touches=2)])

    patch.setattr(ToyMechanism, "ledger", ledger)


def a_scale_that_no_ledger_lists(patch: pytest.MonkeyPatch) -> None:
    listed(patch, 2)


def a_scale_that_is_divided(patch: pytest.MonkeyPatch) -> None:
    """More noise than the ledger says: no harm, but not what is written down."""
    listed(patch, 0.5)


def less_noise_than_is_divided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ToyMechanism, "divides", True, raising=False)
    a_scale_that_no_ledger_lists(patch)


def a_ledger_that_overdraws_later(patch: pytest.MonkeyPatch) -> None:
    ledger = ToyMechanism.ledger
    late = Ledger([Spend("count", IntegerLaplace(1e-3))])
    patch.setattr(ToyMechanism, "ledger", lambda self, t=None: late if t and t > 1 << 30 else ledger(self))


def a_batch_in_place(patch: pytest.MonkeyPatch) -> None:
    """The update of the mechanism itself, as before updates were made on a copy."""

    def in_place(self: SynthesizerState, rows: Rows, *_: object) -> SynthesizerState:
        self.mechanism.update(rows)
        return self

    patch.setattr(SynthesizerState, "after", in_place)


def no_lock(patch: pytest.MonkeyPatch) -> None:
    """Nothing keeps a release from running beside an update."""
    patch.setattr(one_run, "RLock", nullcontext)
    a_batch_in_place(patch)


CAUGHT: list[tuple[Fault, Callable[[Case], None], Case, str]] = [
    (
        other_noise_after_load,
        behaviour.check_any_sequence_of_calls,
        CASCADE,
        "publishes something else|saves some",
    ),
    (part_of_a_bad_batch, behaviour.check_any_sequence_of_calls, PAPER, "a refused batch changed the run|t is"),
    (a_record_too_few, offline.check_releases, TOY, "points for span"),
    (asking_changes_something, behaviour.check_any_sequence_of_calls, TOY, "changed the run"),
    (a_scale_that_no_ledger_lists, offline.check_every_draw_is_in_the_ledger, TOY, "is in no ledger"),
    (a_scale_that_is_divided, offline.check_every_draw_is_in_the_ledger, TOY, "is in no ledger"),
    (
        less_noise_than_is_divided,
        offline.check_every_draw_is_in_the_ledger,
        TOY,
        "less integer Laplace noise is drawn than any ledger lists",
    ),
    (a_ledger_that_overdraws_later, offline.check_ledger_over_time, TOY, "more than ε"),
    (a_batch_in_place, interrupts.check_an_interrupted_update_is_all_or_nothing, CASCADE, "counted in part"),
    (a_batch_in_place, interrupts.check_an_interrupted_update_is_all_or_nothing, TOY, "counted in part"),
    (no_lock, threads.check_threads, CASCADE, "one draw of noise protects two|not that of any moment|part of a batch"),
]


@pytest.mark.parametrize(("fault", "check", "case", "why"), CAUGHT, ids=lambda one: getattr(one, "__name__", None))
def test_a_fault_fails_its_check(fault: Fault, check: Callable[[Case], None], case: Case, why: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises((CheckFailed, AuditAlarm), match=why):
            check(case)


def test_a_copy_of_a_mechanism_can_be_updated_while_the_first_stays() -> None:
    """What `Mechanism.__copy__` promises, and all-or-nothing updates rest on."""
    for case in (TOY, CASCADE, PAPER):
        mechanism = case.kind(case.schema, 8.0, Noise(seed=1))
        mechanism.update(mechanism.encode(case.batch(37, 1)))
        header, arrays = mechanism.state()
        before = repr(header), {name: array.copy() for name, array in arrays.items()}
        twin = copy(mechanism)
        twin.update(twin.encode(case.batch(300, 2)))
        header, arrays = mechanism.state()
        assert repr(header) == before[0]
        assert all(np.array_equal(arrays[name], array) for name, array in before[1].items())
