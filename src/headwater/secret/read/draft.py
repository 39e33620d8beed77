"""A first draft of a schema file, for a person to fill in.

What kind a column is, is which kind reads all that was seen of it (`Column.read`). Everything found is a guess for a
person to check. Of the data nothing is in a draft but names of formats, texts that commonly mean "missing", units that
several numbers share, and numbers of decimals and of values; values of categories only if that is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import tomli_w

from headwater.public.columns import Column
from headwater.public.errors import SchemaError, TableError
from headwater.public.moments import Datetime, TimeOfDay, microseconds
from headwater.public.numbers import Integer, Number
from headwater.public.schema import FILE_KEYS, FORMAT
from headwater.public.tables import Array, columns_of, is_missing, kind_of
from headwater.public.writing import (
    COMMA,
    DATE,
    DATE_FORMATS,
    DAY_CLOCKS,
    MARKS,
    MEASURE,
    NULLS,
    POINT,
    TIME_NAME,
    UNIT,
)
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
    "decimals": "   # to be confirmed: all {read} values that were read have no more, and others are rounded",
    "format": "   # as dates are written in the data",
    "step": "   # to be confirmed: as fine as all {read} times that were read; a coarser one is learned faster",
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


ZONED = "0001-01-02T00:00:00+00:00", "9999-12-30T00:00:00+00:00"
"""Bounds of any time with a zone."""

_PERSON = re.compile(
    r"(^|[_\W])(id|uuid|guid|ssn|e?mail|phone|mobile|passport|iban|nhs|mrn|ip|user|login|name|surname|firstname|lastname)"
    r"($|[_\W])|(?-i:[a-z]Id$)|(first|last|user|full)_?name",
    re.IGNORECASE,
)
_FAR = (
    "Its {} value comes often and is unlike all others: if it stands for missing, take such texts into",
    'null_values, as in null_values = ["-999"].',
)
_STEPS = ("1d", "1h", "1min", "1s", "1ms")
_MOST_DECIMALS = 12  # that are proposed
_FEW = 20  # values, below which nothing is said of them
_GROWS = (
    "Grows with the file, so it says little but when a record arrived, and errors are larger than expected with it:",
    "better leave it out, or declare only what comes again, such as the weekday of a time (a derived column).",
)
_RISING = 0.9  # the correlation of values with their place in the file from which on they are taken to grow with it


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
    decimals = 1   # to be confirmed: all 1 values that were read have no more, and others are rounded
    """
    if not isinstance(data, str | os.PathLike):
        return _schema(_of_table(data), values=values)
    found = sample_of(data, NULLS, **options)
    read = {**options, **found.reading}
    given = {key: read[name] for key, name in FILE_KEYS.items() if read.get(name)}
    return _schema(found.columns, values=values, odd=found.odd, reading=given, nameless=found.nameless)


def _schema(
    columns: Mapping[str, Sample],
    *,
    values: bool,
    odd: TableError | None = None,
    reading: Mapping[str, Any] | None = None,
    nameless: int = 0,
) -> str:
    """The text of a schema file; ``odd`` is what is wrong with the first line that is no record."""
    if not columns:
        raise SchemaError("there are no columns to draft a schema for", "give a table that has some")
    found = {name: _drafted(name, sample) for name, sample in columns.items()}
    points = {one.point for one in found.values() if one.point}
    if len(points) == 1:  # a file is written in one way
        doubtful = [name for name, one in found.items() if one.doubtful]
        found |= {name: _drafted(name, columns[name], next(iter(points))) for name in doubtful}
    shared = _shared(found)
    extra = NAMELESS.format(nameless) if nameless else EXTRA
    return (
        HEAD.format(seen=SEEN if values else UNSEEN, version=FORMAT, extra=extra)
        + tomli_w.dumps(dict(reading or {}))
        + "".join(_line(key, value) + "\n" for key, value in shared.items())
        + (ODD.format(odd) if odd else "")
        + "".join(f"\n{_lines(name, columns[name], one, values=values)}\n" for name, one in found.items())
    )


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


def _kind(sample: Sample) -> tuple[str, str]:
    text = sample.type.lower()
    return next((kind for kind, pattern in PATTERNS if re.search(pattern, text)), "category"), text


