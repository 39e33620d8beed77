"""Batches of a topic, taken by a run with the offsets behind them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from headwater.kafka.batch import TopicBatch
from headwater.kafka.offsets import TopicError
from headwater.kafka.topic import Topic
from headwater.public.bad_rows import BadRow
from headwater.public.errors import TableError
from headwater.public.protocol import Rows
from headwater.public.tally import Tally
from headwater.run import Run
from headwater.run.requests import answer_requests

POSITION = "kafka"
"""The name under which a run keeps the offsets of its topic."""


def take(run: Run, batch: TopicBatch, form: str, bad_rows: str = "stop", **reading: Any) -> None:  # noqa: ANN401 - as for `encode`
    """Take a batch, all of it or nothing, with the offsets behind it.

    A topic goes on behind what it has given, kept or not. So after a batch that was refused the next one is refused
    too: open the topic again, where the run stands.
    """
    if run.position(POSITION) != batch.before:
        raise TopicError(
            "the run has not kept what the topic gave before these messages, as after an error: open the topic again "
            "from the position that the run has kept, run.position(POSITION)"
        )
    rows, tally, bad = encode(run, batch, form, bad_rows, **reading)
    run.take_rows(rows, tally, position={POSITION: batch.position}, quarantined=bad)


def encode(
    run: Run, batch: TopicBatch, form: str, bad_rows: str = "stop", *, ignore_extra: bool = False
) -> tuple[Rows, Tally, list[BadRow]]:
    """The records of a batch as the run keeps them, what was bad or clipped in them, and bad rows for quarantine.

    ``form``, ``bad_rows`` and ``ignore_extra`` are those of `TopicBatch.read`.
    """
    rows, before, tally, bad = list[Rows](), 0, Tally(), list[BadRow]()
    for part in batch.read(run.synth.input_schema, form, bad_rows, ignore_extra=ignore_extra):
        try:
            some, counts, worse = run.encode_batch(part, bad_rows=bad_rows)
        except TableError as error:
            raise batch.locate(error, before, form) from None
        rows.append(some)
        tally, before = tally + counts, before + len(some)
        bad += worse
    return np.concatenate(rows), tally, bad


def feed(
    run: Run,
    topic: Topic,
    form: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
    **reading: Any,  # noqa: ANN401 - as for `encode`
) -> None:
    """Take everything that a topic gives, and publish whenever it is due.

    ``progress`` is called after each batch, and ``stop`` asked whether to return. Where the clock starts does not
    matter. ``reading`` holds ``bad_rows`` and ``ignore_extra``, as `encode` takes them.
    """
    run.publish_if_due(clock())
    for batch in topic:
        if batch is not None:
            take(run, batch, form, **reading)
        progress()
        run.publish_if_due(clock())
        answer_requests(run)
        progress()
        if stop():
            return
