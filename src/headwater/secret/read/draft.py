"""A first draft of a schema file, for a person to fill in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import tomli_w

from headwater.public.errors import SchemaError, TableError
from headwater.public.file_options import FILE_KEYS
from headwater.public.frames import columns_of, kind_of
from headwater.public.schema_files import FORMAT
from headwater.secret.read.observe import NULLS, Observed, observe
from headwater.secret.read.sample import MOST_ROWS, Sample, sample_of

HEAD = """\
# A draft of a schema, made from the names and types of the columns and from a look at the records: at the first ones
# for how they are written, of text at the first 64 MB for gaps and for values of categories.
# Everything in it is a guess: check every kind and every note. {seen}
#
# Fill in what is left open. Take bounds from what you know: what can be measured, what a form allows, what a
# year holds. Never take them from the data: the lowest value of a column is somebody's value, and a bound is
# published. A bound that is too wide costs a little accuracy. A value beyond a bound counts as the bound
# (outside = "clip"), or its batch is refused (outside = "error"). Columns that you do not need are best left out:
# take them out here, with ignore_extra = true at the top.
# Where values may be missing, add the line: missing = true

headwater = {version}
{extra}
"""

EXTRA = "# ignore_extra = true   # leaves out what the file has and this does not name"
NAMELESS = (
    "ignore_extra = true   # leaves out what this does not name: columns without a name of their own, {} in the file"
)

UNSEEN = """No value but what stands for missing,
# and a unit that all numbers of a column share, is in here."""
SEEN = """Values of categories that were seen are
# in comments: until they are gone, this file is as secret as the data."""

ODD = """
# {}.
# A run stops at such a line, or goes on without it:
# bad_rows = "null"
"""

OPEN = {
    "number": ["# low = 0.0    # the lowest value that is possible", "# high = 1.0   # the highest"],
    "integer": ["# low = 0      # the lowest value that is possible", "# high = 100   # the highest"],
    "category": [
        'values = []   # all values that are possible, such as ["one", "another"]',
        '# other = "another"   # the one of them that takes all that are not listed; without it they are refused',
    ],
    "boolean": [],
    "datetime": [
        '# start = "2024-01-01T00:00:00ZONE"   # the earliest that is possible',
        '# end = "2024-12-31T23:59:59ZONE"     # the latest',
    ],
    "time-of-day": [],
}
"""What stands below the kind of a column; a line that is a comment is to be filled in."""

SAID = {
    "missing": "   # values were missing",
    "null_values": '   # these texts were seen; take out those that are values and do not mean "missing"',
    "decimals": "   # as many as were seen; what comes out is rounded to them",
    "format": "   # as dates are written in the data",
    "step": "   # as fine as times were seen; a coarser one is learned faster",
    "decimal": "   # as numbers are written in the data",
    "thousands": "   # as numbers are written in the data",
    "unit": "   # stands by every number in the data; it is left out",
}
"""Why a line is in the draft."""

LISTED = (
    "# SEEN IN THE DATA, to be replaced by what is known without them: a form, a code book, a law.",
    "# Values are published, and one that a single record has reveals it.",
)
MOST_LISTED = 100
"""Values of a column that are listed if that is asked for."""

TEXT = r"str|utf8|text|object|dict|categor|enum"
PATTERNS = [
    ("category", TEXT),
    ("boolean", r"bool"),
    ("number", r"duration|timedelta|interval"),
    ("datetime", r"timestamp|date"),
    ("time-of-day", r"time"),
    ("number", r"float|double|decimal|number|numeric|real"),
    ("integer", r"int|long"),
]
"""How the kind of a column shows in the name of its type, in any library; the first that fits."""


def draft(data: Any, *, values: bool = False, **options: Any) -> str:  # noqa: ANN401 - a path or a table of any library
    r"""The text of a schema file (TOML) with bounds left open, from a table or the first records of a file.

    It proposes what is written in the data (formats, decimals, texts that mean "missing") and warns of columns that
    should be left out. It never proposes bounds: those must come from what is known without the data; and values of
    categories only if it is asked to, as comments that say so.

    Parameters
    ----------
    data
        A path, a data frame, an Arrow table, a dictionary of columns or a list of records.
    values
        Also list the values of categories that were seen, as comments, to be checked against what is known without the
        data. The draft is then as secret as the data.
    options
        How to read a file: ``format``, ``delimiter``, ``encoding``. The draft declares them.

    Examples
    --------
    >>> print("\n".join(draft({"weight": ["70.5", "NA"]}).rstrip().split("\n")[-6:]))
    kind = "number"
    # low = 0.0    # the lowest value that is possible
    # high = 1.0   # the highest
    null_values = ["NA"]   # these texts were seen; take out those that are values and do not mean "missing"
    missing = true   # values were missing
    decimals = 1   # as many as were seen; what comes out is rounded to them
    """
    if isinstance(data, str | os.PathLike):
        found = sample_of(data, NULLS, **options)
        read = {**options, **found.reading}
        given = {key: read[name] for key, name in FILE_KEYS.items() if read.get(name)}
        return draft_schema(found.columns, odd=found.odd, reading=given, values=values, nameless=found.nameless)
    return draft_schema(_of_table(data), values=values)