@dataclass
class _Draft:
    """What was found out about a column, and what to declare of it."""

    kind: str = "category"
    declared: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    """More lines of a schema file: those that are comments a person may want to take."""
    point: str | None = None
    """What surely comes before decimals: other columns of the same file are written alike."""
    doubtful: bool = False
    """Whether a mark in numbers may come before decimals as well as between thousands."""
    odd: list[str] = field(default_factory=list)
    """The few texts that keep a column from being numbers or times."""
    zoned: bool = False
    read: int = 0
    parts: list[str] = field(default_factory=list)
    """What can be declared as derived columns, as comments."""


def _drafted(name: str, sample: Sample, point: str | None = None) -> _Draft:
    """What a column seems to be, given what comes before decimals in other ones, if that is known."""
    kind, type_ = _kind(sample)
    found = [None if is_missing(value) else value for value in sample.values]
    texts = [value.strip() for value in found if isinstance(value, str) and value.strip()]
    seen, is_text = _Draft(kind, point=point), re.search(TEXT, type_) is not None
    gone = any(value is None or (isinstance(value, str) and not value.strip()) for value in found)
    if is_text:
        there = set(texts)
        nulls = [text for text in NULLS if text in there]
        texts = [text for text in texts if text not in nulls]
        if nulls:
            seen.declared["null_values"] = nulls
        seen.kind = "category"
        if texts:
            _judge_text(name, texts, seen)
    if gone or "null_values" in seen.declared:
        seen.declared["missing"] = True
    values: list[Any] = texts if is_text else [value for value in found if value is not None]
    seen.read = len(values)
    if seen.kind in ("integer", "number") and not is_text and values and TIME_NAME.search(name):
        _judge_epoch([float(value) for value in values], seen)
    if seen.kind == "number" and re.search(PATTERNS[2][1], type_):
        seen.notes.append("A time span: turn it into a number first, such as seconds.")
    elif seen.kind in ("number", "integer") and values:
        _judge_numbers(seen, values)
    if seen.kind in ("datetime", "time-of-day"):
        seen.zoned = seen.zoned or re.search(r"tz|time_zone='|utc|, [a-z]+/", type_) is not None
        _judge_times(seen, values)
        if re.fullmatch(r"date(32|64)?(\[day\])?(\[pyarrow\])?", type_):
            seen.declared["step"] = "1d"
    _judge_identity(name, seen, values)
    return seen


def _reads(column: Column, texts: Iterable[str]) -> bool:
    few = list(texts)
    return not column.read(few[:9]).bad and not column.read(few).bad


def _judge_text(name: str, texts: list[str], seen: _Draft) -> None:
    distinct = set(texts)
    if all(text.lower() in ("true", "false", "yes", "no", "t", "f") for text in distinct):
        seen.kind = "boolean"
    elif _reads(Integer(), distinct):
        _judge_whole(name, distinct, seen)
        _judge_point(distinct, seen)
    elif _reads(Number(), distinct):
        seen.kind = "number"
        _judge_point(distinct, seen)
    elif any(text[0].isdigit() or text[0] in "+-" or DATE.search(text) or MEASURE.match(text) for text in distinct):
        _judge_written(distinct, seen)
        if seen.kind == "category":
            _judge_few(texts, seen)


def _judge_few(texts: list[str], seen: _Draft) -> None:
    """Say how few values keep a column from being numbers or times."""
    kinds = [Number(), Number(decimal=","), Number(thousands=","), Number(decimal=",", thousands="."), Datetime()]
    few = min((sorted(column.read(texts).rows().bad) for column in kinds), key=len)
    if 0 < len(few) <= len(texts) / 10:
        seen.odd = sorted({texts[row] for row in few})
        seen.notes = [
            f"{len(few):,} of {len(texts):,} values that were read keep it from being numbers or times: if they"
        ]
        seen.notes += ["mean that there is none, take such texts into null_values and draft it again without them."]


def _judge_whole(name: str, texts: set[str], seen: _Draft) -> None:
    seen.kind = "integer"
    if any(text.lstrip("+-").startswith("0") and text.lstrip("+-").strip("0.") for text in texts):
        seen.kind = "category"
        seen.notes.append("Digits with zeros in front: taken for a code. If they are numbers, declare integer.")
    elif TIME_NAME.search(name):
        _judge_epoch([float(text) for text in texts], seen)
        if _reads(Datetime(format="%Y%m%d"), texts) and all(1900 <= int(text[:4]) < 2100 for text in texts):
            seen.kind, seen.declared["format"] = "datetime", "%Y%m%d"


