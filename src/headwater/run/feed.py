"""The loop round a run: reads a source, hands over its batches, and looks at the clock between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain, repeat
from typing import TypeVar, cast

from headwater.run.run import Run
from headwater.secret.batch import Batch
from headwater.secret.read.batch import Batch as Lines
from headwater.secret.read.batch import Position

T = TypeVar("T")
Ready = tuple[Batch, Position]

INPUT = "input"
"""The name under which a run keeps the position of its files."""
AHEAD = 3
"""Batches that are read and encoded before they are taken: some take ten times as long to be counted as others."""


MEASURE_EVERY = 10.0
"""Seconds between two moments that are kept, unless somebody says otherwise."""


def feed(
    run: Run,
    source: Iterable[Lines | None],
    *,
    bad_rows: str | None = None,
    measure_every: float = MEASURE_EVERY,
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[], None] = lambda: None,
    first: Callable[[Lines], None] | None = None,
) -> None:
    """Take everything that a source gives, publish whenever it is due, and once more at the end.

    The clock is read only where a batch has ended or the source was idle. Where batches end must not depend on what
    records hold; the readers cut by number of records (`proofs/tables.md`).

    What was read from a pipe is kept by nobody else: after `Source.stop` the records that were read are taken, and
    nothing is published any more.

    Parameters
    ----------
    run
        The run; its position ``"input"`` is that of the source.
    source
        Batches; ``None`` after a poll that found nothing.
    bad_rows
        What happens to invalid rows, as `Run.take` has it; the source must read under the same policy.
    measure_every
        What was measured is kept for other processes to read at least every so many seconds, if records came.
    clock
        The time in seconds; its start does not matter.
    progress
        Called after each batch.
    first
        Called with the first batch, before anything of it counts.
    """
    if (reading := getattr(source, "reading", None)) is not None:
        run.read_as(reading)
    run.publish_if_due(clock())
    measured = clock()
    batches_in = iter(source)
    if first is not None and (begin := next((batch for batch in batches_in if batch is not None), None)) is not None:
        first(begin)
        batches_in = chain([begin], batches_in)
    encoded = _encoded(batches_in, run.encoder(bad_rows))
    with closing(_ahead(encoded) if getattr(source, "complete", False) else encoded) as batches:
        for batch in batches:
            if batch is not None:
                found, position = batch
                run.take(found, position={INPUT: position})
            elif pending := getattr(source, "pending", None):
                run.keep_position({INPUT: pending})
            progress()
            if getattr(source, "stopped", False):  # what is due is published when the run goes on
                continue
            run.publish_if_due(clock())
            if clock() - measured >= measure_every:
                run.measure()
                measured = clock()
            progress()
    if getattr(source, "stopped", False):
        return
    if pending := getattr(source, "pending", None):  # all files were read to their ends, and may go
        run.keep_position({INPUT: pending})
    run.publish()


def _encoded(source: Iterable[Lines | None], encode: Callable[[object], Batch]) -> Generator[Ready | None]:
    """What a run takes of each batch, and the position behind it; None where the source was idle."""
    for batch in source:
        if batch is None:
            yield None
            continue
        found = encode(batch)
        position = batch.position
        del batch  # its text and its table would wait with what was made of them
        yield found, position


def _ahead(encoded: Iterable[T]) -> Generator[T]:
    """The same, and the same error in the end; up to `AHEAD` batches are read and encoded while one is taken."""
    end = object()
    items = chain(encoded, repeat(end))
    with ThreadPoolExecutor(1, "headwater-read") as thread:
        following = deque(thread.submit(next, items) for _ in range(AHEAD))
        try:
            while (item := following.popleft().result()) is not end:
                following.append(thread.submit(next, items))
                yield cast("T", item)
        finally:
            thread.shutdown(cancel_futures=True)