def draft_schema(
    types: Mapping[str, object],
    *,
    odd: TableError | None = None,
    reading: Mapping[str, Any] | None = None,
    values: bool = False,
    nameless: int = 0,
) -> str:
    """The text of a schema file (TOML) with bounds left open, for a person to fill in."""
    if not types:
        raise SchemaError("there are no columns to draft a schema for", "give the type of each column by its name")
    found = {name: _observed(name, type_, None) for name, type_ in types.items()}
    points = {one.point for one in found.values() if one.point}
    if len(points) == 1:  # a file is written in one way
        doubtful = [name for name, one in found.items() if one.doubtful]
        found |= {name: _observed(name, types[name], next(iter(points))) for name in doubtful}
    return (
        HEAD.format(
            seen=SEEN if values else UNSEEN, version=FORMAT, extra=NAMELESS.format(nameless) if nameless else EXTRA
        )
        + tomli_w.dumps(dict(reading or {}))
        + "".join(_line(key, value) + "\n" for key, value in _shared(found).items())
        + (ODD.format(odd) if odd else "")
        + "".join(f"\n{_column(name, type_, found[name], values=values)}\n" for name, type_ in types.items())
    )


def _shared(found: Mapping[str, Observed]) -> dict[str, Any]:
    """What several columns declare alike: said once, it also holds for columns in which it comes later."""
    seen = [text for one in found.values() for text in one.declared.get("null_values", ())]
    nulls = [text for text in dict.fromkeys(seen) if seen.count(text) > 1]
    for one in found.values():
        if set(one.declared.get("null_values", ())) <= set(nulls):
            one.declared.pop("null_values", None)
    shared: dict[str, Any] = {"null_values": nulls} if nulls else {}
    commas = [one for one in found.values() if one.declared.get("decimal") == ","]
    if len(commas) > 1 and all(one.point in (None, ",") and not one.doubtful for one in found.values()):
        shared["decimal"] = ","
        for one in commas:
            del one.declared["decimal"]
    return shared


def _of_table(table: Any) -> dict[str, Sample]:  # noqa: ANN401 - of any library
    kind = kind_of(table)
    if kind == "numpy":
        raise TableError("an array, which has no column names", "give a dictionary of columns or a data frame")
    records = [table] if kind == "records" and isinstance(table, Mapping) else table
    if kind == "records":
        for row, record in enumerate(records[:MOST_ROWS]):
            if not isinstance(record, Mapping):
                raise TableError("a list of something else than records", "give a list of dictionaries", row=row)
        names = list(dict.fromkeys(name for record in records[:MOST_ROWS] for name in record))
        return {name: _sample([record.get(name) for record in records[:MOST_ROWS]]) for name in names}
    names = list(table if kind == "columns" else table.schema.names if kind.startswith("arrow") else table.columns)
    columns, _ = columns_of(table, names) if names else ({}, 0)
    return {str(name): _sample(column) for name, column in columns.items()}


def _sample(column: Any) -> Sample:  # noqa: ANN401 - of any library
    first = column[:MOST_ROWS]
    values = list(getattr(first, "to_pylist", getattr(first, "tolist", lambda: list(first)))())
    type_ = getattr(column, "dtype", getattr(column, "type", None))
    there = {type(value) for value in values if value is not None}
    if type_ is None:
        type_ = next(iter(there)).__name__ if len(there) == 1 else "text"
    return Sample("text" if there == {str} else str(type_), values)


def _kind(type_: object) -> tuple[str, str]:
    text = type_.type if isinstance(type_, Sample) else type_.__name__ if isinstance(type_, type) else str(type_)
    text = text.lower()
    return next((kind for kind, pattern in PATTERNS if re.search(pattern, text)), "category"), text


def _observed(name: str, type_: object, point: str | None) -> Observed:
    kind, text = _kind(type_)
    if not isinstance(type_, Sample):
        return Observed(kind)
    return observe(name, type_.values, None if re.search(TEXT, text) else kind, point=point)


def _column(name: str, type_: object, found: Observed, *, values: bool) -> str:
    kind, text = _kind(type_)
    lines = tomli_w.dumps({"columns": {name: {"kind": found.kind}}}).rstrip().split("\n")
    if kind == "number" and re.search(PATTERNS[2][1], text):
        found.notes.append("A time span: turn it into a number first, such as seconds.")
    zoned = found.declared.pop("zoned", False) or re.search(r"tz|time_zone='|utc|, [a-z]+/", text)
    day = re.fullmatch(r"date(32|64)?(\[day\])?(\[pyarrow\])?", text)
    if found.kind in ("datetime", "time-of-day"):
        found.declared.setdefault("step", "1d" if day else "1s")
    lines += [f"# {note}" for note in found.notes]
    lines += [line.replace("ZONE", "+00:00" if zoned else "") for line in OPEN[found.kind]]
    if values and found.kind == "category" and isinstance(type_, Sample):
        lines += _listed(type_, found)
    lines += [_line(key, value) for key, value in found.declared.items()]
    return "\n".join(lines + found.proposed)


def _listed(sample: Sample, found: Observed) -> list[str]:
    texts = {value for value in sample.values if isinstance(value, str) and value.strip()} - set(found.nulls)
    if not texts or len(texts) > MOST_LISTED or any("leave it out" in note for note in found.notes):
        return []
    return [*LISTED, f"# values = {_array(sorted(texts))}"]


def _line(key: str, value: Any) -> str:  # noqa: ANN401 - any value of TOML
    return (f"{key} = {_array(value)}" if isinstance(value, list) else tomli_w.dumps({key: value}).strip()) + SAID[key]


def _array(values: list[Any]) -> str:
    return "[" + ", ".join(tomli_w.dumps({"v": one})[4:].strip() for one in values) + "]"
