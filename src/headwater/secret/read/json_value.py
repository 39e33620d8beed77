"""One value of JSON as Python has it, or what is wrong with its text.

Formal guarantees
-----------------
What a text means follows from the text alone. Python's parser takes as many levels of nesting as the calls that led to
it have left; so there is a limit of our own, far below that.
"""

from __future__ import annotations

import json
import re
from typing import Any

from headwater.public.errors import TableError
from headwater.public.tables import pyarrow
from headwater.secret.read.csv_text import NOT_UTF8

DEEPEST = 128
"""Levels of nesting that a record may have."""
_MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)

_TOO_DEEP = TableError(f"a line that is nested more than {DEEPEST} levels deep", "write plain values only")


class NotJsonError(TableError):
    """A line that is not JSON. As part of an array it may be several elements, or part of one."""


_NOT_JSON: TableError = NotJsonError("a line that is not JSON", "write one JSON object a line, and no blank lines")


class Pairs(list[tuple[str, Any]]):
    """An object of JSON with its keys as they stand there, also those that stand there twice."""


class Digits(str):
    """A number of JSON as it is written."""

    __slots__ = ()


def read_value(text: bytes) -> Any:  # noqa: ANN401 - any value of JSON
    """Objects as `Pairs`, numbers as they are written; an error says first of all whether it is JSON.

    >>> read_value(b'{"a": 1.50, "a": null}')
    [('a', '1.50'), ('a', None)]
    """
    found = read_characters(text.decode("utf-8", "surrogateescape"))
    if not text.isascii() and not _is_utf8(text):
        raise NOT_UTF8.at()
    return found


def read_characters(text: str) -> Any:  # noqa: ANN401 - any value of JSON
    """The same of text in which bytes that are no UTF-8 may stand as half characters."""
    error = _NOT_JSON
    if is_deep(text):
        error = _TOO_DEEP if _is_deep_json(text) else _NOT_JSON
    else:
        try:
            return json.loads(text, object_pairs_hook=Pairs, parse_int=Digits, parse_float=Digits, parse_constant=str)
        except (ValueError, RecursionError):
            pass
    raise error.at()  # outside of the handler: its exception holds the text


def is_json(text: bytes) -> bool:
    """Whether text is JSON, of any depth, and of whatever bytes inside of its strings."""
    try:
        read_value(text)
    except TableError as error:
        return not isinstance(error, NotJsonError)
    return True


def is_deep(text: str) -> bool:
    """Whether text has more levels of brackets and braces, outside of strings, than a record may have."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    level = 0
    for found in _MARKS.finditer(text):
        mark = text[found.start()]
        level += (mark in "[{") - (mark in "]}")
        if level > DEEPEST:
            return True
    return False


def _is_deep_json(text: str) -> bool:
    """Whether text of any depth is JSON, by Arrow's parser, which needs no calls inside of calls."""
    pa, pajson = pyarrow(), pyarrow("json")
    line = b'{"":' + text.encode("utf-8", "replace") + b"}"
    reading = pajson.ReadOptions(use_threads=False, block_size=len(line) + 1)
    ignoring = pajson.ParseOptions(explicit_schema=pa.schema([]), unexpected_field_behavior="ignore")
    try:
        return bool(pajson.read_json(pa.BufferReader(line), reading, ignoring).num_rows == 1)
    except pa.ArrowInvalid:
        return False


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
