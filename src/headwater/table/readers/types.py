"""The names and types of a file's columns, for a draft of its schema."""

from __future__ import annotations

import json

from headwater.table.arrow import pyarrow
from headwater.table.errors import TableError
from headwater.table.readers.options import Options
from headwater.table.readers.paths import Inputs, StrPath
from headwater.table.readers.stream import FileStream

_HEAD = 1 << 20  # how much text is looked at


def names_and_types(
    path: StrPath,
    *,
    format: str | None = None,  # noqa: A002 - as in Options
    delimiter: str | None = None,
) -> dict[str, str]:
    """The type of each column by its name, in Arrow's words. Text files have no types: their first lines decide."""
    inputs = Inputs(path, Options(format=format, delimiter=delimiter))
    inputs.look_first()
    source = inputs.found[0]
    if source.path is None:
        raise ValueError("standard input cannot be drafted from: name a file")
    pa = pyarrow()
    problem = f"a file that cannot be read as {source.format}"
    try:
        if source.format == "parquet":
            found = pyarrow("parquet").read_schema(source.path)
        elif source.format == "arrow":
            found = pyarrow("dataset").dataset(source.path, format="ipc").schema
        else:
            stream = FileStream(source)
            try:
                with memoryview(space := bytearray(_HEAD)) as view:
                    head = bytes(space[: stream.read_into(view)])
            finally:
                stream.close()
            if not head.strip():
                raise TableError("an empty file", "name a file with records", file=source.name)
            head = head[: head.rfind(b"\n") + 1] or head
            if source.format == "jsonl" and not all(map(_is_object, head.removeprefix(b"\xef\xbb\xbf").splitlines())):
                raise TableError(problem, "write one JSON object a line", file=source.name)
            whole = pa.BufferReader(head)
            if source.format == "csv":
                parse = pyarrow("csv").ParseOptions(delimiter=source.delimiter, newlines_in_values=True)
                found = pyarrow("csv").read_csv(whole, parse_options=parse).schema
            else:
                found = pyarrow("json").read_json(whole).schema
        return {field.name: str(field.type) for field in found}
    except (pa.ArrowException, UnicodeDecodeError):  # whose message may show values
        raise TableError(problem, "check that it is one, or say which format it has", file=source.name) from None


def _is_object(line: bytes) -> bool:
    """Whether a line is one JSON object. On other lines pyarrow's reader may end the process."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
