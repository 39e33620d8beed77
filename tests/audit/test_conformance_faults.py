"""The checks have teeth: a mechanism with a fault fails the check that it should fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater import state, synthesizer
from headwater.audit import AuditAlarm, CheckFailed, Subject, Traits, cases, conformance
from headwater.public.budget import Ledger, Spend
from headwater.public.cells import MeasuredCells
from headwater.public.laws import IntegerLaplace
from headwater.public.protocol import Kept, Rows, State
from headwater.secret import cascade
from headwater.secret.cascade import CascadeMechanism
from headwater.secret.mechanism import NULL, CellRows
from headwater.secret.noise import Noise
from headwater.synthesizer import Synthesizer
from tests.audit.disturbed import check_an_interrupted_update_is_all_or_nothing, check_threads
from tests.audit.toy import measure
from tests.audit.toy.measure import ToyMechanism
from tests.audit.toy.model import ToyModel
from tests.audit.walks import check_any_sequence_of_calls

TOY, CASCADE, PAPER = (Subject(name, hw.unit_cube(2)) for name in ("toy", "cascade", "paper"))
pytestmark = pytest.mark.usefixtures("toys")
Fault = Callable[[pytest.MonkeyPatch], None]


def other_noise_after_load(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state, "restored_keys", lambda _, public: (Noise(seed=12), bytes.fromhex(public)))


def part_of_a_bad_batch(patch: pytest.MonkeyPatch) -> None:
    update = Synthesizer.update

    def hasty(self: Synthesizer, table: Any, **how: Any) -> None:  # noqa: ANN401 - any table
        for i in range(len(table)) if np.ndim(table) == 2 else [...]:
            update(self, table[i], **how)

    patch.setattr(Synthesizer, "update", hasty)


def a_record_too_few(patch: pytest.MonkeyPatch) -> None:
    points = ToyModel.points
    patch.setattr(ToyModel, "points", lambda self, seed: points(self, seed)[:-1])


def asking_changes_something(patch: pytest.MonkeyPatch) -> None:
    measured = ToyMechanism.measured

    def counting(self: ToyMechanism, seed: int) -> Any:  # noqa: ANN401 - handed on
        self.open = self.open + 1
        return measured(self, seed)

    patch.setattr(ToyMechanism, "measured", counting)


def a_state_that_lacks_something(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ToyMechanism, "saved", ("noisy",))


def counted_by_halves(patch: pytest.MonkeyPatch) -> None:
    """What is counted has lost what noisy counts could tell apart."""

    def coarser(self: CascadeMechanism, rows: Rows, number: int) -> Rows:
        shift = np.uint64(self.finest - 1)
        return np.where(rows == NULL, rows, rows >> shift << shift)

    patch.setattr(CascadeMechanism, "coarser", coarser)


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
    patch.setitem(cases.TRAITS, "toy", Traits(partitions=True, divides=True))
    a_scale_that_no_ledger_lists(patch)


def a_ledger_that_overdraws_later(patch: pytest.MonkeyPatch) -> None:
    ledger = ToyMechanism.ledger
    late = Ledger([Spend("count", IntegerLaplace(1e-3))])
    patch.setattr(ToyMechanism, "ledger", lambda self, t=None: late if t and t > 1 << 30 else ledger(self))


def a_batch_in_place(patch: pytest.MonkeyPatch) -> None:
    """The update of the mechanism itself, not of a copy."""
    for module, name in ((cascade, "twin"), (measure, "copy")):
        patch.setattr(module, name, lambda mechanism: mechanism)


def no_lock(patch: pytest.MonkeyPatch) -> None:
    """Nothing keeps a release from running beside an update."""
    patch.setattr(synthesizer, "RLock", nullcontext)
    a_batch_in_place(patch)


def records_that_change_others(patch: pytest.MonkeyPatch) -> None:
    encode = ToyMechanism.encode
    patch.setattr(ToyMechanism, "encode", lambda self, points: encode(self, points / points.max(initial=1e-9)))


def nothing_is_known(patch: pytest.MonkeyPatch) -> None:
    """What was kept is not remembered: everything is measured again."""
    patch.setattr(CellRows, "knowing", lambda self, _: self)


def measured_again(patch: pytest.MonkeyPatch) -> None:
    """Fast buckets are measured at every question."""
    patch.setattr(CascadeMechanism, "once", lambda self, span, draw: CellRows.once(self, span, draw) and draw())


def something_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """All but the first bucket."""
    patch.setattr(ToyMechanism, "kept", lambda self: dict(list(self.known.items())[:1]))


def a_file_that_rounds(patch: pytest.MonkeyPatch) -> None:
    """What was measured is written with less than it has."""
    pack = MeasuredCells.pack

    def rounded(kept: Kept) -> State:
        header, arrays = pack(kept)
        return header, arrays | {"counts": arrays["counts"].astype(np.int8).astype(np.int64) // 2 * 2}

    patch.setattr(MeasuredCells, "pack", staticmethod(rounded))


WALK, KEPT = check_any_sequence_of_calls, conformance.check_what_is_measured_is_kept
PIECES, LEDGER = conformance.check_records_arrive_in_any_pieces, conformance.check_every_draw_is_in_the_ledger
CAUGHT: list[tuple[Fault, Callable[[Subject], None], Subject, str]] = [
    (other_noise_after_load, WALK, CASCADE, "publishes something else|saves some"),
    (part_of_a_bad_batch, WALK, PAPER, "a refused batch changed the run|t is"),
    (a_record_too_few, conformance.check_releases, TOY, "points for span"),
    (asking_changes_something, WALK, TOY, "an undisturbed run publishes something else"),
    (asking_changes_something, KEPT, TOY, "changed the mechanism"),
    (asking_changes_something, PIECES, TOY, "in pieces, or counted"),
    (a_state_that_lacks_something, PIECES, TOY, "another state|in pieces, or counted"),
    (counted_by_halves, PIECES, CASCADE, "in pieces, or counted"),
    (a_scale_that_no_ledger_lists, LEDGER, TOY, "is in no ledger"),
    (a_scale_that_is_divided, LEDGER, TOY, "is in no ledger"),
    (less_noise_than_is_divided, LEDGER, TOY, "less integer Laplace noise is drawn than any ledger lists"),
    (a_ledger_that_overdraws_later, conformance.check_ledger_over_time, TOY, "more than ε"),
    (a_batch_in_place, KEPT, CASCADE, "changed the mechanism"),
    (a_batch_in_place, KEPT, TOY, "changed the mechanism"),
    (a_batch_in_place, check_an_interrupted_update_is_all_or_nothing, CASCADE, "counted in part"),
    (a_batch_in_place, check_an_interrupted_update_is_all_or_nothing, TOY, "counted in part"),
    (no_lock, check_threads, CASCADE, "one draw of noise protects two|not that of any moment|part of a batch"),
    (records_that_change_others, conformance.check_each_record_is_encoded_by_itself, TOY, "each encoded by itself"),
    (nothing_is_known, KEPT, CASCADE, "measured again"),
    (nothing_is_known, KEPT, PAPER, "measured again"),
    (measured_again, KEPT, CASCADE, "measured again"),
    (something_is_not_kept, KEPT, TOY, "a release from what was kept is another one"),
    (a_file_that_rounds, KEPT, TOY, "a release from what was kept and packed is another one"),
]


@pytest.mark.parametrize(("fault", "check", "case", "why"), CAUGHT, ids=lambda one: getattr(one, "__name__", None))
def test_a_fault_fails_its_check(fault: Fault, check: Callable[[Subject], None], case: Subject, why: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises((CheckFailed, AuditAlarm), match=why):
            check(case)
