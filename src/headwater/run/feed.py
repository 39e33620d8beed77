"""The loop round a run: reads a source, hands over its batches, and looks at the clock between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import cast

from headwater.run.requests import answer_requests
from headwater.run.run import Run
from headwater.table.errors import TableError
from headwater.table.readers import Batch

INPUT = "input"
"""The name under which a run keeps the position of its files."""


def feed(
    run: Run,
    source: Iterable[Batch | None],
    *,
    bad_rows: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Take everything that a source gives, publish whenever it is due, and once more at the end.

    Other processes may ask about the run meanwhile (`headwater.run.requests`); they are answered between batches.

    The clock is read only where a batch has ended or the source was idle. Where batches end must not depend on what
    records hold; the readers cut by number of records (`proofs/tables.md`).

    Parameters
    ----------
    run
        The run; its position ``"input"`` is that of the source.
    source
        Batches; ``None`` after a poll that found nothing.
    bad_rows
        What happens to rows that are no records, as `Run.take` has it; the source must read under the same policy.
    clock
        The time in seconds; its start does not matter.
    progress
        Called after each batch.
    """
    run.publish_if_due(clock())
    ahead = closing(_read_ahead(source)) if getattr(source, "complete", False) else nullcontext(source)
    with ahead as batches:
        for batch in batches:
            if batch is not None:
                try:
                    run.take_batch(batch, position={INPUT: batch.position}, bad_rows=bad_rows)
                except TableError as error:
                    raise batch.with_line(error) from None
            elif pending := getattr(source, "pending", None):
                run.keep_position({INPUT: pending})
            progress()
            run.publish_if_due(clock())
            answer_requests(run)
            progress()
    if pending := getattr(source, "pending", None):  # all files were read to their ends, and may go
        run.keep_position({INPUT: pending})
    run.publish()


def _read_ahead(source: Iterable[Batch | None]) -> Generator[Batch | None]:
    """The same batches, and the same error after them; each is read while the one before is taken.

    Only one thread at a time reads, and never after this generator was closed.
    """
    batches, end = iter(source), object()
    with ThreadPoolExecutor(1, "headwater-read") as thread:
        batch = next(batches, end)
        while batch is not end:
            following = thread.submit(next, batches, end)
            yield cast("Batch | None", batch)
            batch = following.result()
