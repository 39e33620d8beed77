"""Faults that are planted round any mechanism: in its noise, its records, its people. The exact audit catches them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwater import synthesizer
from headwater.audit import Subject
from headwater.public.budget import Budget
from headwater.public.cube import UnitCube
from headwater.public.release import Release
from headwater.secret import noise as randomness
from headwater.secret import people as module
from headwater.secret.batch import Batch
from headwater.secret.noise import Noise
from headwater.secret.people import NOBODY, Groups, Hashes, People, hash_each
from headwater.secret.pmm import measure_once
from headwater.state import State


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
        return super().laplace_at(scale / 16, hi, lo)

    def gaussian_at(self, scale: float, hi: ArrayLike, lo: ArrayLike) -> NDArray[np.int64]:
        return super().gaussian_at(scale / 16, hi, lo)

    def jointly_at(self, scale: float, sizes: Sequence[int], hi: int, los: Sequence[int]) -> NDArray[np.int64]:
        return super().jointly_at(scale / 16, sizes, hi, los)


def too_little_noise(_: Subject) -> AbstractContextManager[object]:
    """Every run gets a source of noise that draws too little of it."""
    return patch.object(randomness, "Noise", TooLittle)


def bounds_from_data(_: Subject) -> AbstractContextManager[object]:
    """A batch is stretched to fill the cube: one record decides where all others are."""
    encode = UnitCube.encode

    def learned(self: UnitCube, points: object) -> NDArray[np.float64]:
        array = encode(self, points)
        high = np.maximum(array.max(axis=0, initial=0.0), 1e-9)
        stretched: NDArray[np.float64] = np.clip(array / high, 0, 1)
        return stretched

    return patch.object(UnitCube, "encode", learned)


@contextmanager
def seed_from_records(case: Subject) -> Iterator[None]:
    """The records of a release are drawn with a seed that the real records decide."""
    points, seen = Release.points, [0]

    def remembered(self: Any, batch: Batch) -> Any:  # noqa: ANN401 - any mechanism
        seen[0] = zlib.crc32(batch.rows.tobytes(), seen[0] if self.t else 0)
        return update(self, batch)

    def all_at_once(records: NDArray[np.float64], *rest: Any) -> Any:  # noqa: ANN401 - handed on
        seen[0] = zlib.crc32(records.tobytes())
        return measure_once(records, *rest)

    def peeking(self: Release) -> NDArray[np.float64]:
        return points(replace(self, seed=self.seed ^ (seen[0] & 0xFFFF)))

    with ExitStack() as stack:
        stack.enter_context(patch.object(Release, "points", peeking))
        if case.online:
            update = case.kind.update
            stack.enter_context(patch.object(case.kind, "update", remembered))
        else:
            stack.enter_context(patch.object(synthesizer, "measure_once", all_at_once))
        yield


def _with_earlier(change: Callable[[NDArray[Any]], NDArray[Any]]) -> AbstractContextManager[object]:
    """How many records of a person came before each one of a batch is something else."""
    of = Groups.of

    def wrong(hashes: Hashes) -> Groups:
        found = of(hashes)
        return replace(found, earlier=change(found.earlier))

    return patch.object(Groups, "of", staticmethod(wrong))


def one_more() -> AbstractContextManager[object]:
    """The cap is compared with a count that lacks the record before: one more counts."""
    return _with_earlier(lambda earlier: np.maximum(earlier - 1, 0))


def counted_after() -> AbstractContextManager[object]:
    """Caps are brought up to date after a batch: all records of a person in it count, or none."""
    return _with_earlier(np.zeros_like)


def colliding() -> AbstractContextManager[object]:
    """People whose names are as long as each other have one hash."""

    def weak(values: Any, key: bytes) -> tuple[Hashes, dict[int, Any]]:  # noqa: ANN401 - `Values`
        hashes, wrong = hash_each(values, key)
        names = values.data if values.codes is None else [values.data[code] for code in values.codes]
        lengths = np.array([len(str(name)) for name in names], dtype=np.uint64)
        named = ~(hashes == NOBODY).all(axis=1)
        hashes[named] = lengths[named, None]
        return hashes, wrong

    return patch.object(module, "hash_each", weak)


def forgetting() -> AbstractContextManager[object]:
    """A run that goes on from a state has forgotten who had records."""
    restore = People.restore

    def forgetful(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> People:
        found = restore(header, arrays)
        return replace(found, caps=found.caps.emptied())

    return patch.object(People, "restore", staticmethod(forgetful))


def shifting() -> AbstractContextManager[object]:
    """Records beyond the cap are left out, so that all later ones move up."""
    after = State.after

    def dropped(self: State, batch: Batch, kind: str | None = None) -> State:
        assert self.people is not None
        _, hashes, stamps = self.people.split(batch.rows, len(self.mechanism.sizes))
        counted, _ = self.people.after(hashes, stamps, self.t, lambda t: self.mechanism.spans(t)[0].end)
        return after(self, replace(batch, rows=batch.rows[counted]), kind)

    return patch.object(State, "after", dropped)


def uncapped_buckets() -> AbstractContextManager[object]:
    """Noise is made for a cap in buckets, and nobody counts there."""
    after = People.after

    def careless(self: People, *batch: Any) -> tuple[NDArray[np.bool_], People]:  # noqa: ANN401 - handed on
        counted, people = after(replace(self, in_bucket=None), *batch)
        return counted, replace(people, in_bucket=self.in_bucket)

    return patch.object(People, "after", careless)


def a_budget_for_each_record() -> AbstractContextManager[object]:
    """A record may cost what its person may."""
    return patch.object(Budget, "of_record", property(lambda self: Budget(self.epsilon, self.delta)))
