"""Records in memory, read by the readers of files: so that bytes from anywhere mean what they mean in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.table.errors import TableError
from headwater.table.readers.batch import Batch
from headwater.table.readers.source import open_source


def read_bytes(data: bytes, schema: Any, form: str, bad_rows: str = "stop") -> Iterator[Batch]:  # noqa: ANN401
    """The records of some bytes in batches.

    Errors name lines, rows and columns. A row of an error is that of its table; of JSON lines, where a line is
    a record, an error of the text has the row of the whole.

    Parameters
    ----------
    data
        What a file would hold.
    schema
        Says which columns there must be, and their types.
    form
        ``"csv"``, ``"jsonl"``, ``"parquet"`` or ``"arrow"``.
    bad_rows
        What happens to a row that is no record: a policy of `headwater.table.bad_rows`.
    """
    if form == "jsonl" and not data.strip():
        return
    with _file(data) as path:
        try:
            options: dict[str, Any] = {
                "format": form,
                "delimiter": "," if form == "csv" else None,
                "bad_rows": bad_rows,
            }
            with open_source(path, schema, **options) as source:
                for batch in source:
                    if batch is not None:
                        yield batch
        except TableError as error:
            raise _without_file(error, form) from None


def _without_file(error: TableError, form: str) -> TableError:
    located = error.at()
    located.file = None
    if form == "jsonl" and located.row is None and located.line is not None:
        located.row = located.line - 1
    return located


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    """A file that is in memory only where the system has such files: records are not to be left on a disk."""
    if not hasattr(os, "memfd_create"):  # only Linux has it
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield Path(file.name)
        return
    handle = os.memfd_create("records", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
