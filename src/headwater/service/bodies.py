"""Bodies of requests as tables: the only place that knows which content type is read by which reader."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from headwater.public.errors import TableError
from headwater.secret.read.batch import Batch
from headwater.secret.read.json_lines import is_json
from headwater.secret.read.lines import ArrayLines
from headwater.secret.read.source import read_bytes
from headwater.service.problems import ProblemError

CONTENT_TYPES = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.parquet": "parquet",
}
"""The format of each content type that is taken."""


class Form(NamedTuple):
    """What a content type says of a body.

    Parameters
    ----------
    format
        One of `CONTENT_TYPES`; ``"rows"`` of records that were encoded before.
    encoding
        Of CSV, if the content type says it; otherwise as the schema declares it for files.
    """

    format: str
    encoding: str | None = None

    @property
    def name(self) -> str:
        """The text that stands for it in what is kept of a post, so that a retry is known again."""
        return self.format if self.encoding is None else f"{self.format} {self.encoding}"


_WHITE = " \t\r\n"


def form_of(content_type: str) -> Form:
    """What a content type says, or a 415."""
    kind, _, option = (part.strip().replace('"', "") for part in content_type.lower().partition(";"))
    if kind not in CONTENT_TYPES or option not in ("", "charset=utf-8", "header=present"):
        raise ProblemError(415, f"send one of {', '.join(CONTENT_TYPES)} as Content-Type, text as UTF-8")
    format_ = CONTENT_TYPES[kind]
    return Form(format_, "utf-8" if format_ == "csv" and option == "charset=utf-8" else None)


def decompressed(body: bytes, encoding: str, most: int) -> bytes:
    """A body without its Content-Encoding, or a problem; never more than ``most`` bytes are made."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in ("gzip", "deflate"):
        raise ProblemError(415, "send the body as it is, or with Content-Encoding: gzip")
    engine = zlib.decompressobj(wbits=47 if name == "gzip" else 15)
    try:
        found = engine.decompress(body, most + 1)
    except zlib.error:
        raise ProblemError(400, "the body is not compressed as Content-Encoding says") from None
    if len(found) > most:
        raise ProblemError(413, f"a body may have at most {most:,} bytes when it is decompressed; send several")
    if not engine.eof or engine.unused_data:
        raise ProblemError(400, "the compressed body is cut short, or something follows it")
    return found


def lines_of(body: bytes) -> bytes:
    """A JSON array of objects, or one object, as JSON lines; every value stays as it is written.

    What is wrong with one element is a matter of its line, as long as it is JSON: text that is not UTF-8, or that is
    nested too deeply for Python's parser.
    """
    spans, after = None, 0
    try:
        text = body.decode()
        start = _skip(text, 0)
        if text[start : start + 1] == "{":
            spans = [(start, _end(text, start))]
            after = spans[0][1]
        else:
            spans, after = _elements(text, start)
    except (UnicodeDecodeError, ValueError, RecursionError):
        pass
    if spans is None:  # outside of the handler: its exception holds the text
        return _lines_by_brackets(body)
    if _skip(text, after) != len(text):
        raise TableError("something after the end of the JSON", "send one JSON array of objects, or one object")
    # A line end can only be between tokens: inside a string JSON writes it as \n.
    flat = (text[start:end].replace("\n", " ").replace("\r", " ") for start, end in spans)
    return "\n".join(flat).encode()


def _elements(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    if text[start : start + 1] != "[":
        raise ValueError("no array")
    found = list[tuple[int, int]]()
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        end = _end(text, at)
        found.append((at, end))
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            return found, at + 1
        if text[at : at + 1] != ",":
            raise ValueError("no comma")
        at = _skip(text, at + 1)


# Numbers stay as they are written: Python makes no number of more than some thousand digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def _end(text: str, start: int) -> int:
    return _DECODER.raw_decode(text, start)[1]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _WHITE:
        at += 1
    return at


def _lines_by_brackets(body: bytes) -> bytes:
    """The same without a parser: slower, and for text of any depth and any bytes."""
    text = body.strip(_WHITE.encode())
    single = text.startswith(b"{")
    found = ArrayLines().convert(b"[" + text + b"]" if single else text, final=True)
    lines = found.removesuffix(b"\n").split(b"\n")
    if not text.startswith((b"[", b"{")) or (single and len(lines) > 1) or not all(map(is_json, lines)):
        raise TableError("a body that is not JSON", "send a JSON array of objects, or one object")
    return b"\n".join(lines)


def batches(body: bytes, form: Form, schema: Any, most: int, **reading: Any) -> Iterator[Batch]:  # noqa: ANN401
    """The records of a body, or an error that names row and column and never a value.

    CSV is divided and encoded as the schema declares it for files; a content type that says UTF-8 wins. ``reading``
    holds ``bad_rows`` and ``ignore_extra``, as `read_bytes` takes them.
    """
    if form.format == "csv":
        declared = getattr(schema, "reading", {})
        text = {key: declared[key] for key in ("delimiter", "encoding") if key in declared}
        reading |= text | ({"encoding": form.encoding} if form.encoding else {})
    rows = 0
    try:
        for batch in read_bytes(body, schema, form.format, **reading):
            rows += batch.records
            if rows > most:
                raise ProblemError(413, f"one request may hold at most {most:,} records; send several")
            yield batch
    except MemoryError:
        raise ProblemError(413, "the body needs more memory than this service has; send smaller ones") from None
