"""Values as small whole numbers that Spark itself computes: what decides the row of a record, in a few machine words.

A *symbol* stands for all values of a column that are encoded alike and counted alike in a tally. Spark's generated code
finds it without a way to Python, and `Symbols.decode` gives the coordinate that it stands for. Arithmetic is that of
`headwater.table`, operation by operation, so the bits are the same (`tests/spark/test_symbols.py`). Whatever is not
plainly one of the declared values has no symbol: a batch with such a record is encoded in Python, which knows why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headwater.public.categorical import Boolean, Category
from headwater.public.column import Column
from headwater.public.numeric import Integer, Number
from headwater.public.partition import Axis, Points
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.synthesizer import Synthesizer

MOST_WORDS = 2
MOST_LABELS = 32  # which Spark compares one by one
_WORD = 62  # bits, so that no word is below 0
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_REAL = (*_WHOLE, "float", "double")


@dataclass(frozen=True)
class Symbol:
    """The symbols of one column: its values, then those for values below and above its bounds and for missing ones.

    Parameters
    ----------
    name
        The column of the frame.
    column
        What is declared of it; None for a coordinate of the cube.
    axis
        Its coordinate.
    depth
        How often the axis is cut, if it is a continuum: the number of its parts is 2^depth.
    """

    name: str
    column: Column | None
    axis: Axis
    depth: int

    @property
    def values(self) -> int:
        """How many symbols stand for values."""
        return self.axis.values or 1 << self.depth

    @property
    def bits(self) -> int:
        """Of the largest symbol."""
        return (self.values + 2).bit_length()

    def expression(self) -> str:
        """The symbol in Spark's SQL; null for what has none. Made as text: Spark is called once for all of it."""
        given = "`" + self.name.replace("`", "``") + "`"
        column, gone = self.column, f"{given} IS NULL"
        if isinstance(column, Category | Boolean):
            listed = column.values if isinstance(column, Category) else (False, True)
            cases = (f"WHEN {given} = {_literal(value)} THEN {number}L" for number, value in enumerate(listed))
            found = f"CASE {' '.join(cases)} END"
        elif isinstance(column, Integer):
            whole, low, high = f"CAST({given} AS BIGINT)", *map(_literal, column.limits)
            inside = f"WHEN {whole} >= {low} AND {whole} <= {high} THEN {whole} - {low}"
            found = self._or_beyond(inside, f"{whole} < {low}", f"{whole} > {high}")
        else:
            lowest, highest = column.limits if isinstance(column, Number) else (0.0, 1.0)
            real, low, high = f"CAST({given} AS DOUBLE)", _literal(float(lowest)), _literal(float(highest))
            # NaN is larger than all numbers in Spark, so it is not inside.
            inside = f"WHEN {real} >= {low} AND {real} <= {high} THEN {self._part(real, lowest, highest)}"
            found = self._or_beyond(inside, f"{real} < {low}", f"{real} > {high} AND NOT isnan({real})")
            gone = f"{gone} OR isnan({real})"
        if self.axis.missing:
            found = f"CASE WHEN {gone} THEN {self.values + 2}L ELSE {found} END"
        return found

    def _part(self, real: str, low: float, high: float) -> str:
        """Which step, or which part of a continuum, holds a number between the bounds."""
        grid = getattr(self.column, "grid", None)
        if grid is not None:
            start, step = (_literal(one / 10.0**grid.digits) for one in (grid.low, grid.step))
            nearest = f"rint(({real} - {start}) / {step})"
            return f"CAST(least(greatest({nearest}, 0.0D), {_literal(grid.size - 1.0)}) AS BIGINT)"
        place = real if self.column is None else f"({real} - {_literal(low)}) / {_literal(high - low)}"
        if self.axis.missing:
            place = f"least({place} * 0.5D, {_literal(float(np.nextafter(0.5, 0)))})"
        return f"least(CAST({place} * {_literal(2.0**self.depth)} AS BIGINT), {(1 << self.depth) - 1}L)"

    def _or_beyond(self, inside: str, below: str, above: str) -> str:
        """Values inside first: most are."""
        if self.column is None or getattr(self.column, "outside", "") != "clip":
            return f"CASE {inside} END"
        return f"CASE {inside} WHEN {below} THEN {self.values}L WHEN {above} THEN {self.values + 1}L END"

    def decode(self, symbols: NDArray[np.int64]) -> tuple[Points, dict[str, NDArray[np.bool_]]]:
        """A coordinate in the part that each symbol stands for, and which of them were clipped or missing."""
        gone, beyond = symbols == self.values + 2, (symbols == self.values) | (symbols == self.values + 1)
        numbers = np.where(symbols == self.values, 0, np.minimum(symbols, self.values - 1))
        if isinstance(self.column, Number) and self.column.grid is not None:  # the last step need not be the bound
            numbers[symbols == self.values + 1] = self.column.grid.index(np.array(self.column.limits[1:]))[0]
        if self.axis.values is None:  # the last part of a lower half ends before ½
            last = (1 << self.depth - self.axis.missing) - 1
            places = np.minimum(numbers, last) * 2.0**-self.depth
            places[gone] = 0.5
        else:
            places = self.axis.place(numbers, gone)
        return places, {"clipped": beyond, "missing": gone}


