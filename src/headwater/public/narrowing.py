"""Many records read at once where that can be done, and each by itself where it cannot.

Formal guarantees
-----------------
Whatever a library makes of a lot of records, one that it refuses is found by halving, so that it alone is refused
(`proofs/tables.md`, step 1). This holds if reading a lot gives what reading its records one by one gives, wherever it
gives anything at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from headwater.public.errors import TableError
from headwater.public.failures import failures

T = TypeVar("T")

UNREADABLE = TableError("a value of a kind that cannot be read", "see which kinds the column takes")


def refusal(error: BaseException, otherwise: TableError = UNREADABLE) -> TableError:
    """What is wrong with a record, if this is what reading it has raised; other errors than ours may hold the value.

    Want of memory is no matter of the record, and is raised again.
    """
    if isinstance(error, MemoryError):
        raise error
    return (error if isinstance(error, TableError) else otherwise).at()  # a copy: what was raised keeps its frames


def narrowed(
    size: int,
    read: Callable[[int, int], T],
    *,
    otherwise: TableError = UNREADABLE,
    whole: tuple[type[Exception], ...] = (),
) -> Iterator[tuple[int, int, T | TableError]]:
    """What ``read(start, end)`` gives for lots of records, in order, and the error of each that it refuses by itself.

    Parameters
    ----------
    size
        How many records there are.
    read
        Reads the records from ``start`` to ``end``, or raises whatever it raises.
    otherwise
        The error of a record if what is raised is none of ours.
    whole
        Errors that are not about one record, and are raised.

    Examples
    --------
    >>> words = ["1", "2", "x", "4"]
    >>> [(start, end) for start, end, found in narrowed(4, lambda a, b: [*map(int, words[a:b])]) if found == [1, 2]]
    [(0, 2)]
    """
    lots = [(0, size)] if size else []
    while lots:
        start, end = lots.pop()
        found: T | TableError
        try:
            found = read(start, end)
        except whole:
            raise
        except failures() as error:  # of any library, or of an object in the record
            found = refusal(error, otherwise)
            if end - start > 1:
                middle = (start + end) // 2
                lots += [(middle, end), (start, middle)]
                continue
        yield start, end, found
