"""Pairs of neighbouring streams that ought to be hard to protect, all made up: an audit never reads anybody's data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.public.categories import Boolean, Category
from headwater.public.numbers import Number
from headwater.public.schema import Schema

Points = NDArray[np.float64]
Rows = tuple[tuple[float, ...], ...]

COLOURS = ("red", "green", "blue", "unknown")
TABLE = Schema(amount=Number(0, 1), colour=Category(*COLOURS[:3]), member=Boolean(missing=True))
"""A table with a column of each sort: a continuum, values that do not fill their cells, and a missing value."""

BELOW_HALF = math.nextafter(0.5, 0.0)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring streams of points, each point a row of numbers."""

    one: Rows
    other: Rows

    def __post_init__(self) -> None:
        if len(self.one) != len(self.other) or len(self.changed) != 1:
            raise ValueError("neighbouring streams have one length and differ in exactly one place")

    @property
    def changed(self) -> list[int]:
        return [i for i, (a, b) in enumerate(zip(self.one, self.other, strict=True)) if a != b]

    @property
    def places(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The first point that was replaced, and what replaced it."""
        return self.one[self.changed[0]], self.other[self.changed[0]]


@dataclass(frozen=True)
class PersonPair(Pair):
    """Two streams that differ in all records of one person: the last number of a row is the person, −1 for nobody."""

    def __post_init__(self) -> None:
        if len(self.one) != len(self.other) or not self.changed:
            raise ValueError("neighbouring streams have one length and differ in the records of one person")


def person_replaced(
    background: Points,
    people: list[int],
    person: int,
    other: object,
    *,
    name: int | None = None,
    period: tuple[int, int] | None = None,
) -> PersonPair:
    """All records of one person go to ``other`` (None: null records of nobody), perhaps as those of ``name``."""
    one = np.column_stack((background, people)).astype(float)
    two, here = one.copy(), one[:, -1] == person
    if period is not None:
        here &= np.arange(len(one)) // period[0] == period[1]
    if other is not None:
        two[here, :-1] = other
    two[here, -1] = -1 if other is None else person if name is None else name
    return PersonPair(_rows(one), _rows(two))


def replaced(background: Points, position: int, one: object, other: object) -> Pair:
    """The background with one point replaced by each of two."""
    streams = []
    for place in (one, other):
        points = np.array(background, dtype=float)
        points[position] = place
        streams.append(_rows(points))
    return Pair(streams[0], streams[1])


def _rows(points: Points) -> Rows:
    return tuple(tuple(row) for row in points.tolist())


def as_table(rows: Rows) -> dict[str, list[object]]:
    members: list[object] = [None if row[2] < 0 else bool(row[2]) for row in rows]
    return {"amount": [row[0] for row in rows], "colour": [COLOURS[int(row[1])] for row in rows], "member": members}


def heap(length: int, dimension: int, place: float = 0.1) -> Points:
    return np.full((length, dimension), place)


MOVES: dict[str, tuple[float, float]] = {"corner": (0.1, 0.9), "cut": (0.5, BELOW_HALF), "face": (0.0, 1.0)}
"""Where a point goes: to the opposite corner, to the other side of a cut a float's step away, to the opposite face."""


def kind_of_pair(kind: str, background: Points, position: int) -> Pair:
    return replaced(background, position, *MOVES[kind])
