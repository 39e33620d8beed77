"""However numbers are declared to be written, a line of a file means what it means in a file of its own.

Columns are drawn with units, decimal signs, marks between thousands and codes for missing values in any combination,
also such as contradict each other; lines with texts that nearly fit them, blank ones, and ones with broken quotes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headwater import Integer, Number, Schema
from headwater.public.columns import Column
from headwater.secret.read.source import open_source
from tests.support.batch_points import points_in_places
from tests.support.nightly import NIGHTLY

FILES = settings(max_examples=1000 if NIGHTLY else 100, suppress_health_check=[HealthCheck.too_slow], database=None)
UNITS = ["$", "km", "%", "€", "e", "x", "inf", "nan", "a b", "'"]
MARKS = [" ", ".", ",", "'", "\u00a0", "$"]
CODES = ["NA", "-999", "-999", "0", "1e3", "-999 km", "$5", "nan", "1,5", "1.5", "1 000", "-0"]
AS_CODES = ["-999", "-999.0", "-9.99e2", " -999", "0", "-0", "0.0", "1e3", "1000", "nan", "NA"]
_DIGITS = (
    "5|-5|0|-0|1,5|1.5|1.234|1.234,5|1 234|1'234|1e3|1E3|inf|nan|nan(1)|0x1|| |NA| NA |-999|-999.0|"
    "-9.99e2|+5|1_0|.5|5.|1e999|1e999999999|٣"
)
DIGITS = _DIGITS.split("|")
BROKEN = ["", '"', '5"', '"5"5', "5;5;5;5", "\x00", "[]", "{}", "5\r"]
KINDS: list[Any] = [
    lambda **how: Number(0.01, 1000, scale="log", **how),
    lambda **how: Number(-1000, 2000, decimals=1, **how),
    lambda **how: Integer(-1000, 2000, **how),
]


@st.composite
def columns(draw: st.DrawFn) -> Column:
    """Half of them are written in the usual way, but for codes: those other parsers may read as well."""
    how = {
        "null_values": draw(st.lists(st.sampled_from(CODES), max_size=3)),
        "missing": draw(st.integers(0, 3)) > 0,
        "outside": draw(st.sampled_from(["clip", "error"])),
    }
    if draw(st.booleans()):
        how |= {"unit": draw(st.none() | st.sampled_from(UNITS)), "decimal": draw(st.sampled_from(".,"))}
        how |= {"thousands": draw(st.none() | st.sampled_from(MARKS))}
        assume(how["decimal"] != how["thousands"])
    found: Column = draw(st.sampled_from(KINDS))(**how)
    return found


@st.composite
def values(draw: st.DrawFn, column: Column) -> str:
    """A number, with or without something that may be its unit, on either side, also behind the sign."""
    own = getattr(column, "unit", None) or ""
    text = draw(st.sampled_from(AS_CODES) | st.sampled_from(DIGITS))
    unit = draw(st.sampled_from([own, own, own, own, "$", "km"]))
    ways = [text + unit, unit + text, f"{text} {unit} ", f"{unit} {text}", text[:1] + unit + text[1:]]
    found: str = draw(st.sampled_from(ways))
    return found


@st.composite
def lines(draw: st.DrawFn, schema: Schema, form: str) -> str:
    if draw(st.integers(0, 15)) == 0:
        broken: str = draw(st.sampled_from(BROKEN))
        return broken
    texts = [draw(values(column)) for column in schema.columns.values()]
    if form == "csv":
        return ";".join(f'"{text}"' if draw(st.booleans()) else text for text in texts)
    plain = [text if draw(st.booleans()) and text[-1:].isdigit() else json.dumps(text) for text in texts]
    return "{" + ", ".join(f'"{name}": {text}' for name, text in zip(schema.names, plain, strict=True)) + "}"


def encoded(path: Path, text: str, schema: Schema, **options: Any) -> list[list[float] | None]:  # noqa: ANN401 - fields of Options
    """The points of all lines; None for a bad one."""
    path.write_bytes(text.encode())
    found: list[list[float] | None] = []
    with open_source(path, schema, delimiter=";", **options) as source:
        for batch in source:
            if batch is not None:
                found += points_in_places(batch, schema, options["bad_rows"])
    return found


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
@FILES
@given(st.data())
def test_a_file_means_what_its_lines_mean_one_by_one(form: str, policy: str, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(columns(), min_size=1, max_size=2))
    schema = Schema({f"c{number}": column for number, column in enumerate(drawn)})
    text = [line + "\n" for line in data.draw(st.lists(lines(schema, form), min_size=1, max_size=12))]
    head = ";".join(schema.names) + "\n" if form == "csv" else ""
    options = {"bad_rows": policy, "batch_rows": data.draw(st.integers(1, 8))}
    options["block_bytes"] = data.draw(st.sampled_from([7, 64, 1 << 22]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"in.{form}"
        whole = encoded(path, head + "".join(text), schema, **options)
        alone = [encoded(path, head + line, schema, **options) for line in text]
    assert [len(one) for one in alone] == [1] * len(text)
    assert whole == [point for one in alone for point in one]
