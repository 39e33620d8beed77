"""Messages of a topic as records; errors name partition and offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.public.errors import TableError
from headwater.secret.read.batch import Batch
from headwater.secret.read.source import read_bytes

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TopicBatch:
    """Some records of a topic, and the offsets behind them.

    ``places`` are partition and offset of each message, ``position`` is what a run keeps with the records, and
    ``before`` what it has kept when these are the next ones.
    """

    values: list[bytes]
    places: list[tuple[int, int]]
    position: dict[str, Any]
    before: Mapping[str, Any] | None = None

    def read(
        self,
        schema: Any,  # noqa: ANN401
        form: str,
        bad_rows: str = "stop",
        *,
        ignore_extra: bool = False,
    ) -> Iterator[Batch]:
        """The records in batches; an error names partition and offset of the message, never its value.

        ``form`` is ``"json"``, or ``"csv"``: one line without a header, columns in the order of the schema, the person
        last.
        """
        lines = [self._line(number, form, bad_rows) for number in range(len(self.values))]
        if form == "csv":
            lines.insert(0, _header(schema))
        before, form_of_lines = 0, "csv" if form == "csv" else "jsonl"
        text = _MARK + b"\n".join([*lines, b""])  # a mark: so what the first message begins with is part of it
        try:
            for batch in read_bytes(text, schema, form_of_lines, bad_rows, ignore_extra=ignore_extra):
                yield batch
                before += batch.records
        except TableError as error:
            raise self.locate(error, before, form) from None
        if before != len(self.values):
            raise TableError(f"{len(self.values):,} messages hold {before:,} records", "write one record a message")

    def _line(self, number: int, form: str, bad_rows: str) -> bytes:
        value = self.values[number].strip(b"\r\n")
        if form == "json":
            return value.replace(b"\n", b" ").replace(b"\r", b" ")  # between tokens: in a string JSON writes \n
        if b"\n" in value or b"\r" in value:
            if bad_rows != "stop":
                return b"\r" + value.replace(b"\n", b"\r")  # one line, which is bad: a return stands before its end
            raise self._at(number, TableError("a message of several lines", "write one line a message"))
        return value

    def locate(self, error: TableError, before: int = 0, form: str = "json") -> TableError:
        """An error of a reader or a codec with the place of its message; ``before`` records came before its table."""
        row = error.row
        if row is None and error.line is not None:
            row, before = error.line - (2 if form == "csv" else 1), 0
        return error if row is None or not 0 <= before + row < len(self.places) else self._at(before + row, error)

    def _at(self, number: int, error: TableError) -> TableError:
        partition, offset = self.places[number]
        located = error.at()
        located.file, located.line, located.row = f"partition {partition}, offset {offset}", None, None
        return located


def _header(schema: Any) -> bytes:  # noqa: ANN401 - a Schema or a UnitCube
    names = getattr(schema, "names", None) or [f"x{axis}" for axis in range(schema.dimension)]
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    return ",".join(quoted).encode()
