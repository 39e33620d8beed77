"""A first draft of a schema file, for a person to fill in.

What kind a column is, is which kind reads all that was seen of it (`Column.read`). Everything found is a guess for a
person to check. Of the data nothing is in a draft but names of formats, texts that commonly mean "missing", units that
several numbers share, and numbers of decimals and of values; values of categories only if that is asked for.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tomli_w

from headwater.public.columns import Column
from headwater.public.errors import SchemaError
from headwater.public.moments import Datetime, TimeOfDay, microseconds
from headwater.public.numbers import Integer, Number
from headwater.public.schema import FILE_KEYS, FORMAT
from headwater.public.tables import Array, is_missing
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
from headwater.secret.read.sample import Sample, sample_of, sample_of_table

HEAD = """\
# A draft of a schema, made from the names and types of the columns and from a look at the records: at the first ones
# for how they are written, of text at the first 64 MB for gaps.
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
SPAN = r"duration|timedelta|interval"
KINDS = [
    ("category", TEXT),
    ("boolean", r"bool"),
    ("number", SPAN),
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
_STEPS = ("1d", "1h", "1min", "1s", "1ms", "1us")
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
    is_path = isinstance(data, str | os.PathLike)
    found = sample_of(data, **options) if is_path else sample_of_table(data)
    if not found.columns:
        raise SchemaError("there are no columns to draft a schema for", "give a table that has some")
    read = {**options, **found.reading} if is_path else {}
    top = {key: read[name] for key, name in FILE_KEYS.items() if read.get(name)}
    extra = NAMELESS.format(found.nameless) if found.nameless else EXTRA
    head = HEAD.format(seen=SEEN if values else UNSEEN, version=FORMAT, extra=extra) + tomli_w.dumps(top)
    head += ODD.format(found.odd) if found.odd else ""
    columns = [_column(name, sample, values=values) for name, sample in found.columns.items()]
    return head + "".join(f"\n{lines}\n" for lines in columns)


@dataclass
class _Draft:
    """What was found out about a column, and what to declare of it."""

    kind: str
    declared: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    """More lines of a schema file."""
    zoned: bool = False


def _column(name: str, sample: Sample, *, values: bool) -> str:
    """The table of a column in a schema file."""
    type_ = sample.type.lower()
    seen = _Draft(next((kind for kind, pattern in KINDS if re.search(pattern, type_)), "category"))
    found = [None if is_missing(value) else value for value in sample.values]
    there = [value for value in found if value is not None]
    gone = len(there) < len(found)
    if re.search(TEXT, type_):
        texts = [value.strip() for value in there if isinstance(value, str)]
        seen.kind, nulls = "category", [text for text in NULLS if text in set(texts)]
        gone = gone or "" in texts or bool(nulls)
        seen.declared |= {"null_values": nulls} if nulls else {}
        there = [text for text in texts if text not in ("", *nulls)]
        if there:
            _judge_text(there, seen)
    seen.declared |= {"missing": True} if gone else {}
    if re.search(SPAN, type_):
        seen.notes.append("A time span: turn it into a number first, such as seconds.")
    elif seen.kind in ("number", "integer") and there:
        _judge_numbers(name, there, seen)
    if seen.kind in ("datetime", "time-of-day"):
        _judge_times(there, seen)
        seen.declared |= {"step": "1d"} if re.fullmatch(r"date(32|64)?(\[day\])?(\[pyarrow\])?", type_) else {}
    _judge_identity(name, there, seen)
    lines = tomli_w.dumps({"columns": {name: {"kind": seen.kind}}}).rstrip().split("\n")
    lines += [f"# {note}" for note in seen.notes]
    listed = _listed(there, seen) if values else []
    opened = OPEN[seen.kind][1 if listed else 0 :]  # a key that is there twice is refused
    lines += [line.replace("ZONE", "+00:00" if seen.zoned else "") for line in opened] + listed
    return "\n".join([*lines, *(_line(key, value, len(there)) for key, value in seen.declared.items()), *seen.proposed])


def _listed(values: list[Any], seen: _Draft) -> list[str]:
    texts = {value for value in values if isinstance(value, str)} if seen.kind == "category" else set[str]()
    if (
        not texts
        or len(texts) > MOST_LISTED
        or any(re.search("leave it out|draft it again", note) for note in seen.notes)
    ):
        return []
    return [*LISTED, f"# values = {_array(sorted(texts))}"]


def _line(key: str, value: Any, read: int) -> str:  # noqa: ANN401 - any value of TOML
    written = f"{key} = {_array(value)}" if isinstance(value, list) else tomli_w.dumps({key: value}).strip()
    return written + SAID[key].format(read=f"{read:,}")


def _array(values: list[Any]) -> str:
    return "[" + ", ".join(tomli_w.dumps({"v": one})[4:].strip() for one in values) + "]"


# ---- text


def _reads(column: Column, texts: Iterable[str]) -> bool:
    few = list(texts)
    return not column.read(few[:9]).bad and not column.read(few).bad


def _judge_text(texts: list[str], seen: _Draft) -> None:
    distinct = set(texts)
    if all(text.lower() in ("true", "false", "yes", "no", "t", "f") for text in distinct):
        seen.kind = "boolean"
        return
    measures = all(MEASURE.fullmatch(text) for text in distinct)
    units = {UNIT.sub("", text) for text in distinct} if measures and len(distinct) > 1 else set[str]()
    if _are_numbers(distinct, seen) or _are_times(distinct, seen):
        return
    if len(units) == 1 and _are_numbers(distinct, seen, units.pop()):  # what one value has may name somebody
        return
    if sum(bool(DATE.search(text)) for text in distinct) > len(distinct) / 2:
        seen.notes.append("Looks like dates, in none of the formats that are tried, or in several: write them alike,")
        seen.notes.append('and declare kind = "datetime" with their format.')
    elif measures:
        seen.notes.append(
            "Looks like numbers with signs or units: write them alike, and declare a number and its unit."
        )
    kinds = [Number(), Number(decimal=","), Number(thousands=","), Number(decimal=",", thousands="."), Datetime()]
    few = min(len(column.read(texts).rows().bad) for column in kinds)
    if few <= len(texts) / 10:
        seen.notes.append(f"{few:,} of {len(texts):,} values that were read keep it from being numbers or times: if")
        seen.notes.append("they mean that there is none, take such texts into null_values and draft it again.")


def _are_numbers(texts: set[str], seen: _Draft, unit: str | None = None) -> bool:
    """Whether a way of writing numbers fits all texts; where several do, what is not sure is said."""
    ways = [one for one in ((".", None), *MARKS) if _reads(Number(decimal=one[0], thousands=one[1], unit=unit), texts)]
    if not ways:
        return False
    grouped = not any(re.match(r"\D*\d{4}", text) for text in texts)
    comma = ways[:2] == [(".", ","), (",", None)]
    decimal, thousands = ways[1] if comma and not grouped else ways[0]
    whole = Integer(decimal=decimal, thousands=thousands, unit=unit)
    seen.kind = "integer" if _reads(whole, texts) else "number"
    if seen.kind == "integer" and any(re.match(r"[+-]?0[0.]*[1-9]", text) for text in texts):
        seen.kind = "category"
        seen.notes.append("Digits with zeros in front: taken for a code. If they are numbers, declare integer.")
        return True
    if grouped and comma:
        seen.notes += COMMA
    elif grouped and ways[0] == (".", None) and (",", ".") in ways and any("." in text for text in texts):
        seen.notes += POINT
    said = {"unit": unit, "thousands": thousands, "decimal": decimal if decimal != "." else None}
    seen.declared |= {key: value for key, value in said.items() if value}
    return True


def _are_times(texts: set[str], seen: _Draft) -> bool:
    """Whether a way of writing times fits all texts; where several do, all are named."""
    clocks = [TimeOfDay()] if all(":" in text for text in texts) else []  # a number is no time of day
    clocks += [TimeOfDay(format=format_) for format_ in DAY_CLOCKS]
    dates = [Datetime(*(ZONED if "%z" in one else ()), format=one) for one in DATE_FORMATS]
    ways: list[Any] = [column for column in (Datetime(), Datetime(*ZONED), *clocks) if _reads(column, texts)][:1]
    ways = ways or [column for column in dates if _reads(column, texts)]
    if not ways:
        return False
    seen.kind = ways[0].kind
    seen.declared |= {"format": ways[0].format} if ways[0].format else {}
    if len(ways) > 1:
        others = ", ".join(f'"{one.format}"' for one in ways[1:])
        seen.notes.append(f"The format is not sure: the dates seen can also be read as {others}.")
    return True


# ---- values


def _judge_numbers(name: str, values: list[Any], seen: _Draft) -> None:
    """Counts of time, rounding, codes for missing values, and what grows with the file."""
    said = {key: seen.declared[key] for key in ("decimal", "thousands", "unit") if key in seen.declared}
    read = Number(**said).read(values).rows()
    numbers = np.delete(read.numbers, list(read.bad))
    numbers = numbers[np.abs(numbers) < 1e300]
    if not len(numbers):
        return
    if TIME_NAME.search(name) and (format_ := _count_of(numbers, values)):
        seen.kind, seen.declared["format"] = "datetime", format_
        return
    if _rises(numbers):
        seen.notes += _GROWS
    numbers = np.sort(numbers)
    seen.notes += [line.format(side) for side in _far_ends(numbers) for line in _FAR]
    if seen.kind == "integer":
        return
    decimals = next((places for places in range(7) if (np.round(numbers, places) == numbers).all()), None)
    few = len(numbers) // 20  # that are very large
    larger = max(abs(numbers[few]), abs(numbers[-1 - few]))
    digits = max(0, 5 - math.floor(math.log10(larger))) if larger else 6
    if decimals is not None:
        seen.declared["decimals"] = decimals
    elif digits <= _MOST_DECIMALS:
        seen.proposed.append(f"decimals = {digits}   # about six significant digits; more were seen")


def _count_of(numbers: Array, values: list[Any]) -> str | None:
    """The format in which numbers of a column that is called a time are times."""
    low, high = numbers.min(), numbers.max()
    for format_, scale in (("epoch-s", 1.0), ("epoch-ms", 1e3), ("epoch-us", 1e6)):
        if 4e8 * scale < low and high < 3e9 * scale:
            return format_
    is_day = isinstance(values[0], str) and low > 19e6 and high < 21e6 and _reads(Datetime(format="%Y%m%d"), values)
    return "%Y%m%d" if is_day else None


def _far_ends(numbers: Array) -> list[str]:
    """Which ends of some sorted numbers are one value that comes often and is unlike the others."""
    found = []
    for side, ends in (("lowest", numbers), ("highest", -numbers[::-1])):
        others = ends[ends != ends[0]]
        often = len(ends) - len(others) >= max(2, len(ends) / 1000)
        if ends[0] and often and len(others) >= _FEW and others[0] < others[-1]:
            far, alone = others[0] - ends[0] > others[-1] - others[0], ends[0] < 0 <= others[0]
            found += [side] if far or alone else []
    return found


def _judge_times(values: list[Any], seen: _Draft) -> None:
    """Their zone, how fine they are, and whether they are those of the file itself."""
    seen.declared["step"], written = "1s", seen.declared.get("format")
    is_clock, zones = seen.kind == "time-of-day", tuple[tuple[str, ...], ...](((), ZONED))
    for column in [TimeOfDay(format=written)] if is_clock else [Datetime(*zone, format=written) for zone in zones]:
        found = column.read(values).rows()
        if values and not found.bad:
            seen.declared["step"] = next(step for step in _STEPS if not (found.numbers % microseconds(step)).any())
            seen.zoned = getattr(column, "zoned", False)
            seen.notes += _GROWS if seen.kind == "datetime" and _rises(found.numbers) else ()
            return


def _rises(numbers: Array) -> bool:
    _, ranks = np.unique(numbers, return_inverse=True)
    if len(ranks) < _FEW or not ranks.any():
        return False
    return bool(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] > _RISING)


