"""Pairs of neighbouring streams that ought to be hard to protect, picked by hand and at random.

Two streams of points are neighbours if one point is replaced; two streams of increments, if one of them differs by
one. All streams here are made up: an audit never reads anybody's data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.public.categorical import Boolean, Category
from headwater.public.numeric import Number
from headwater.public.schema import Schema

Points = NDArray[np.float64]
Rows = tuple[tuple[float, ...], ...]

COLOURS = ("red", "green", "blue")
TABLE = Schema(amount=Number(0, 1), colour=Category(*COLOURS), member=Boolean(missing=True))
"""A table with a column of each sort: a continuum, values that do not fill their cells, and a missing value."""

BELOW_HALF = math.nextafter(0.5, 0.0)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring streams. Points are rows of numbers; the increments of a counter are rows of one."""

    one: Rows
    other: Rows

    def __post_init__(self) -> None:
        if len(self.one) != len(self.other) or len(self.changed) != 1:
            raise ValueError("neighbouring streams have one length and differ in exactly one place")

    @property
    def changed(self) -> list[int]:
        """Where the streams differ."""
        return [i for i, (a, b) in enumerate(zip(self.one, self.other, strict=True)) if a != b]

    @property
    def places(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The point, or increment, that was replaced, and what replaced it."""
        (where,) = self.changed
        return self.one[where], self.other[where]


@dataclass(frozen=True)
class PersonPair(Pair):
    """Two streams that differ in all records of one person: the last number of a row is the person, −1 for nobody.

    The records of a person on one stream stand, on the other one, at the same places: as other records of the same
    person, as records of one person who has no others, or as null records of nobody (`proofs/people.md`).

    With ``period``, periods have so many arrivals, and all of this is about one: in others the person stays.
    """

    period: int | None = None

    def __post_init__(self) -> None:
        if len(self.one) != len(self.other) or not self.changed:
            raise ValueError("neighbouring streams have one length and differ in the records of one person")
        one, other = ([row[-1] for row in side] for side in (self.one, self.other))
        here = set(self.changed)
        before, after = {one[place] for place in here}, {other[place] for place in here}
        if len(before) > 1 or len(after) > 1 or -1.0 in before:
            raise ValueError("neighbouring streams differ in the records of one person")
        periods = {0 if self.period is None else place // self.period for place in here}
        inside = [i for i in range(len(one)) if (0 if self.period is None else i // self.period) in periods]
        rest = {names[i] for names in (one, other) for i in inside if i not in here and one[i] != -1.0}
        if len(periods) > 1:
            raise ValueError("neighbouring streams differ in one period")
        if (after | before) & rest and not before == after:
            raise ValueError("neighbouring streams differ in all records of one person, who has no others")

    @property
    def places(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The first record that was replaced, and what replaced it."""
        return self.one[self.changed[0]], self.other[self.changed[0]]


def person_replaced(
    background: Points,
    people: list[int],
    person: int,
    other: object,
    *,
    name: int | None = None,
    period: tuple[int, int] | None = None,
) -> PersonPair:
    """The background, whose records belong to people, with all records of one person replaced.

    ``other`` is where their records are on the other stream, None for null records of nobody; ``name`` says who they
    belong to there, if not the same person. With a ``period``, of so many arrivals and the number of one, only those in
    it are replaced.

    Examples
    --------
    >>> person_replaced(np.zeros((3, 1)), [7, 8, 7], 7, 0.5).other
    ((0.5, 7.0), (0.0, 8.0), (0.5, 7.0))
    """
    one = np.column_stack((background, people)).astype(float)
    two, here = one.copy(), one[:, -1] == person
    if period is not None:
        here &= np.arange(len(one)) // period[0] == period[1]
    if other is not None:
        two[here, :-1] = other
    two[here, -1] = -1 if other is None else person if name is None else name
    sides = [tuple(tuple(row) for row in side.tolist()) for side in (one, two)]
    return PersonPair(sides[0], sides[1], period and period[0])


def replaced(background: Points, position: int, one: object, other: object) -> Pair:
    """The background with one point replaced by each of two.

    >>> replaced(np.zeros((3, 1)), 2, 0.25, 1.0).other
    ((0.0,), (0.0,), (1.0,))
    """
    streams = []
    for place in (one, other):
        points = np.array(background, dtype=float)
        points[position] = place
        streams.append(tuple(tuple(row) for row in points.tolist()))
    return Pair(streams[0], streams[1])


def as_table(rows: Rows) -> dict[str, list[object]]:
    """Rows of an amount, the number of a colour, and a yes, a no or (−1) nothing, as columns of `TABLE`."""
    members: list[object] = [None if row[2] < 0 else bool(row[2]) for row in rows]
    return {"amount": [row[0] for row in rows], "colour": [COLOURS[int(row[1])] for row in rows], "member": members}


def increments(steps: list[int], position: int) -> Pair:
    """A counter's steps, and the same with one more thing to count at one of them."""
    more = [*steps[:position], steps[position] + 1, *steps[position + 1 :]]
    return Pair(tuple((float(s),) for s in steps), tuple((float(s),) for s in more))


def heap(length: int, dimension: int, place: float = 0.1) -> Points:
    """All points in one place, away from every cut."""
    return np.full((length, dimension), place)


def crowd(length: int, dimension: int, seed: int = 0) -> Points:
    """Points everywhere, more of them near the origin."""
    return np.random.default_rng(seed).beta(1.5, 3, size=(length, dimension))


MOVES: dict[str, tuple[float, float, str]] = {
    "corner": (0.1, 0.9, "from one corner to the other"),
    "cut": (0.5, BELOW_HALF, "from one side of a cut to the other, a float's step away"),
    "face": (0.0, 1.0, "from the face 0 to the face 1"),
}


def kind_of_pair(kind: str, background: Points, position: int) -> Pair:
    """A pair whose point moves as `MOVES` says."""
    one, other, _ = MOVES[kind]
    return replaced(background, position, one, other)


def random_pair(length: int, dimension: int, rng: np.random.Generator) -> Pair:
    """A pair of any kind: backgrounds from heaps to crowds, any position, often on cuts, faces or deep in a cell."""
    backgrounds = [
        heap(length, dimension, float(rng.choice([0.1, 0.5, 0.9, 1.0, BELOW_HALF]))),
        crowd(length, dimension, int(rng.integers(1 << 30))),
        rng.choice([0.0, 0.1, 0.5, BELOW_HALF, 1.0], size=(length, dimension)),
        np.where(np.arange(length)[:, None] % 2 == 0, 0.1, 0.9) + np.zeros((length, dimension)),
    ]
    background = backgrounds[int(rng.integers(len(backgrounds)))]
    position = int(rng.choice([0, length - 1, int(rng.integers(length))]))
    choices = np.array([0.0, 0.1, 0.25, 0.5, BELOW_HALF, 0.9, 1.0])
    while True:
        one, other = rng.choice(choices, dimension), rng.choice(choices, dimension)
        if (one != other).any():
            return replaced(background, position, one, other)
