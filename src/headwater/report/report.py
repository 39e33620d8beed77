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
from pathlib import Path
from typing import Any

from headwater.evaluation.axes import column_axes
from headwater.evaluation.bars import Bars
from headwater.evaluation.evaluation import compare
from headwater.evaluation.inputs import Both, Rows, joined, rows_of, without_steps
from headwater.evaluation.yardstick import table_of
from headwater.public.files import FileRefusedError, write_whole
from headwater.public.folder import read_rows
from headwater.public.protocol import AnySchema
from headwater.public.schema import schema_from_dict
from headwater.report import releases as folders
from headwater.report.contents import ROWS, Cuts, Page, choose_pairs, texts
from headwater.report.quality import quality

Progress = Callable[[str, int, int], None]
WORST_PAIRS = 4
"""Of pairs of columns that are drawn beside the real data."""


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
    points = read_rows(shown[-1].folder, shown[-1].card, schema)
    last, spans = table_of(points, columns), [release.span for release in shown]  # public: chooses pairs and bars
    real, end = None, max(end for _, end in spans)
    if against is not None:  # no rows are read beyond the last one that a release is about
        rows = rows_of(against, schema)
        real = joined(rows, schema.dimension, end, lambda read: say("real rows", min(read, end), end))
    about = None if real is None else real.span(*spans[-1])
    bars = Bars.of_folder(shown[-1].folder) if len(points) else None
    judged = None
    if about is not None and about.known.any() and len(points):
        judged = compare(Both(about, Rows.at(points, schema), schema, None, bars))
    worst = [] if judged is None else [(x, y) for x, y, _ in judged.pairs[:WORST_PAIRS]]
    cuts = Cuts.choose(columns, choose_pairs(columns, last, pairs, worst), last)
    title = usual_name(Path(releases_folder)) if name is None else name
    page = Page(cuts, len(found), names={"data": title, "run": str(shown[-1].card.get("run", ""))}, public=public)
    for done, release in enumerate(shown):
        page.releases.append(release)
        made = points if release is shown[-1] else read_rows(release.folder, release.card, schema)
        page.counts.append(cuts.count(table_of(made, columns)))
        say("releases", done + 1, len(shown))
    page.sample = {"columns": [column.name for column in columns], "synthetic": texts(schema, points[:ROWS])}
    if real is not None and about is not None:
        page.real = [cuts.count(real.span(*span).table) for span in spans]
        page.real_rows = len(real), int(real.known.sum())
        page.sample["real"] = texts(without_steps(schema), about.points(schema, ROWS))
    if len(points):
        page.whiskers = None if bars is None else cuts.whiskers(bars)
        page.quality = quality(columns, last, bars, judged, about.table if about is not None and judged else None)
    write_whole(out, [render(page.to_dict()).encode()], mode=0o644 if against is None or public else 0o600)
    return out


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


def render(contents: dict[str, Any]) -> str:
    """The whole page. Nothing in ``contents`` can end the script element that it is put into, or be run."""
    style, script = _part("page.css"), "\n".join(map(_part, ("draw.js", "charts.js", "quality.js", "page.js")))
    # The policy lets the browser load nothing and run this script and no other.
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    page = _part("page.html")
    parts = {"quality": _part("quality.html"), "pairs": _part("pairs.html")}
    for name, text in (parts | {"policy": policy, "style": style, "script": script}).items():
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
