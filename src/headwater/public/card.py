"""Tables as files, piece by piece: of a long release, only the points are in memory as a whole."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from headwater.public.build import in_text
from headwater.public.cube import UnitCube
from headwater.public.errors import is_unicode
from headwater.public.files import FileRefusedError
from headwater.public.partition import Points
from headwater.public.tables import pyarrow

VERSION = 1
"""Of cards."""

_NEEDED = {"headwater", "time", "t", "span", "rows", "epsilon", "mechanism", "expected_error"}
_NEEDED |= {"schema", "data", "sha256"}


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of a release's folder, or an error that names the file.

    Parameters
    ----------
    folder
        The folder of one release.
    """
    path = Path(folder) / "card.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        inside = sorted(one.parent.name for one in Path(folder).glob("release-*/card.json"))
        hint = f"; this is a folder of releases, of which {inside[-1]} is the last: name one of them" if inside else ""
        raise FileRefusedError(f"{path}: there is no card here, so this is not a release{hint}") from None
    except (ValueError, RecursionError):  # of JSON, of UTF-8, or of a number with thousands of digits
        raise FileRefusedError(f"{path}: the card cannot be read; Headwater did not write this file") from None
    if not isinstance(card, Mapping) or not isinstance(card.get("card"), int):
        raise FileRefusedError(f"{path}: this is not a card of a release")
    if card["card"] > VERSION:
        raise FileRefusedError(f"{path}: this card was written by a newer version of Headwater; upgrade to read it")
    if lacking := _NEEDED - card.keys():
        raise FileRefusedError(f"{path}: the card lacks {', '.join(sorted(lacking))}; it was altered")
    for key, fits in _ENTRIES.items():
        if key not in card or not fits(card[key]):
            raise FileRefusedError(f"{path}: the card is damaged: {key!r} is not what it should be")
    return dict(card)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000  # others are no floats


def _span(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_count, value)) and value[0] <= value[1]


def _error(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(_number(value.get(key)) for key in ("typical", "upper")))


def _file(value: object) -> bool:
    return isinstance(value, str) and Path(value).name == value and is_unicode(value) and "\0" not in value


_ENTRIES: dict[str, Callable[[Any], bool]] = {
    "headwater": _text,
    "time": _text,
    "t": _count,
    "span": _span,
    "rows": _count,
    "epsilon": _number,
    "neighbours": _text,
    "mechanism": _text,
    "expected_error": _error,
    "schema": lambda value: isinstance(value, dict),
    "data": _file,
    "sha256": _text,
}


RELEASE_FORMATS = ("parquet", "csv")
_LOOKED_AT = 1 << 12  # values of each column: their order is random


def check_format(format: str) -> None:  # noqa: A002 - as in `publish`
    if format not in RELEASE_FORMATS:
        raise ValueError(f"format must be one of {', '.join(RELEASE_FORMATS)}, not {format!r}")


def write_table(
    tables: Iterator[Any],
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 - as above
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
) -> None:
    """Write Arrow tables of a schema, of which there is at least one, one after the other into one file."""
    check_format(format)
    tables = in_text(tables, schema) if format == "csv" else tables
    first = next(tables)
    if format == "csv":
        writer = pyarrow("csv").CSVWriter(path, first.schema)
    else:
        few = [name for name in first.schema.names if _repeats(first.column(name))]
        writer = pyarrow("parquet").ParquetWriter(path, first.schema, compression="zstd", use_dictionary=few)
    with writer, ThreadPoolExecutor(1, "headwater-write") as thread:
        written = thread.submit(writer.write_table, first)
        for table in tables:  # made while the one before is written
            written.result()
            written = thread.submit(writer.write_table, table)
        written.result()


def _repeats(column: Any) -> bool:  # noqa: ANN401 - a pyarrow.ChunkedArray
    some = column.slice(0, _LOOKED_AT)
    return 2 * len(some.unique()) <= len(some)


def has_table(folder: str | os.PathLike[str]) -> bool:
    return any((Path(folder) / f"data.{format_}").exists() for format_ in RELEASE_FORMATS)


def read_rows(folder: str | os.PathLike[str], card: Mapping[str, Any], schema: Any) -> Points:  # noqa: ANN401
    """The rows of a release in the schema's cube, in the order of the table."""
    path = Path(folder) / card["data"]
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        problem = "the table of this release is gone: older ones are removed (--keep), and only their cards stay"
        raise FileRefusedError(f"{path}: {problem}") from None
    except OSError as error:
        raise FileRefusedError(f"{path}: the data of this release cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != card["sha256"]:
        raise FileRefusedError(f"{path}: the checksum on the card does not match: the file was cut short or altered")
    points = read_table(path, data, schema)
    if len(points) != card["rows"]:
        raise FileRefusedError(f"{path}: {len(points):,} rows, but the card says {card['rows']:,}")
    return points


def read_table(path: Path, data: bytes, schema: Any) -> Points:  # noqa: ANN401
    table = _table(path, data)
    try:
        cube = isinstance(schema, UnitCube)
        points: Points = schema.encode(_array(table)) if cube else schema.for_releases().encode(table)
    except (ValueError, TypeError) as error:
        raise FileRefusedError(f"{path}: the data do not fit the schema on the card: {error}") from error
    return points


def _table(path: Path, data: bytes) -> Any:  # noqa: ANN401  # pyarrow ships no types
    arrow = pyarrow()
    try:
        if path.suffix == ".parquet":
            return pyarrow("parquet").read_table(arrow.BufferReader(data))
        if path.suffix == ".csv":
            return _csv(data)
    except arrow.ArrowException as error:
        raise FileRefusedError(f"{path}: the data cannot be read: the file is damaged") from error
    raise FileRefusedError(f"{path}: the data are neither Parquet nor CSV")


def _csv(data: bytes) -> Any:  # noqa: ANN401
    """All columns as text, which the schema can read: types that are guessed could differ between releases."""
    arrow, csv = pyarrow(), pyarrow("csv")
    names = csv.open_csv(arrow.BufferReader(data)).schema.names
    lines = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)  # a blank line is a missing value
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, arrow.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.read_csv(arrow.BufferReader(data), parse_options=lines, convert_options=options)


def _array(table: Any) -> Points:  # noqa: ANN401 - a pyarrow.Table
    columns = [np.array(column.to_pylist(), dtype=np.float64) for column in table.columns]
    return np.stack(columns, axis=1) if columns else np.empty((0, 0))
