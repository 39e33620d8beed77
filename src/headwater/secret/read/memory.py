"""Records in memory, read by the readers of files: so that bytes from anywhere mean what they mean in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headwater.public.errors import TableError
from headwater.public.schema import read_as
from headwater.secret.read.batch import Batch
from headwater.secret.read.fields import fields_of
from headwater.secret.read.json_text import JsonParser
from headwater.public.narrowing import refusal
from headwater.secret.read.options import Options
from headwater.secret.read.source import open_source
from headwater.secret.read.text_file import Part

_BLOCK = Options().block_bytes


class JsonLines:
    """Reads good lines of JSON at once, without a file: a table of thousands of small requests costs what one does.

    Parameters
    ----------
    schema
        Says which columns there must be, and their types.
    ignore_extra
        Leave out columns that the schema does not name.
    """

    def __init__(self, schema: Any, *, ignore_extra: bool = False) -> None:  # noqa: ANN401
        extra = bool(read_as(schema, {"ignore_extra": ignore_extra})["ignore_extra"])
        self._parser = JsonParser(fields_of(schema, Options().text), ignore_extra=extra)

    def read(self, lines: Sequence[bytes]) -> Batch | None:
        """What `read_bytes` gives for these lines if all of them are good; None if it has to have a look.

        Parameters
        ----------
        lines
            Each without its line end.
        """
        if not all(line.startswith(b"{") for line in lines):  # a mark, another encoding, a blank line
            return None
        text = bytearray(b"\n").join([*lines, b""])
        ends = np.cumsum([len(line) + 1 for line in lines])
        try:
            table = self._parser.parse(text, ends, 1)
        except Exception as error:  # whichever line it is, each is looked at by itself
            refusal(error)
            return None
        return Batch(
            table, "", dict, [Part(table, lambda row: row + 1, len(lines), (), lambda row: lines[row].decode())]
        )


def read_bytes(
    data: bytes,
    schema: Any,  # noqa: ANN401
    form: str,
    bad_rows: str = "stop",
    *,
    ignore_extra: bool = False,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Iterator[Batch]:
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
        What happens to a row that is no record: a policy of `headwater.public.tally`.
    ignore_extra
        Leave out columns that the schema does not name.
    delimiter, encoding
        Of text. What the schema declares about files is not about bytes, unless it is given here.
    """
    if form == "jsonl" and not data:
        return
    with _file(data) as path:
        try:
            options: dict[str, Any] = {
                "format": form,
                "delimiter": delimiter,
                "encoding": encoding,
                "bad_rows": bad_rows,
                "ignore_extra": ignore_extra,
                "block_bytes": min(_BLOCK, len(data) + 1),  # room for a block is made before it is read
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