def _judge_epoch(numbers: list[float], seen: _Draft) -> None:
    """Whether numbers of a column whose name is that of a time count from 1970 on."""
    for format_, scale in (("epoch-s", 1.0), ("epoch-ms", 1e3), ("epoch-us", 1e6)):
        if all(4e8 * scale < number < 3e9 * scale for number in numbers):
            seen.kind, seen.declared["format"] = "datetime", format_


def _judge_written(texts: set[str], seen: _Draft) -> None:
    """Numbers and dates in one of many ways; where several fit, all are named."""
    clocks: list[Any] = [TimeOfDay()] if all(":" in text for text in texts) else []  # 2016,5 is a number
    clocks += [TimeOfDay(format=format_) for format_ in DAY_CLOCKS]
    for column in (Datetime(), Datetime(*ZONED), *clocks):
        if _reads(column, texts):
            seen.kind, seen.zoned = column.kind, getattr(column, "zoned", False)
            seen.declared |= {"format": column.format} if column.format else {}
            return
    formats = [f for f in DATE_FORMATS if _reads(Datetime(*(ZONED if "%z" in f else ()), format=f), texts)]
    if formats:
        seen.kind, seen.declared["format"], seen.zoned = "datetime", formats[0], "%z" in formats[0]
        if len(formats) > 1:
            others = ", ".join(f'"{format_}"' for format_ in formats[1:])
            seen.notes.append(f"The format is not sure: the dates seen can also be read as {others}.")
        return
    marks = [(point, mark) for point, mark in MARKS if _reads(Number(decimal=point, thousands=mark), texts)]
    if marks:
        both = marks[:2] == [(".", ","), (",", None)]
        decimal, thousands = marks[1] if both and (seen.point == "," or _ungrouped(texts)) else marks[0]
        seen.kind = "integer" if _reads(Integer(decimal=decimal, thousands=thousands), texts) else "number"
        seen.declared |= {"decimal": decimal} if decimal != "." else {}
        seen.declared |= {"thousands": thousands} if thousands else {}
        seen.doubtful = both and thousands is not None and seen.point is None
        seen.notes += COMMA if seen.doubtful else ()
        seen.point = seen.point if seen.doubtful else decimal
    elif sum(bool(DATE.search(text)) for text in texts) > len(texts) / 2:
        seen.notes.append("Looks like dates, in none of the formats that are tried, or in several: write them alike,")
        seen.notes.append('and declare kind = "datetime" with their format.')
    elif all(MEASURE.fullmatch(text) for text in texts):
        _judge_measures(texts, seen)


def _judge_measures(texts: set[str], seen: _Draft) -> None:
    """Numbers with a sign or a unit: if several share it, they are read without it; what one has may name somebody."""
    units = {UNIT.sub("", text) for text in texts}
    if len(texts) == 1:
        seen.notes.append("Looks like a number with a sign or a unit: declare a number and its unit.")
        return
    if len(units) == 1:
        unit = units.pop()
        plain = {Number(unit=unit).without_unit(text) for text in texts}
        inner = _Draft(point=seen.point)
        if not plain & texts:
            _judge_text("", list(plain), inner)
        if inner.kind in ("number", "integer"):
            seen.kind, seen.point, seen.doubtful = inner.kind, inner.point, inner.doubtful
            seen.declared |= inner.declared | {"unit": unit}
            seen.notes += inner.notes
            return
    seen.notes.append("Looks like numbers with signs or units, not all alike: write them alike, and declare a number")
    seen.notes.append("and its unit.")


def _judge_point(texts: set[str], seen: _Draft) -> None:
    """Say so where what is read as decimals can be thousands, and is not known from other columns."""
    if seen.kind not in ("number", "integer") or not any("." in text for text in texts):
        return
    if not _reads(Number(decimal=",", thousands="."), texts) or _ungrouped(texts):
        seen.point = "."
    elif seen.point == ",":
        seen.kind = "integer"
        seen.declared |= {"decimal": ",", "thousands": "."}
    elif seen.point is None:
        seen.doubtful = True
        seen.notes += POINT


