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

    @property
    def _scale(self) -> int:
        return max((self.axis.values or 2) - 1, 1) if self.ordered else 1

    def split(self, places: Floats) -> Floats:
        """Numbers in parts of their range, places in the list of categories; NaN where a value is missing."""
        values, gone = self.axis.value(places)
        found = values / self._scale
        return found if gone is None else np.where(gone, np.nan, found)

    def join(self, values: Floats) -> Floats:
        """`split` backwards."""
        missing = np.isnan(values)
        numbers = np.nan_to_num(values) * self._scale
        return self.axis.place(numbers if self.axis.values is None else np.rint(numbers), missing)


def column_axes(schema: AnySchema) -> tuple[ColumnAxis, ...]:
    """The columns of a schema. Those of a unit cube are numbers from 0 to 1.

    >>> import headwater as hw
    >>> [column.name for column in column_axes(hw.unit_cube(2))]
    ['x0', 'x1']
    """
    columns: Any = getattr(schema, "columns", {})
    plain: Any = {f"x{i}": {"kind": "number", "low": 0.0, "high": 1.0} for i in range(schema.dimension)}
    declared = {name: column.to_dict() for name, column in columns.items()} or plain
    axes = schema.partition.axes
    return tuple(ColumnAxis(name, c["kind"], axis, c) for (name, c), axis in zip(declared.items(), axes, strict=True))
