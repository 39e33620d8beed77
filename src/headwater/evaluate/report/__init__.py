"""The report: one HTML page that shows how a published data set grew. Needs no network and no server.

Formal guarantees
-----------------
Without ``against`` the page is computed from release folders alone, so it is as private as they are: anything made
from releases is covered by their ε. Bins come from the schema on the card, never from records. With ``against`` the
page holds counts of the real data without noise. It is then NOT PRIVATE and says so in red, and only its owner can read
the file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from headwater.evaluate.axes import ColumnAxis, Floats, SchemaLike, column_axes
from headwater.evaluate.dependence import dependence
from headwater.evaluate.report import releases as folders
from headwater.evaluate.report.contents import Cuts, Page, real_counts
from headwater.evaluate.report.html import render
from headwater.files import FileRefusedError

__all__ = ["write_report"]

Progress = Callable[[str, int, int | None], None]

ALL_PAIRS, SOME_PAIRS = 10, 6
"""All pairs of columns are drawn if there are at most so many; else so many of them."""


def write_report(
    releases_folder: str | os.PathLike[str],
    out_html: str | os.PathLike[str],
    *,
    against: object = None,
    schema: SchemaLike | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a page about all releases of a folder.

    Parameters
    ----------
    releases_folder
        Holds folders ``release-…`` with a card and data each. At most 60 are drawn, evenly spread.
    out_html
        The page. Replaced if it is there.
    against
        The real data, in order of arrival: a table, or an iterable of tables; arrays are points, encoded already. Each
        release is compared with the records that it is about. This makes the page NOT PRIVATE.
    schema
        Must be the one on the cards if it is given.
    pairs
        Names of columns to draw against each other, first the one to the right. By default all pairs if they are few,
        else those that depend on each other most in the last release.
    progress
        Called with what is being read, how much of it is done, and how much there is (``None`` if unknown).

    Returns
    -------
    Path
        Of the page.
    """
    out = Path(out_html)
    if not out.parent.is_dir():
        raise FileNotFoundError(f"{out}: the folder {out.parent} does not exist")
    found = folders.find(releases_folder)
    shown = folders.thin(found)
    schema = _schema(found[0], schema)
    columns = column_axes(schema)
    tell = progress or _say_nothing

    tell("releases", 0, len(shown))
    last = shown[-1].points(schema)  # chooses pairs and bars: it is public
    cuts = Cuts.choose(columns, _pairs(columns, last, pairs), last)
    page = Page(cuts, total=len(found))
    for done, release in enumerate(shown, start=1):
        points = last if release is shown[-1] else release.points(schema)
        page.add(release, cuts.count(points))
        tell("releases", done, len(shown))
    if against is not None:
        page.compare(*real_counts(against, schema, cuts, [release.span for release in shown], tell))
    _write(out, render(page.to_dict()), mode=0o644 if against is None else 0o600)
    return out


def _say_nothing(what: str, done: int, total: int | None) -> None:
    """Report to nobody."""


def _schema(first: folders.Published, given: SchemaLike | None) -> SchemaLike:
    from headwater.table.schema import schema_from_dict

    path = first.folder / "card.json"
    try:
        schema: SchemaLike = schema_from_dict(first.card["schema"])
    except (ValueError, TypeError, KeyError) as error:
        raise FileRefusedError(f"{path}: the schema on the card cannot be read: {error}") from error
    if given is not None and given.to_dict() != schema.to_dict():
        raise FileRefusedError(f"{path}: the schema on the card is not the given one: leave schema= out, or correct it")
    return schema


def _pairs(
    columns: tuple[ColumnAxis, ...], last: Floats, chosen: Sequence[tuple[str, str]] | None
) -> list[tuple[int, int]]:
    """Which columns are drawn against each other, the one that goes to the right first."""
    names = [column.name for column in columns]
    if chosen is not None:
        for pair in chosen:
            if len(set(pair)) != 2:
                raise ValueError("pairs must hold two different columns each")
            for name in pair:
                if name not in names:
                    raise ValueError(f"pairs names the column {name!r}, but the schema has {', '.join(names)}")
        return [(names.index(x), names.index(y)) for x, y in chosen]
    pairs = list(combinations(range(len(columns)), 2))
    if len(pairs) > ALL_PAIRS:
        strength = dependence(last, columns)
        pairs = sorted(pairs, key=lambda pair: -strength[pair])[:SOME_PAIRS]
    # Names of categories are easier to read beside the picture than below it.
    return [(y, x) if columns[y].ordered and not columns[x].ordered else (x, y) for x, y in pairs]


def _write(path: Path, text: str, *, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
