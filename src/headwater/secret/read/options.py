"""How files are to be read, and the error for a file that changed under the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.public.errors import TableError
from headwater.public.numbers import check_marks
from headwater.public.schema import check_delimiter, check_input_format, encoding_of
from headwater.public.tally import check_policy


class InputChangedError(TableError):
    """What was read before is not there any more as it was: going on would count other records than the run did."""


class OverwrittenError(InputChangedError):
    """A followed file was cut, or written over: perhaps its content was copied away before, as some rotations do."""


@dataclass(frozen=True)
class Options:
    """How files are to be read. The defaults suit nearly everybody.

    Parameters
    ----------
    format
        One of `headwater.public.schema.FORMATS`; otherwise the file name's ending says it. ``"jsonl"`` is one
        object a line; ``"json"`` is one array of objects, or lines if it does not begin with a bracket, which only bad
        rows that stop a run allow.
    delimiter
        Between the fields of a CSV file: a comma, or a tab in a ``.tsv`` file, unless given.
    encoding
        Of text: UTF-8 unless given; UTF-16 (``"utf-16-le"`` or ``"utf-16-be"`` if it does not begin with a mark), or
        any encoding of one byte a character, such as ``"latin-1"``.
    null_values
        Texts that mean "missing", for columns whose schema does not say it.
    decimal, thousands
        How numbers are written (``","`` and ``"."`` for 1.234,5), for columns whose schema does not say it.
    formats
        How columns of dates and times are written, by name, where the schema does not say it.
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
    gone_is_done
        On resumption: a file that was being read and is gone was read to its end; what stands under its name is new.
    same_again
        Whether a file that is as long as one that was read, and begins and ends alike, holds other records.
    bad_rows
        What happens to a row that is no record: a policy of `headwater.public.tally`. Unless it is ``"stop"``, a line
        of text is a record whatever is in it, so quoted fields of CSV cannot hold line ends; of a JSON array any
        element is one, and text that is not JSON is refused in any case.
    stdin_continues
        On resumption: standard input goes on with the next record, without a header, instead of starting again.
    """

    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null_values: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    formats: tuple[tuple[str, str], ...] = ()
    ignore_extra: bool = False
    batch_rows: int = 65536
    block_bytes: int = 1 << 22
    line_bytes: int = 1 << 26
    follow: bool = False
    poll_seconds: float = 1.0
    stdin_continues: bool = False
    bad_rows: str = "stop"
    gone_is_done: bool = False
    same_again: bool = False

    def __post_init__(self) -> None:
        check_policy(self.bad_rows)
        if self.format is not None:
            check_input_format(self.format)
        if self.delimiter is not None:
            check_delimiter(self.delimiter)
        encoding_of(self.encoding)
        check_marks(self.decimal, self.thousands)
        for name in ("batch_rows", "block_bytes", "line_bytes", "poll_seconds"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")

    @property
    def text(self) -> dict[str, Any]:
        """How text is written, as `headwater.table.text_options.written` takes it."""
        given: dict[str, Any] = {"null_values": list(self.null_values), "formats": dict(self.formats)}
        given |= {"decimal": self.decimal, "thousands": self.thousands}
        return {key: value for key, value in given.items() if value}


def changed(name: str, what: str) -> InputChangedError:
    """The error for input that is not what it was."""
    remedy = (
        "put the file back as it was; or, if all that is left of it is lost or done and this is a new file, say so "
        "with gone_is_done (--gone-is-done); or start a new run with a new state"
    )
    return InputChangedError(f"the input {what} since it was read", remedy, file=name)
