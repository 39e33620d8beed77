"""What crosses the trust boundary: noisy contingency tables over spans of arrivals, and public facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.public.categories import Boolean, Category
from headwater.public.cube import UnitCube
from headwater.public.numbers import Integer, Number
from headwater.public.partition import Axis, Points
from headwater.public.schema import Schema

Codes = NDArray[np.uint16]

NULL = np.uint16(0xFFFF)
"""The code of a null record, in every column. No column has so many codes."""

FINEST = 1 << 15
"""At most so many codes for the values of a column; the missing value has one more."""

MOST_LABELS = 1 << 10
"""Of a list of more labels than this, neighbours may be merged, as if it were ordered."""


MANY = 1 << 8
"""In a column of more values than this, bounds and 0 are atoms: halving all values would find them late."""


@dataclass(frozen=True)
class Coding:
    """How the values of one column become codes ``0 … size − 1``. At ``atoms`` many values may be one and the same."""

    values: int
    missing: bool
    ordered: bool
    atoms: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return self.values + self.missing


@dataclass(frozen=True)
class Coder:
    """The codes of one column: equal parts of a continuum, or ``step`` neighbouring values of a finite column."""

    axis: Axis
    coding: Coding
    step: int
    exact: tuple[float, ...] = ()

    def encode(self, places: Points) -> Codes:
        """Codes of coordinates, as `Axis.place` gives them."""
        axis, last = self.axis, self.coding.size - 1
        if axis.values is None:
            return np.minimum(places * (FINEST / axis.unit), last).astype(np.uint16)
        numbers = places * 2.0**axis.cuts
        if self.step > 1:
            gone = numbers >= 1 << (axis.cuts - 1) if axis.missing else False
            numbers = np.where(gone, last, np.floor_divide(numbers, self.step))  # whole numbers below 2^53
        return np.minimum(numbers, last).astype(np.uint16)  # beyond the values lies the missing one

    def places(self, codes: Codes, inside: Points) -> Points:
        """Coordinates at the position ``inside``, in ``[0, 1)``, of the part of the column that a code stands for."""
        whole = codes.astype(np.int64)
        gone = whole == self.coding.values if self.coding.missing else None
        if self.axis.values is None:
            shares = np.minimum(whole + inside, np.nextafter(whole + 1.0, 0.0)) / FINEST
            for code, share in zip(self.coding.atoms, self.exact, strict=True):
                shares[whole == code] = share
            return self.axis.place(shares, gone)
        if self.step == 1:
            return self.axis.place(whole, gone)
        first = whole * self.step
        width = np.minimum(self.axis.values - first, self.step)
        return self.axis.place(first + np.minimum((inside * width).astype(np.int64), width - 1), gone)


@lru_cache(maxsize=64)
def coders(schema: Schema | UnitCube) -> tuple[Coder, ...]:
    """How each column of a schema is coded."""
    if isinstance(schema, UnitCube):
        return tuple(Coder(Axis(), Coding(FINEST, missing=False, ordered=True), 1) for _ in range(schema.dimension))
    found = []
    for column in schema.columns.values():
        size, listed = column.size, isinstance(column, Category | Boolean)
        step = 1 if size is None else -(-size // FINEST)
        values = FINEST if size is None else -(-size // step)
        coding = Coding(values, column.missing, ordered=not listed or values > MOST_LABELS)
        coder = Coder(column.axis, coding, step)
        if isinstance(column, Number | Integer) and values > MANY:
            low, high = column.limits
            at = column.encode([low, 0, high] if low < 0 < high else [low, high])
            atoms = tuple(coder.encode(at).tolist())
            coder = replace(coder, coding=replace(coding, atoms=atoms), exact=tuple((at / column.axis.unit).tolist()))
        found.append(coder)
    return tuple(found)


def codings(schema: Schema | UnitCube) -> tuple[Coding, ...]:
    return tuple(coder.coding for coder in coders(schema))


def encode(points: Points, schema: Schema | UnitCube) -> Codes:
    codes = np.empty(points.shape, dtype=np.uint16)
    for column, coder in enumerate(coders(schema)):
        codes[:, column] = coder.encode(points[:, column])
    return codes
