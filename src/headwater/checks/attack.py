"""The exact audit of tiny streams; and faults that are planted round the mechanism, which the audit must catch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater.audit import AuditAlarm, audit_pairs, check_counting, check_sensitivity
from headwater.audit.experiments import Experiment
from headwater.audit.suite import tables, with_delta, worst_cases
from headwater.checks.cases import Case, CheckFailed, expect
from headwater.public.bad_rows import BadRow, EncodedBatch
from headwater.public.errors import TableError
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.unit_cube import UnitCube
from headwater.secret import noise as randomness
from headwater.secret.noise import Noise


def check_exact_audit(case: Case) -> None:
    """Whatever is published, a replaced record costs at most ε; nothing else that is published differs."""
    experiments = [*_on_a_line(case), *worst_cases(case.mechanism, 2, 4.0)]
    if case.kind.online:
        experiments += tables(case.mechanism, 8.0)
    costs = []
    for number, experiment in enumerate(with_delta(experiments, case.delta)):
        check_counting(experiment)
        files = replace(experiment, files=case.thorough or number % 6 == 0)  # every published byte: slow
        loss = check_sensitivity(files, outputs=2)
        expect(loss.reached == loss.bound or case.delta, "the output that costs most is not found")
        costs.append(loss.rho)
    expect(max(costs) > 0, "no replaced record moves anything that is measured: the audit sees nothing")


def _on_a_line(case: Case) -> list[Experiment]:
    """Worst cases in one dimension: every second one, unless everything is to be looked at."""
    return worst_cases(case.mechanism, 1, 8.0)[:: 1 if case.thorough else 2]


def check_planted_faults(case: Case) -> None:
    """The audit raises the alarm when the mechanism is given too little noise, or publishes what records decide."""
    experiments = with_delta(worst_cases(case.mechanism, 2, 8.0), case.delta)
    experiments += [replace(one, times=one.times[-1:], reloads=()) for one in experiments]  # all records in one batch
    for fault in (too_little_noise, bounds_from_data, seed_from_records):
        with fault(case):
            try:
                for experiment in experiments:
                    check_sensitivity(experiment, outputs=1)
            except AuditAlarm:
                continue
        raise CheckFailed(f"the audit does not notice a planted fault: {fault.__name__}")


def check_no_noise_is_noticed(case: Case) -> None:
    """By sampling: a run whose noise is always zero is refuted by a hundred runs on each stream."""
    experiments = with_delta(worst_cases(case.mechanism, 2, 1.0), case.delta)
    with without_noise():
        for experiment in experiments[:3]:
            watched = replace(experiment, noisy_counts=case.kind.online, windows=(), reloads=())
            (found,) = audit_pairs([watched], 100, processes=1, seed=0)
            if found.alarm:
                return
    raise CheckFailed("a run without noise is not refuted: the audit sees nothing of what is measured")


@contextmanager
def without_noise() -> Iterator[None]:
    """All noise is zero."""
    with ExitStack() as stack:
        for name in ("laplace_at", "gaussian_at", "jointly_at"):
            drawn = getattr(Noise, name)
            stack.enter_context(patch.object(Noise, name, lambda *where, drawn=drawn: 0 * drawn(*where)))
        yield


class TooLittle(Noise):
    """A sixteenth of the noise: part of ε may be kept for thresholds, and for what is measured later."""

    def laplace_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        """Too little noise."""
        return super().laplace_at(scale / 16, hi, lo)

    def gaussian_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        """Too little noise."""
        return super().gaussian_at(scale / 16, hi, lo)

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> NDArray[np.int64]:
        """Too little noise."""
        return super().jointly_at(scale / 16, sizes, hi, los)


def too_little_noise(case: Case) -> AbstractContextManager[object]:
    """Every run gets a source of noise that draws too little of it."""
    return patch.object(randomness, "Noise", TooLittle)


def bounds_from_data(case: Case) -> AbstractContextManager[object]:
    """A batch is stretched to fill the cube: one record decides where all others are."""
    encode = UnitCube.encode

    def learned(self: UnitCube, points: object) -> NDArray[np.float64]:
        array = encode(self, points)
        high = np.maximum(array.max(axis=0, initial=0.0), 1e-9)
        stretched: NDArray[np.float64] = np.clip(array / high, 0, 1)
        return stretched

    return patch.object(UnitCube, "encode", learned)


@contextmanager
def seed_from_records(case: Case) -> Iterator[None]:
    """The records of a release are drawn with a seed that the real records decide."""
    update, points, seen = case.kind.update, Release.points, [0]

    def remembered(self: Any, rows: NDArray[Any]) -> None:  # noqa: ANN401 - any mechanism
        seen[0] = zlib.crc32(rows.tobytes(), seen[0] if self.t else 0)
        update(self, rows)

    def peeking(self: Release) -> NDArray[np.float64]:
        return points(replace(self, seed=self.seed ^ (seen[0] & 0xFFFF)))

    with patch.object(case.kind, "update", remembered), patch.object(Release, "points", peeking):
        yield


def check_null_records_are_private(case: Case) -> None:
    """A record that is replaced by a bad one, which is nowhere, costs at most ε."""
    if not case.kind.online:
        return
    costs = []
    experiments = [*_on_a_line(case), *tables(case.mechanism, 8.0)]
    for experiment in with_delta(experiments, case.delta):
        with null_at(experiment.schema.encode(experiment.batch((experiment.pair.places[1],)))):
            costs.append(check_sensitivity(experiment, outputs=1).rho)
    expect(max(costs) > 0, "a record that becomes a null record moves nothing: the audit sees nothing")


@contextmanager
def null_at(point: NDArray[np.float64]) -> Iterator[None]:
    """Records at one point of the cube are bad ones."""
    with ExitStack() as stack:
        for kind in (UnitCube, Schema):
            usual = kind.encode_batch

            def bad_there(self: Any, table: object, usual: Any = usual, **options: str) -> EncodedBatch:  # noqa: ANN401
                found: EncodedBatch = usual(self, table, **options)
                rows = np.flatnonzero((found.points == point).all(axis=1)).tolist()
                return replace(found, bad=tuple(BadRow(row, TableError("bad", "none")) for row in rows))

            stack.enter_context(patch.object(kind, "encode_batch", bad_there))
        yield


CHECKS = (check_exact_audit, check_null_records_are_private, check_planted_faults, check_no_noise_is_noticed)
