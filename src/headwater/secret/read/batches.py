"""Many records as batches: the chunks of an iterator, the batches of a file, or one table by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from headwater.secret.read.batch import Batch
from headwater.secret.read.source import open_source


class Chunk(NamedTuple):
    """One table, and the batch that it is of, if it was read from a file."""

    table: Any
    batch: Batch | None = None


def batches_of(table: Any, schema: Any, bad_rows: str = "stop") -> Iterator[Chunk]:  # noqa: ANN401 - of any library
    """The batches of whatever a user calls records."""
    if isinstance(table, str | os.PathLike):
        with open_source(table, schema, bad_rows=bad_rows) as source:
            for batch in source:
                if batch is not None:
                    yield Chunk(batch.table, batch)
    elif hasattr(table, "__next__"):
        for chunk in table:
            yield Chunk(chunk)
    else:
        yield Chunk(table)
