"""How files are to be read."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.public.schema import check_delimiter, check_input_format, encoding_of
from headwater.public.tally import check_policy


@dataclass(frozen=True)
class Options:
    """How files are to be read. The defaults suit nearly everybody.

    Parameters
    ----------
    format
        One of `headwater.public.file_options.FORMATS`; otherwise the file name's ending says it. ``"jsonl"`` is one
        object a line, ``"json"`` one array of objects.
    delimiter
        Between the fields of a CSV file: a comma, or a tab in a ``.tsv`` file, unless given.
    encoding
        Of text: UTF-8 unless given; UTF-16 (``"utf-16-le"`` or ``"utf-16-be"`` if it does not begin with a mark), or
        any encoding of one byte a character, such as ``"latin-1"``.
    multiline
        Whether quoted fields of CSV may hold line ends. Then a quote that is not closed stops the run, whatever
        ``bad_rows`` says: nobody knows where the records behind it begin.
    ignore_extra
        Whether columns that the schema does not name are left out (otherwise they are an error).
    batch_rows
        A batch ends after so many records, or earlier: fewer for a table of many columns, at the end of a file, or
        when a pipe or a followed file is idle.
    block_bytes
        How much text is read ahead at a time. It does not decide where batches end.
    line_bytes
        A record of text that is longer than this is an error.
    follow
        Whether to wait for more at the end of the last file.
    poll_seconds
        A pipe or a followed file is idle if nothing arrives for so long.
    bad_rows
        What happens to an invalid row: a policy of `headwater.public.tally`.
    stdin_continues
        On resumption: standard input goes on with the next record, without a header, instead of starting again.
    """

    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    multiline: bool = False
    ignore_extra: bool = False
    batch_rows: int = 65536
    block_bytes: int = 1 << 22
    line_bytes: int = 1 << 26
    follow: bool = False
    poll_seconds: float = 1.0
    stdin_continues: bool = False
    bad_rows: str = "stop"

    def __post_init__(self) -> None:
        check_policy(self.bad_rows)
        if self.format is not None:
            check_input_format(self.format)
        if self.delimiter is not None:
            check_delimiter(self.delimiter)
        encoding_of(self.encoding)
        for name in ("batch_rows", "block_bytes", "line_bytes", "poll_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
