"""A first draft of a schema file, from the names and the types of columns and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tomli_w

from headwater.table.errors import SchemaError
from headwater.table.schema_files import FORMAT

HEAD = f"""\
# A draft of a schema, made from the names and types of the columns. Text files have no types: there they were
# guessed from the first lines, so check every kind. No value is in here.
#
# Fill in what is left open. Take bounds from what you know: what can be measured, what a form allows, what a
# year holds. Never take them from the data: the lowest value of a column is somebody's value, and a bound is
# published. A bound that is too wide costs a little accuracy. A value beyond a bound counts as the bound
# (outside = "clip"), or its batch is refused (outside = "error"). Columns that you do not need are best left out.
# Where values may be missing, add the line: missing = true

headwater = {FORMAT}
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
        'step = "STEP"',
    ],
    "time-of-day": ['step = "1s"'],
}
"""What stands below the kind of a column; a line that is a comment is to be filled in."""

PATTERNS = [
    ("category", r"str|utf8|text|object|dict|categor|enum"),
    ("boolean", r"bool"),
    ("number", r"duration|timedelta|interval"),
    ("datetime", r"timestamp|date"),
    ("time-of-day", r"time"),
    ("number", r"float|double|decimal|number|numeric|real"),
    ("integer", r"int|long"),
]
"""How the kind of a column shows in the name of its type, in any library; the first that fits."""


def draft_schema(types: Mapping[str, object]) -> str:
    r"""The text of a schema file (TOML) with bounds left open, for a person to fill in.

    Parameters
    ----------
    types
        The type of each column by its name, as text, as a Python type or as a type of a data frame library:
        ``"int64"``, ``float``, ``frame.dtypes["age"]``, the types of an Arrow schema.
        Anything unknown is drafted as a category.

    Examples
    --------
    >>> print("\n".join(draft_schema({"age": "int64"}).rstrip().split("\n")[-4:]))
    [columns.age]
    kind = "integer"
    # low = 0      # the lowest value that is possible
    # high = 100   # the highest
    """
    if not types:
        raise SchemaError("there are no columns to draft a schema for", "give the type of each column by its name")
    return HEAD + "".join(f"\n{_column(name, type_)}\n" for name, type_ in types.items())


def _column(name: str, type_: object) -> str:
    text = (type_.__name__ if isinstance(type_, type) else str(type_)).lower()
    kind = next((kind for kind, pattern in PATTERNS if re.search(pattern, text)), "category")
    lines = tomli_w.dumps({"columns": {name: {"kind": kind}}}).rstrip().split("\n")
    if kind == "number" and re.search(PATTERNS[2][1], text):
        lines.append("# A time span: turn it into a number first, such as seconds.")
    zone = "+00:00" if re.search(r"tz|time_zone='|utc|, [a-z]+/", text) else ""
    step = "1d" if re.fullmatch(r"date(32|64)?(\[day\])?(\[pyarrow\])?", text) else "1s"
    return "\n".join(lines + [line.replace("ZONE", zone).replace("STEP", step) for line in OPEN[kind]])