@dataclass(frozen=True)
class Symbols:
    """The symbols of all columns of a frame, side by side in words.

    Parameters
    ----------
    words
        The columns in each word, the first of them in its lowest bits.
    """

    words: tuple[tuple[Symbol, ...], ...]

    @staticmethod
    def of(synth: Synthesizer, columns: Sequence[str], types: Mapping[str, str]) -> Symbols | None:
        """For the columns of a schema or a cube, if Spark can find the symbols of all of them.

        Parameters
        ----------
        synth
            Whose records they are.
        columns
            As the frame names them, in the order of the schema.
        types
            Of Spark, by column.
        """
        schema, found = synth.schema, list[Symbol]()
        declared = list(schema.columns.values()) if isinstance(schema, Schema) else [None] * schema.dimension
        for number, (name, column) in enumerate(zip(columns, declared, strict=True)):
            if not _known(column, types[name]):
                return None
            found.append(Symbol(name, column, schema.partition.axes[number], synth.place_bits(number)))
        words, used = [list[Symbol]()], 0
        for one in found:
            if used + one.bits > _WORD:
                words.append([])
                used = 0
            words[-1].append(one)
            used += one.bits
        return Symbols(tuple(map(tuple, words))) if len(words) <= MOST_WORDS else None

    @property
    def bits(self) -> list[int]:
        """Of each word."""
        return [sum(one.bits for one in word) for word in self.words]

    def expressions(self) -> list[str]:
        """One word after another; null if any value of it has no symbol."""
        found = []
        for word in self.words:
            shifts = accumulate((one.bits for one in word), initial=0)
            parts = (f"shiftleft({one.expression()}, {shift})" for one, shift in zip(word, shifts, strict=False))
            found.append(" | ".join(parts))
        return found

    def decode(self, words: Sequence[NDArray[np.int64]], counts: NDArray[np.int64]) -> tuple[Points, Tally]:
        """Points of the cube that are encoded as the records were, and the tally of all records.

        Parameters
        ----------
        words
            What `expressions` gave, none of it null.
        counts
            How many records each of them stands for.
        """
        points, tally = [], Tally(int(counts.sum()))
        for word, given in zip(self.words, words, strict=True):
            rest = given
            for one in word:
                places, flags = one.decode(rest & ((1 << one.bits) - 1))
                rest = rest >> one.bits
                points.append(places)
                if one.column is not None:
                    for kind, found in flags.items():
                        tally.add(one.name, kind, int(counts[found].sum()))
        return np.column_stack(points), tally


def _known(column: Column | None, kind: str) -> bool:
    """Whether values of this type of Spark mean the same to it as to a column."""
    if column is None:
        return kind == "double"
    if isinstance(column, Number):
        return column.scale == "linear" and kind in _REAL
    if isinstance(column, Integer):
        return kind in _WHOLE
    if isinstance(column, Category):
        types = {str: ("string",), int: _WHOLE}.get(column.type, ())
        small = column.type is str or max(map(abs, column.values)) < 1 << 62
        return kind in types and column.size <= MOST_LABELS and small
    return isinstance(column, Boolean) and kind == "boolean"


def _literal(value: object) -> str:
    """A value in Spark's SQL, exactly; of a text its bytes, so that nothing in it is read as SQL."""
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, bool):
        return str(value)
    return f"({value!r}{'D' if isinstance(value, float) else 'L'})"
