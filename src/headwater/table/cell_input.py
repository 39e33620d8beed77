"""Records that were located or counted elsewhere: checked before anything is counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.partition import Cells, Partition
from headwater.table.unit_cube import kind_of_array


def check_cells(cells: object, depth: int) -> Cells:
    """Cells of one depth as an array, or an error that says what is wrong."""
    names = _whole("cells", cells)
    if names.ndim != 1:
        raise ValueError(f"cells must be a list, not an array of shape {names.shape}")
    if names.size and (names.min() < 0 or int(names.max()) >= 1 << depth):
        raise ValueError(f"cells must lie between 0 and 2^{depth} − 1, as locate() and histogram() give them")
    return names.astype(np.uint64, copy=False)


def check_counts(cells: object, counts: object, partition: Partition, depth: int) -> tuple[Cells, NDArray[np.int64]]:
    """Counted cells as arrays, or an error that says what is wrong."""
    names, numbers = _whole("cells", cells), _whole("counts", counts)
    if names.ndim != 1 or names.shape != numbers.shape:
        raise ValueError(f"cells and counts must be two lists of one length, not {names.shape} and {numbers.shape}")
    if numbers.size and numbers.min() < 0:
        raise ValueError("counts must not be negative")
    if numbers.size and int(numbers.max()) >= 1 << 40:
        raise ValueError("counts must be below 2^40: no bucket has room for more")
    found = check_cells(names, depth)
    if not partition.possible(found, depth).all():
        raise ValueError("some cells hold no value of the schema: they were counted under another schema")
    return found, numbers.astype(np.int64)


def _whole(what: str, numbers: object) -> NDArray[np.generic]:
    if isinstance(numbers, np.ma.MaskedArray):
        raise TypeError(f"{what} must not be a masked array: leave out what is masked first")
    array = np.asarray(numbers)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{what} must be whole numbers, not {kind_of_array(array)}")
    return array if array.size else array.astype(np.int64)
