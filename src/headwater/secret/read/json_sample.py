"""Records of JSON for a draft: the first ones, and what comes later of keys, gaps and values of short lists."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from headwater.public.errors import TableError
from headwater.secret.read.later_values import MOST_VALUES, beginning, short_lists
from headwater.secret.read.paths import Input


def first_records(text: str, form: str, most: int) -> dict[str, list[Any]]:
    """The values of the first records by key, None where one is missing; a list or an object is an empty one.

    Objects inside of objects have their columns by dotted names.
    """
    columns: dict[str, list[Any]] = {}
    lines = (line for line in text.split("\n") if line.strip())
    for number, line in enumerate(islice(lines, most)):
        record = _record(line)
        if record is None:
            raise TableError(f"a file that cannot be read as {form}", "write one JSON object a line")
        for name, value in _flat(record):
            columns.setdefault(name, [None] * number).append(value)
        for column in columns.values():
            column += [None] * (number + 1 - len(column))
    for name in [name for name, column in columns.items() if all(value in (None, {}) for value in column)]:
        if _holds(name, columns):  # an object that is null or empty in some records
            del columns[name]
    return columns


def later_records(
    source: Input, encoding: str | None, names: Collection[str], gaps: Collection[str]
) -> dict[str, set[Any]]:
    """As `later_values`; also for keys that are none of ``names`` because no record before had them."""
    found = {name: set[Any]() for name in names}
    with beginning(source, encoding) as lines, suppress(TableError):  # what is wrong later is reported by a run
        for line in lines:
            record = _record(line)
            if record is None:
                continue
            there = {name: value for name, value in _flat(record) if not isinstance(value, list | dict)}
            for name in there.keys() - found.keys():
                if there[name] is not None or not _holds(name, found):
                    found[name] = {None}
            for name, seen in found.items():
                value = there.get(name)
                if len(seen) <= MOST_VALUES or value is None or value in gaps:
                    seen.add(value)
    return short_lists(found, gaps)


def _record(line: str | bytes) -> dict[str, Any] | None:
    """An object, its numbers as they are written; None if the line holds none."""
    record = None
    with suppress(ValueError, RecursionError):
        record = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    return record if isinstance(record, dict) else None


def _holds(name: str, names: Iterable[str]) -> bool:
    """Whether an object of this name has columns in it."""
    return any(other.startswith(f"{name}.") for other in names)


def _flat(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    parts = [("", record)]
    for prefix, inner in parts:  # which grows
        for key, value in inner.items():
            if isinstance(value, dict) and value and prefix.count(".") < 8:
                parts.append((f"{prefix}{key}.", value))
            elif isinstance(value, list | dict):
                yield prefix + key, [] if value else {}
            else:
                yield prefix + key, str(value).lower() if isinstance(value, bool) else value
