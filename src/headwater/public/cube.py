"""The schema of arrays that already lie in ``[0,1]^d``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import TableError
from headwater.public.partition import Partition
from headwater.public.tally import BadRow, EncodedBatch, Tally, check_policy

MOST_AXES = 1000
"""A cube of more dimensions is refused: cells are cut 60 times in all, and each axis takes memory."""


@dataclass(frozen=True)
class UnitCube:
    """Points of ``[0,1]^d``, as rows of numbers."""

    dimension: int

    def __post_init__(self) -> None:
        axes: object = self.dimension
        if hasattr(axes, "__index__") and axes.__index__() > MOST_AXES:
            raise ValueError(f"the dimension must be at most {MOST_AXES}, not {self.dimension}")
        object.__setattr__(self, "dimension", Partition(self.dimension).dimension)  # or refused

    def encode(self, points: object) -> NDArray[np.float64]:
        """A batch as an array of shape ``(n, d)``, refused whole if any of it is wrong."""
        return check_points(_numbers_of(points, stop=True), self.dimension)

    def encode_batch(self, points: object, *, bad_rows: str = "stop") -> EncodedBatch:
        """A batch with its bad rows: those with a number outside of ``[0, 1]``, or with none."""
        if check_policy(bad_rows) == "stop":
            array = self.encode(points)
            return EncodedBatch(array, (), Tally(len(array)))
        array = check_shape(_numbers_of(points, stop=False), self.dimension)
        inside = np.asarray(((array >= 0) & (array <= 1)).all(axis=1))
        error = TableError("a coordinate that is not a number in [0, 1]", "give numbers from 0 to 1")
        bad = tuple(BadRow(int(row), error.at(row=int(row))) for row in np.flatnonzero(~inside))
        tally = Tally(len(array)).add_bad(one.error for one in bad)
        return EncodedBatch(self.encode(np.where(inside[:, None], array, 0)), bad, tally)

    def decode(self, points: NDArray[np.float64], kind: str | None = None) -> Any:  # noqa: ANN401 - of any library
        """Points as they are, or as a table with columns ``x0, x1, …`` if a kind of table is asked for."""
        if kind in (None, "numpy"):
            return points
        from headwater.public.numbers import Coordinate
        from headwater.public.schema import Schema

        return Schema({f"x{axis}": Coordinate(0, 1) for axis in range(self.dimension)}).decode(points, kind)

    @property
    def partition(self) -> Partition:
        """How the cube is cut."""
        return Partition(self.dimension)

    def to_dict(self) -> dict[str, object]:
        """The schema as plain values, for files."""
        return {"headwater": 1, "unit_cube": self.dimension}


def unit_cube(dimension: int) -> UnitCube:
    """The schema of arrays that already lie in ``[0,1]^d``.

    Parameters
    ----------
    dimension
        How many coordinates a point has, from 1 to 1000.

    Examples
    --------
    >>> unit_cube(2).encode([0.25, 1.0])
    array([[0.25, 1.  ]])
    """
    return UnitCube(dimension)


def _numbers_of(points: Any, *, stop: bool) -> Any:  # noqa: ANN401 - of any kind
    """Points whose columns are text, as they are in a file, as an array."""
    if not hasattr(points, "column_names") or "string" not in {str(kind) for kind in points.schema.types}:
        return points
    from headwater.public.numbers import Coordinate

    columns = list[NDArray[np.float64]]()
    for name in points.column_names:
        found = Coordinate(0, 1, missing=True).read(points[name])
        if stop and found.bad:
            row = min(found.bad)
            raise found.bad[row].at(row=row, column=name)
        numbers = np.array(found.numbers, dtype=np.float64)
        if found.missing is not None:
            numbers[found.missing] = np.nan
        numbers[list(found.bad)] = np.nan
        columns.append(numbers)
    return np.column_stack(columns) if columns else np.empty((points.num_rows, 0))


def check_points(points: object, dimension: int) -> NDArray[np.float64]:
    """Points as an array of shape ``(n, d)``, or an error that says what is wrong and where, but not the value."""
    array = check_shape(points, dimension)
    if array.size and not (array.min() >= 0 and array.max() <= 1):  # nor is NaN
        row, axis = (int(i) for i in np.argwhere(~((array >= 0) & (array <= 1)))[0])
        value = array[row, axis]
        kind = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else "below 0" if value < 0 else "above 1"
        raise ValueError(
            f"row {row}, axis {axis}: the value is {kind}, but points must lie in [0, 1]; "
            "nothing of this batch was counted"
        )
    return array


def check_shape(points: object, dimension: int) -> NDArray[np.float64]:
    """An array of shape ``(n, d)`` of any real numbers, or an error."""
    if isinstance(points, np.ma.MaskedArray):
        raise TypeError("points must not be a masked array: fill in or leave out the masked values first")
    try:
        array = np.asarray(points)
    except ValueError:
        raise ValueError("points must be a rectangular array: its rows have different lengths") from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"points must be real numbers, not {kind_of_array(array)}")
    if not isinstance(points, np.ndarray) and _holds_boolean(points):  # beside numbers it would become one
        raise TypeError("points must be real numbers, not booleans")
    shape = array.shape
    if dimension == 1 and array.ndim < 2:
        array = array.reshape(-1, 1)
    elif array.ndim == 1:
        array = array.reshape(0, dimension) if array.size == 0 else array.reshape(1, -1)
    if array.ndim != 2 or array.shape[1] != dimension:
        raise ValueError(f"points must have shape (n, {dimension}), not {shape}")
    return array.astype(np.float64, copy=False)


def _holds_boolean(points: object) -> bool:
    if isinstance(points, list | tuple):
        return any(map(_holds_boolean, points))
    return isinstance(points, bool | np.bool_) or (isinstance(points, np.ndarray) and points.dtype.kind == "b")


def kind_of_array(array: NDArray[np.generic]) -> str:
    """What an array holds, in words."""
    names = {"U": "strings", "S": "bytes", "b": "booleans", "c": "complex numbers", "O": "Python objects"}
    names |= {"M": "dates", "m": "time spans", "V": "records", "T": "strings"}
    return names.get(array.dtype.kind, str(array.dtype))
