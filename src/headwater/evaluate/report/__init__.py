"""The report: one HTML page that shows how a published data set grew. Needs no network and no server.

Formal guarantees
-----------------
Without ``against`` the page is computed from release folders alone, so it is as private as they are: anything made
from releases is covered by their ε. Bins come from the schema on the card, never from records. With ``against`` the
page holds counts and rows of the real data without noise. It is then NOT PRIVATE and says so in red, and only its owner
can read the file; unless the real data are public anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from headwater.evaluate.axes import ColumnAxis, Floats, column_axes
from headwater.evaluate.encoded import Encoded, joined
from headwater.evaluate.evaluation import Evaluation
from headwater.evaluate.inputs import rows_of
from headwater.evaluate.marginals import binned, normalised_information
from headwater.evaluate.measures import compare
from headwater.evaluate.report import releases as folders
from headwater.evaluate.report.contents import Cuts, Page
from headwater.evaluate.report.html import render
from headwater.evaluate.report.measured import chosen, errors
from headwater.evaluate.report.quality import expected_quality, measured_quality
from headwater.evaluate.report.samples import ROWS, RealRows, texts
from headwater.public.files import FileRefusedError, write_whole
from headwater.public.protocol import AnySchema

__all__ = ["write_report"]

Progress = Callable[[str, int, int | None], None]

ALL_PAIRS, SOME_PAIRS, WORST_PAIRS = 10, 6, 4
"""All pairs of columns are drawn if there are at most so many; else so many of them, and of the worst so many more."""

DEPENDENCE_ROWS = 50_000
"""Rows of the last release that decide which pairs depend on each other most."""


def write_report(
    releases_folder: str | os.PathLike[str],
    out_html: str | os.PathLike[str],
    *,
    against: object = None,
    schema: AnySchema | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    name: str | None = None,
    target: str | None = None,
    public: bool = False,
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
        The real data, in order of arrival: a table, an iterable of tables, or paths of files; arrays are points,
        encoded already. Each release is compared with the records that it is about. This makes the page NOT PRIVATE.
    schema
        Must be the one on the cards if it is given.
    pairs
        Names of columns to draw against each other, first the one to the right. By default all pairs if they are few,
        else those that depend on each other most in the last release and, with ``against``, those with most error.
    name
        Of the data, for the title; the name of the folder by default.
    target
        With ``against``: a column that a classifier predicts from the others, as `headwater.evaluate` takes it.
    public
        Whether the real data are public anyway: the page then has no warning, and anyone may read it.
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
    schema = _schema(found[-1], schema)  # real data are read as the newest release was made
    columns = column_axes(schema)
    show_progress = progress or _say_nothing

    show_progress("releases", 0, len(shown))
    last = shown[-1].points(schema)  # chooses pairs and bars: it is public
    spans = [release.span for release in shown]
    some = RealRows(schema, spans[-1])
    real = None if against is None else _real(against, schema, max(end for _, end in spans), some, show_progress)
    judged = None if real is None else _judged(real[slice(*spans[-1])].known(), last, schema, target)
    worst = [] if judged is None else [(x, y) for x, y, _ in judged.ranked_pairs[:WORST_PAIRS]]
    cuts = Cuts.choose(columns, choose_pairs(columns, last, pairs, worst), last)
    page = Page(cuts, total=len(found), names=_names(Path(releases_folder), shown[-1], name))
    measure = str((shown[-1].card["expected_error"] or {"measure": ""}).get("measure", "W1"))
    whole = chosen([release.card["rows"] for release in shown], len(columns), measure)
    real_counts, measured = [], []
    for done, release in enumerate(shown):
        points = last if release is shown[-1] else release.points(schema)
        page.add(release, cuts.count(points))
        if real is not None:
            about = real[slice(*spans[done])].known()
            real_counts.append(cuts.count(about))
            measured.append(errors(about, Encoded(points), columns, measure, whole=done in whole))
        show_progress("releases", done + 1, len(shown))
    page.sample = {"columns": [column.name for column in columns], "synthetic": texts(schema, last[:ROWS])}
    if len(last):
        page.quality = expected_quality(shown[-1].card, columns, last)
    if real is not None:
        page.compare(real_counts, measured, (len(real), len(real.known())), public=public)
        if judged is not None:
            page.quality = measured_quality(judged, shown[-1].card, columns)
            page.sample["real"] = some.texts()
    write_whole(out, [render(page.to_dict()).encode()], mode=0o644 if against is None or public else 0o600)
    return out


def _real(against: object, schema: AnySchema, end: int, some: RealRows, show_progress: Progress) -> Encoded:
    """The real rows up to the last one that a release is about; no further ones are read."""
    parts, rows = list[Encoded](), 0
    for part in rows_of(against, schema):
        some.offer(part, rows)
        parts.append(part[: end - rows])
        rows += len(parts[-1])
        show_progress("real rows", rows, end)
        if rows >= end:
            break
    return joined(parts, schema.dimension)


def _judged(about: Encoded, last: Floats, schema: AnySchema, target: str | None) -> Evaluation | None:
    """The last release beside the records that it is about; None if there is nothing to compare."""
    return compare(about, Encoded(last), schema, target=target) if len(about) and len(last) else None


def usual_name(folder: Path) -> str:
    """What the data are called if nobody says it: by the folder that holds all of it."""
    place = folder.resolve()
    return place.parent.name if place.name in ("releases", "out") else place.name


def _names(folder: Path, last: folders.Published, name: str | None) -> dict[str, str]:
    """What the data and the run are called."""
    return {"data": usual_name(folder) if name is None else name, "run": str(last.card.get("run", ""))}


def _say_nothing(what: str, done: int, total: int | None) -> None:
    """Report to nobody."""


def _schema(last: folders.Published, given: AnySchema | None) -> AnySchema:
    from headwater.public.schema import schema_from_dict

    path = last.folder / "card.json"
    try:
        schema: AnySchema = schema_from_dict(last.card["schema"])
    except (ValueError, TypeError, KeyError) as error:
        raise FileRefusedError(f"{path}: the schema on the card cannot be read: {error}") from error
    if given is not None and given != schema:
        raise FileRefusedError(f"{path}: the schema on the card is not the given one: leave schema= out, or correct it")
    return schema


def choose_pairs(
    columns: tuple[ColumnAxis, ...],
    last: Floats,
    chosen: Sequence[tuple[str, str]] | None = None,
    worst: Sequence[tuple[str, str]] = (),
) -> list[tuple[int, int]]:
    """Which columns are drawn against each other, the one that goes to the right first; ``worst`` ones also if many."""
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
        tables = {(i, j): table for i, j, table in binned(Encoded(last[:DEPENDENCE_ROWS]), columns).two_way()}
        pairs = sorted(pairs, key=lambda pair: -normalised_information(tables[pair]))[:SOME_PAIRS]
        pairs = list(dict.fromkeys([*pairs, *((names.index(x), names.index(y)) for x, y in worst)]))
    # Names of categories are easier to read beside the picture than below it.
    return [(y, x) if columns[y].ordered and not columns[x].ordered else (x, y) for x, y in pairs]
