"""Mechanisms driven by hand: points in, noisy counts out."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import headwater as hw
from headwater.public.partition import Axis, Partition
from headwater.public.protocol import AnySchema, null_records

M = TypeVar("M")
TABLE = hw.Schema(
    size=hw.Number(0, 10),
    age=hw.Integer(0, 120, missing=True),
    paid=hw.Category("card", "cash", "other"),
    member=hw.Boolean(),
)


@dataclass(frozen=True)
class _Cut:
    """A schema that is nothing but a partition."""

    partition: Partition


def cube(cut: int | Partition | tuple[Axis, ...] | list[Axis]) -> AnySchema:
    """A schema that is cut like this."""
    return _Cut(cut if isinstance(cut, Partition) else Partition(cut))  # type: ignore[return-value]


def feed(mechanism: M, points: NDArray[Any]) -> M:
    """The mechanism with these points too."""
    found: M = mechanism.update(hw.Batch(mechanism.encode(points)))  # type: ignore[attr-defined]
    return found


def nulls(synth: hw.Synthesizer, given: object, bad_rows: str = "null") -> list[bool]:
    """Which records a run counts and otherwise ignores, of those that it takes here."""
    kind, found = type(synth.state.mechanism), list[bool]()
    update = kind.update

    def seen(self: Any, batch: hw.Batch) -> Any:  # noqa: ANN401 - a mechanism
        found.extend(null_records(batch.rows).tolist())
        return update(self, batch)

    with patch.object(kind, "update", seen):
        synth.update(given, bad_rows=bad_rows)
    return found


def ask(mechanism: Any, since: int = 0) -> None:  # noqa: ANN401 - of any kind
    """Ask for all that is measured."""
    mechanism.measured(0).after(since)


def plain(found: Any) -> Any:  # noqa: ANN401 - of any kind
    """All that something measured says, to be compared with ``==``."""
    if is_dataclass(found):
        return [plain(getattr(found, field.name)) for field in fields(found)]
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    return list(map(plain, found)) if isinstance(found, list | tuple) else np.asarray(found, object).tolist()


def same(one: hw.Release, other: hw.Release) -> bool:
    """Whether two releases are the same in all that they publish."""
    headers = [(r.facts, r.span, r.seed, repr(r.model.state()[0])) for r in (one, other)]
    return headers[0] == headers[1] and np.array_equal(one.points(), other.points())
