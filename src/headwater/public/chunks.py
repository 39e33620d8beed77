"""Work on many records, a chunk at a time, shared among threads where there are many of them.

Formal guarantees
-----------------
What is computed does not depend on the number of threads: chunks are the same, each is worked on once, and random
numbers are drawn by one thread, in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")

CHUNK = 1 << 15  # records that are worked on at a time: what is computed of them stays in the processor's cache
MANY = 8 * CHUNK
"""From so many records on, threads are worth being started. Predictions draw fewer: measuring starts no thread."""
THREADS = min(4, os.cpu_count() or 1)  # that work on chunks together


def chunks_of(rows: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, rows, CHUNK))


def each_chunk(rows: int, work: Callable[[slice], None]) -> None:
    if rows < MANY or THREADS == 1:
        _all_of(work, list(chunks_of(rows)))
        return
    mine, *others = (list(chunks_of(rows))[first::THREADS] for first in range(THREADS))
    with ThreadPoolExecutor(len(others), "headwater-draw") as threads:
        shares = [threads.submit(_all_of, work, share) for share in others]
        _all_of(work, mine)
    for share in shares:
        share.result()


def in_parallel(rows: int, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    if rows < MANY or THREADS == 1:
        return first(), second()
    with ThreadPoolExecutor(1, "headwater-draw") as thread:
        other = thread.submit(second)
        return first(), other.result()


def _all_of(work: Callable[[slice], None], share: Sequence[slice]) -> None:
    for chunk in share:
        work(chunk)
