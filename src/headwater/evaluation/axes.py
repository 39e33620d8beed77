"""The columns of a schema as axes of the unit cube, with what is needed to compare two tables along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.public.partition import Axis
from headwater.public.protocol import AnySchema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Side = tuple[Floats, NDArray[np.bool_]]
"""Values of a column in one table, and which of them are not missing."""


@dataclass(frozen=True)
class ColumnAxis:
    """One column of a schema as an axis of the cube; ``kind`` and ``declared`` are what a schema file says of it."""

    name: str
    kind: str
    axis: Axis
    declared: dict[str, Any]

    @property
    def ordered(self) -> bool:
        """Whether a distance between values makes sense."""
        return self.kind not in ("category", "boolean")

    def split(self, places: Floats) -> Side:
        values, gone = self.axis.value(places)
        there = np.ones(len(places), dtype=bool) if gone is None else ~gone
        scale = max((self.axis.values or 2) - 1, 1) if self.ordered else 1
        return values.astype(np.float64) / scale, there


def column_axes(schema: AnySchema) -> tuple[ColumnAxis, ...]:
    """The columns of a schema. Those of a unit cube are numbers from 0 to 1.

    >>> import headwater as hw
    >>> [column.name for column in column_axes(hw.unit_cube(2))]
    ['x0', 'x1']
    """
    declared: Any = schema.to_dict().get("columns")
    if declared is None:
        plain = {"kind": "number", "low": 0.0, "high": 1.0}
        declared = {f"x{i}": plain for i in range(schema.dimension)}
    axes = schema.partition.axes
    return tuple(ColumnAxis(name, c["kind"], axis, c) for (name, c), axis in zip(declared.items(), axes, strict=True))
