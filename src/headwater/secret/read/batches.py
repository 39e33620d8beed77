"""Many records as batches: the chunks of an iterator, the batches of a file, or one table by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from headwater.secret.read.source import open_source


def batches_of(table: Any, schema: Any, bad_rows: str = "stop") -> Iterator[Any]:  # noqa: ANN401 - of any library
    """The batches of whatever a user calls records."""
    if isinstance(table, str | os.PathLike):
        with open_source(table, schema, bad_rows=bad_rows) as source:
            yield from (batch for batch in source if batch is not None)
    elif hasattr(table, "__next__"):
        yield from table
    else:
        yield table
