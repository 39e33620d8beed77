"""Files of records as tables or as points, for those who keep no position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headwater.public.errors import TableError
from headwater.public.partition import Points
from headwater.secret.read.paths import StrPath
from headwater.secret.read.source import open_source


def read(paths: StrPath | Sequence[StrPath], schema: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401
    r"""Read files of records, in order, as ``pyarrow.Table`` objects that `schema.encode` takes.

    Parameters
    ----------
    paths
        Files (CSV, JSON lines, Parquet, Arrow; text may be compressed), folders, or ``"-"`` for standard input.
    schema
        Says which columns there must be, and their types. Nothing is learned from the file.
    options
        The fields of `Options`, such as ``format``, ``delimiter``, ``ignore_extra``, ``batch_rows``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x,y\n0.25,1\n0.5,0\n")
    >>> from headwater import unit_cube
    >>> [table.num_rows for table in read(path, unit_cube(2))]
    [2]
    """
    with open_source(paths, schema, **options) as source:
        for batch in source:
            if batch is not None:
                yield batch.table


def read_points(paths: StrPath | Sequence[StrPath], schema: Any, **options: Any) -> Iterator[Points]:  # noqa: ANN401
    """The same as `read`, encoded; errors name file and line."""
    with open_source(paths, schema, **options) as source:
        for batch in source:
            if batch is not None:
                try:
                    yield schema.encode(batch.table)
                except TableError as error:
                    raise batch.with_line(error) from None