def _ungrouped(texts: set[str]) -> bool:
    return any(re.match(r"[+-]?\d{4}", text) for text in texts)


def _judge_numbers(seen: _Draft, values: list[Any]) -> None:
    """Rounding, codes for missing values, and a logarithmic scale."""
    in_order = [number for number in (_exact(value, seen) for value in values) if number is not None]
    numbers = sorted(in_order)
    if not numbers:
        return
    if _rises(np.array([float(number) for number in in_order])):
        seen.notes += _GROWS
    seen.notes += [line.format(side) for side in _far_ends(numbers) for line in _FAR]
    decimals = max(max(0, -int(number.normalize().as_tuple().exponent)) for number in numbers)
    few = len(numbers) // 20  # that are very large
    larger = max(abs(numbers[few]), abs(numbers[len(numbers) - 1 - few]))
    digits = max(0, 5 - larger.adjusted()) if larger else 6
    if seen.kind == "number" and decimals <= 6:
        seen.declared["decimals"] = decimals
    elif seen.kind == "number" and digits <= _MOST_DECIMALS:
        seen.proposed.append(f"decimals = {digits}   # about six significant digits; more were seen")
    positive = [number for number in numbers if number > 0]
    hundredth = len(positive) // 100
    if numbers[0] >= 0 and len(positive) >= _FEW and positive[-hundredth - 1] > 1000 * positive[hundredth]:
        needs = "needs a low above 0" + (", as which 0 counts: it was seen" if numbers[0] == 0 else "")
        needs += ', with kind = "number" and decimals = 0' if seen.kind == "integer" else ""
        seen.proposed.append(f'# scale = "log"   # the values span orders of magnitude; {needs}')


def _exact(value: Any, seen: _Draft) -> Decimal | None:  # noqa: ANN401 - text or a number
    """A number with all its digits; None for one that cannot be computed with."""
    if isinstance(value, str):
        mark, point = seen.declared.get("thousands"), seen.declared.get("decimal", ".")
        text = Number(unit=seen.declared.get("unit")).without_unit(value)
        value = (text.replace(mark, "") if mark else text).replace(point, ".")
    with suppress(ArithmeticError):
        number = Decimal(repr(value) if isinstance(value, float) else str(value))
        return number if number.is_finite() and abs(number.adjusted()) < 300 else None
    return None


def _far_ends(numbers: list[Decimal]) -> list[str]:
    """Which ends of some sorted numbers are one value that comes often and is unlike the others."""
    found = []
    for side, ends in (("lowest", numbers), ("highest", [-number for number in reversed(numbers)])):
        others = [number for number in ends if number != ends[0]]
        often = len(ends) - len(others) >= max(2, len(ends) / 1000)
        if ends[0] and often and len(others) >= _FEW and others[0] < others[-1]:
            far, alone = others[0] - ends[0] > others[-1] - others[0], ends[0] < 0 <= others[0]
            found += [side] if far or alone else []
    return found


def _judge_times(seen: _Draft, values: list[Any]) -> None:
    """How fine times are: whole days, hours, minutes or seconds; and whether they are those of the file itself."""
    seen.declared["step"], written = "1s", seen.declared.get("format")
    zones: tuple[tuple[str, ...], ...] = ((), ZONED)
    is_clock = seen.kind == "time-of-day"
    for column in [TimeOfDay(format=written)] if is_clock else [Datetime(*zone, format=written) for zone in zones]:
        found = column.read(values).rows()
        if len(values) and not found.bad:
            steps = [step for step in _STEPS if not (found.numbers % microseconds(step)).any()]
            seen.declared["step"] = (steps or ["1us"])[0]
            seen.zoned = seen.zoned or getattr(column, "zoned", False)
            seen.notes += _GROWS if seen.kind == "datetime" and _rises(found.numbers) else ()
            seen.parts = ["weekday", "month", *(["hour"] if seen.declared["step"] != "1d" else [])]
            return


def _rises(numbers: Array) -> bool:
    _, ranks = np.unique(numbers, return_inverse=True)
    if len(ranks) < _FEW or not ranks.any():
        return False
    return bool(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] > _RISING)


