"""The table of a release folder, read back as points of the schema's cube. The file must be the one on the card."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headwater.files import FileRefusedError
from headwater.partition import Points
from headwater.release.write_table import RELEASE_FORMATS
from headwater.table.arrow import pyarrow
from headwater.table.unit_cube import UnitCube


def has_table(folder: str | os.PathLike[str]) -> bool:
    """Whether a release folder still holds its table: of one that was pruned only the card is left."""
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
    """The rows of a table in the schema's cube, in order; ``path`` says which format its bytes have."""
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
    """Columns of numbers, or of text that says numbers, side by side."""
    columns = [np.array(column.to_pylist(), dtype=np.float64) for column in table.columns]
    return np.stack(columns, axis=1) if columns else np.empty((0, 0))
