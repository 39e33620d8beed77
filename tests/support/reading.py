"""Records of files as their schema has them, however they come out of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headwater as hw
from headwater.secret.read.source import Source


def rows(paths: Path | list[Path], schema: Any, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """All records, by the public functions alone."""
    return [row for table in hw.read(paths, schema, **options) for row in values(table, schema)]


def values(table: Any, schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a pyarrow.Table, a schema
    """The records of one table."""
    found: list[dict[str, Any]] = schema.decode(schema.encode(table), "records")
    return [{name: None if value != value else value for name, value in row.items()} for row in found]


def of_source(source: Source, schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a schema
    """All records that are left in a source."""
    return [row for batch in source if batch is not None for row in values(batch.table, schema)]