def _judge_identity(name: str, seen: _Draft, values: list[Any]) -> None:
    """Columns that should be left out."""
    if seen.kind in ("category", "integer") and not seen.odd:
        try:
            distinct = len(set(values))
        except TypeError:
            seen.notes.append("Holds lists or records: take plain values out of them first, or leave the column out.")
            return
        sentences = sum(str(value).count(" ") for value in values) > 2 * len(values)
        if len(values) >= _FEW and distinct == len(values):
            what = "an identifier or free text" if seen.kind == "category" else "perhaps an identifier"
            seen.notes.append(f"All values seen are different: {what}. Nothing can be learned of it: leave it out.")
        elif seen.kind == "category" and distinct > max(100, len(values) / 5) and sentences:
            seen.notes.append(
                "Looks like free text: nothing can be learned of it, and it may name people: leave it out."
            )
        elif seen.kind == "integer" and len(values) >= _FEW and {str(value) for value in values} == {"0", "1"}:
            seen.notes.append('Only 0 and 1 were seen: if they mean no and yes, declare kind = "boolean".')
        elif seen.kind == "category" and distinct > 100:
            seen.notes.append("More than 100 values were seen: list those that matter, and declare other for the rest.")
    if _PERSON.search(name.rpartition(".")[2]):  # of what is inside of a user, not all is its name
        seen.notes.append("Its name sounds like a person's name, number or address: leave it out unless it is none.")
        seen.notes.append("If it says who a record belongs to, leave it out here and name it by --person in the run.")


def _shared(found: Mapping[str, _Draft]) -> dict[str, Any]:
    """What several columns declare alike: said once, it also holds for columns in which it comes later."""
    others = [one for one in found.values() if one.kind != "category"]
    seen = [text for one in others for text in one.declared.get("null_values", ())]
    nulls = [text for text in dict.fromkeys(seen) if seen.count(text) > 1]
    for one in others:
        if set(one.declared.get("null_values", ())) <= set(nulls):
            one.declared.pop("null_values", None)
    for one in found.values():
        if nulls and one.kind == "category":
            one.declared = {"null_values": [], **one.declared}
    shared: dict[str, Any] = {"null_values": nulls} if nulls else {}
    commas = [one for one in others if one.declared.get("decimal") == ","]
    if len(commas) > 1 and all(one.point in (None, ",") and not one.doubtful for one in found.values()):
        shared["decimal"] = ","
        for one in commas:
            del one.declared["decimal"]
    return shared


def _lines(name: str, sample: Sample, found: _Draft, *, values: bool) -> str:
    """The table of a column."""
    lines = tomli_w.dumps({"columns": {name: {"kind": found.kind}}}).rstrip().split("\n")
    lines += [f"# {note}" for note in found.notes]
    seen = _seen(sample, found) if values and found.kind == "category" else []
    opened = OPEN[found.kind][1 if seen and not found.odd else 0 :]  # a key that is there twice is refused
    lines += [line.replace("ZONE", "+00:00" if found.zoned else "") for line in opened] + seen
    lines += [*(_line(key, value, found.read) for key, value in found.declared.items()), *found.proposed]
    for part in found.parts if found.kind == "datetime" else ():
        how = {"from": name, "part": part} | {k: v for k, v in found.declared.items() if k in ("format", "missing")}
        how |= {"zone": "UTC"} if found.zoned else {}
        lines += [
            "",
            *(f"# {line}" for line in tomli_w.dumps({"columns": {f"{name} {part}": how}}).strip().split("\n")),
        ]
    return "\n".join(lines)


def _seen(sample: Sample, found: _Draft) -> list[str]:
    if found.odd and len(found.odd) <= MOST_LISTED:
        return [LISTED[0], f"# null_values = {_array(found.odd)}"]
    gone = set(found.declared.get("null_values", ()))
    texts = {value for value in sample.values if isinstance(value, str) and value.strip()} - gone
    if not texts or len(texts) > MOST_LISTED or any("leave it out" in note for note in found.notes):
        return []
    return [*LISTED, f"# values = {_array(sorted(texts))}"]


def _line(key: str, value: Any, read: int = 0) -> str:  # noqa: ANN401 - any value of TOML
    written = f"{key} = {_array(value)}" if isinstance(value, list) else tomli_w.dumps({key: value}).strip()
    return written + ("" if value == [] else SAID[key].format(read=f"{read:,}"))


def _array(values: list[Any]) -> str:
    return "[" + ", ".join(tomli_w.dumps({"v": one})[4:].strip() for one in values) + "]"
