"""Writes the page, from release folders and perhaps from the real data.

Formal guarantees
-----------------
Without ``against`` the page is computed from release folders alone, so it is as private as they are: anything made
from releases is covered by their ε. Bins come from the schema on the card, never from records. With ``against`` the
page holds counts and rows of the real data without noise. It is then NOT PRIVATE and says so in red, and only its owner
can read the file; unless the real data are public anyway.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluation.axes import ColumnAxis, Floats, column_axes
from headwater.evaluation.evaluation import Evaluation, compare
from headwater.evaluation.inputs import Rows, joined, known, rows_of
from headwater.evaluation.measures import binned, normalised_information
from headwater.public.files import FileRefusedError, write_whole
from headwater.public.protocol import AnySchema
from headwater.public.schema import schema_from_dict
from headwater.report import releases as folders
from headwater.report.contents import ROWS, Cuts, Page, texts
from headwater.report.quality import chosen, errors, expected_quality, measured_quality

Progress = Callable[[str, int, int], None]

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
    public
        Whether the real data are public anyway: the page then has no warning, and anyone may read it.
    progress
        Called with what is being read, how much of it is done, and how much there is.

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
    say = progress or (lambda what, done, total: None)

    say("releases", 0, len(shown))
    last = shown[-1].points(schema)  # chooses pairs and bars: it is public
    spans = [release.span for release in shown]
    rows = None if against is None else _real(against, schema, max(end for _, end in spans), say)
    real = None if rows is None else rows.points
    judged = None if rows is None else _judged(rows, spans[-1], last, schema)
    worst = [] if judged is None else [(x, y) for x, y, _ in judged.ranked_pairs[:WORST_PAIRS]]
    cuts = Cuts.choose(columns, choose_pairs(columns, last, pairs, worst), last)
    title = usual_name(Path(releases_folder)) if name is None else name
    page = Page(cuts, len(found), names={"data": title, "run": str(shown[-1].card.get("run", ""))})
    measure = str((shown[-1].card["expected_error"] or {}).get("measure", "W1"))
    whole = chosen([release.card["rows"] for release in shown], len(columns), measure)
    real_counts, measured = [], []
    for done, release in enumerate(shown):
        points = last if release is shown[-1] else release.points(schema)
        page.releases.append(release)
        page.counts.append(cuts.count(points))
        if real is not None:
            about = known(real[slice(*spans[done])])
            real_counts.append(cuts.count(about))
            measured.append(errors(about, points, columns, measure, whole=done in whole))
        say("releases", done + 1, len(shown))
    page.sample = {"columns": [column.name for column in columns], "synthetic": texts(schema, last[:ROWS])}
    if len(last):
        page.quality = expected_quality(shown[-1].card, columns, last)
    if real is not None:
        page.real, page.errors, page.real_rows, page.public = (
            real_counts,
            measured,
            (len(real), len(known(real))),
            public,
        )
    if real is not None and judged is not None:
        page.quality = measured_quality(judged, shown[-1].card, columns)
        about = known(real[slice(*spans[-1])])
        page.sample["real"] = texts(schema, about[np.random.default_rng(0).permutation(len(about))[:ROWS]])
    write_whole(out, [render(page.to_dict()).encode()], mode=0o644 if against is None or public else 0o600)
    return out


def _real(against: object, schema: AnySchema, end: int, say: Progress) -> Rows:
    """The real rows up to the last one that a release is about; no further ones are read."""
    parts, rows = list[Rows](), 0
    for part in rows_of(against, schema):
        parts.append(part)
        rows = min(rows + len(part.points), end)
        say("real rows", rows, end)
        if rows >= end:
            break
    return joined(iter(parts), schema.dimension, end)


def _judged(real: Rows, span: tuple[int, int], last: Floats, schema: AnySchema) -> Evaluation | None:
    """The last release beside the records that it is about; None if there is nothing to compare."""
    about = known(real.points[slice(*span)])
    return compare(Rows(about, real.tally), last, schema) if len(about) and len(last) else None


def usual_name(folder: Path) -> str:
    """What the data are called if nobody says it: by the folder that holds all of it."""
    place = folder.resolve()
    return place.parent.name if place.name in ("releases", "out") else place.name


def _schema(last: folders.Published, given: AnySchema | None) -> AnySchema:
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
    wanted: Sequence[tuple[str, str]] | None = None,
    worst: Sequence[tuple[str, str]] = (),
) -> list[tuple[int, int]]:
    """Which columns are drawn against each other, the one that goes to the right first; ``worst`` ones also if many."""
    names = [column.name for column in columns]
    if wanted is not None:
        for pair in wanted:
            if len(set(pair)) != 2:
                raise ValueError("pairs must hold two different columns each")
            for name in pair:
                if name not in names:
                    raise ValueError(f"pairs names the column {name!r}, but the schema has {', '.join(names)}")
        return [(names.index(x), names.index(y)) for x, y in wanted]
    pairs = list(combinations(range(len(columns)), 2))
    if len(pairs) > ALL_PAIRS:
        tables = {(i, j): table for i, j, table in binned(last[:DEPENDENCE_ROWS], columns).two_way()}
        pairs = sorted(pairs, key=lambda pair: -normalised_information(tables[pair]))[:SOME_PAIRS]
        pairs = list(dict.fromkeys([*pairs, *((names.index(x), names.index(y)) for x, y in worst)]))
    # Names of categories are easier to read beside the picture than below it.
    return [(y, x) if columns[y].ordered and not columns[x].ordered else (x, y) for x, y in pairs]


def render(contents: dict[str, Any]) -> str:
    """The whole page. Nothing in ``contents`` can end the script element that it is put into, or be run."""
    style, script = _part("page.css"), "\n".join(map(_part, ("draw.js", "charts.js", "quality.js", "page.js")))
    # The policy lets the browser load nothing and run this script and no other.
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    page = _part("page.html")
    for name, text in (("policy", policy), ("style", style), ("script", script)):
        page = page.replace("{{" + name + "}}", text)
    before, _, after = page.partition("{{data}}")
    return before + _json(contents) + after


def _json(contents: dict[str, Any]) -> str:
    """JSON without any character that HTML could take for the end of a script, a comment or an entity."""
    text = json.dumps(contents, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(name: str) -> str:
    return (resources.files("headwater.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