def _judge_identity(name: str, values: list[Any], seen: _Draft) -> None:
    """Columns that should be left out."""
    distinct, category = set(map(str, values)), seen.kind == "category"
    if any(isinstance(value, list | dict) for value in values):
        seen.notes.append("Holds lists or records: take plain values out of them first, or leave the column out.")
    elif len(values) >= _FEW and category | (seen.kind == "integer") and len(distinct) == len(values):
        what = "an identifier or free text" if category else "perhaps an identifier"
        seen.notes.append(f"All values seen are different: {what}. Nothing can be learned of it: leave it out.")
    elif len(distinct) > MOST_LISTED and category:
        seen.notes.append("More than 100 values were seen: list those that matter, and declare other for the rest. If")
        seen.notes.append("it is free text, leave it out: nothing can be learned of it, and it may name people.")
    elif len(values) >= _FEW and seen.kind == "integer" and distinct == {"0", "1"}:
        seen.notes.append('Only 0 and 1 were seen: if they mean no and yes, declare kind = "boolean".')
    if _PERSON.search(name.rpartition(".")[2]):  # of what is inside of a user, not all is its name
        seen.notes.append("Its name sounds like a person's name, number or address: leave it out unless it is none.")
        seen.notes.append("If it says who a record belongs to, leave it out here and name it by --person in the run.")
