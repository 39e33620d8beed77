"""The pages, and what the live page draws: numbers of releases only, so whoever may read may see it."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluation.axes import column_axes
from headwater.evaluation.bars import Bars
from headwater.evaluation.yardstick import Table, table_of
from headwater.public.budget import Guarantee
from headwater.public.folder import facts_of
from headwater.public.release import Release
from headwater.report.contents import ROWS, Counts, Cuts, Page, choose_pairs, texts
from headwater.report.quality import quality
from headwater.report.releases import Published
from headwater.service.answers import ProblemError, to_json
from headwater.service.releases import Releases

WINDOW = 1000  # the window that is shown against everything, in records
HTML = "text/html; charset=utf-8"
GROWN = 1.25  # error bars are made anew when there are so many times as many records
_DOTS = 59  # releases on the line of growth
_DRAWN = 200_000  # synthetic records that pictures are drawn from, at most
_SHARED, _OWN = "headwater.report", "headwater.service"
_PARTS = {
    "live.js": (
        "text/javascript; charset=utf-8",
        [(_SHARED, "draw.js"), (_SHARED, "charts.js"), (_SHARED, "quality.js"), (_OWN, "live.js")],
    ),
    "live.css": ("text/css; charset=utf-8", [(_SHARED, "page.css"), (_OWN, "live.css")]),
    "icon.svg": ("image/svg+xml", [(_OWN, "icon.svg")]),
}


_POWER = re.compile(r"\^(\((?:[^()]|\([^()]*\))*\)|[\w.]+)")


class LivePage:
    """The contents of the page of one run, made once for each release of this moment."""

    def __init__(self, name: str, releases: Releases) -> None:
        self._name, self._releases = name, releases
        self._cuts: Cuts | None = None
        self._cut_at, self._judged_at = 0, 0
        self._whiskers: list[list[float]] | None = None
        self._quality: dict[str, Any] | None = None
        self._made: tuple[tuple[int, int], bytes] = ((-1, -1), b"")

    async def json(self, client: str) -> bytes:
        try:
            release = await self._releases.now(client)
        except ProblemError as problem:
            if problem.status != 404:
                raise
            return to_json({"name": self._name, "t": 0})
        version = (release.t, len(self._releases.times))
        if self._made[0] != version:
            recent = await self._recent(client, release)
            key = ("page", self._name, version)
            self._made = (
                version,
                await self._releases.small.result(client, key, lambda _: self._make(release, recent)),
            )
        return self._made[1]

    async def _recent(self, client: str, release: Release) -> Release | None:
        """The window of the last records; None if the mechanism has none, or it is everything."""
        if release.t <= WINDOW:
            return None
        try:
            found = await self._releases.now(client, WINDOW)
        except ProblemError:
            return None
        return found if found.start > 0 else None

    def _make(self, release: Release, recent: Release | None) -> bytes:
        table, cuts = _drawn(release), self._cuts
        if cuts is None or release.t >= 2 * self._cut_at:  # which pairs and categories are drawn
            self._judged_at = 0
            columns = column_axes(release.schema)
            cuts = Cuts.choose(columns, choose_pairs(columns, table), table)
            self._cuts, self._cut_at = cuts, release.t
        window, counts = None, [cuts.count(table)]
        if recent is not None:
            window = {"asked": WINDOW, "rows": len(recent), "start": recent.start, "t": recent.t}
            counts.append(cuts.count(_drawn(recent)))
        times = self._releases.times
        history = [Published(Path(str(t)), self._releases.card(t)) for t in _spread(times)]
        now = Published(Path("now"), facts_of(release))
        published = [{"t": one.card["t"], "time": one.card["time"]} for one in history[-1:]]
        others = [one for one in history if one.card["t"] != release.t]
        line = sorted([*others, now], key=lambda one: int(one.card["t"]))
        columns = column_axes(release.schema)
        if release.t >= GROWN * self._judged_at:  # replicates take seconds
            bars = Bars.of(release)
            self._quality, self._judged_at = quality(columns, table, bars, quick=True), release.t
            self._whiskers = None if bars is None else cuts.whiskers(bars)
        made = Page(cuts, len(times), line, list[Counts](counts), whiskers=self._whiskers, quality=self._quality)
        rows = texts(release.schema, release.model.sample(min(ROWS, len(release)), release.seed))
        made.sample = {"columns": [column.name for column in columns], "synthetic": rows}
        page = made.to_dict() | {"current": line.index(now)}
        return to_json({"name": self._name, "t": release.t, "window": window, "published": published, **page})


def _spread(times: list[int]) -> list[int]:
    places = np.unique(np.linspace(0, max(len(times) - 1, 0), min(len(times), _DOTS)).round().astype(int))
    return [times[place] for place in places]


def _drawn(release: Release) -> Table:
    """The records that pictures are drawn from: all of them, or as many as show the same."""
    points = release.points() if len(release) <= _DRAWN else release.model.sample(_DRAWN, release.seed)
    return table_of(points, column_axes(release.schema))


# ---- pages: small HTML that loads its own script and style, and nothing from elsewhere


@cache
def static(name: str) -> tuple[bytes, str] | None:
    """A script or a style and its type; the drawing is that of the report."""
    if name not in _PARTS:
        return None
    kind, parts = _PARTS[name]
    return "\n".join(_text(package, part) for package, part in parts).encode(), kind


def _text(package: str, part: str) -> str:
    return (files(package) / "page" / part).read_text(encoding="utf-8")


@cache
def _address(name: str) -> str:
    content, _ = static(name) or (b"", "")
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def home(runs: list[dict[str, Any]]) -> bytes:
    rows = [
        [
            f'<a href="/runs/{escape(run["name"])}">{escape(run["name"])}</a>',
            f"{run['t']:,}",
            f"{run['releases']:,}",
            escape(Guarantee.as_stated(run).promise),
            escape(run["mechanism"]),
        ]
        for run in runs
    ]
    body = (
        _table(["Run", "Records", "Releases", "Privacy", "Mechanism"], rows)
        if runs
        else "<p>There is no run to read.</p>"
    )
    return _page("Runs", f"<header><p class=overline>Headwater</p><h1>Runs</h1></header>{body}")


def releases(name: str, listed: list[dict[str, Any]]) -> bytes:
    base = f"/runs/{escape(name)}"
    rows = []
    for one in reversed(listed):
        place = f"{base}/releases/{one['t']}"
        links = " ".join(f'<a href="{place}/data.{form}">{form}</a>' for form in ("parquet", "csv", "json"))
        rows.append([f'<a href="{place}/card">{one["t"]:,}</a>', escape(one["time"]), links])
    title = f'<header><p class=overline><a href="{base}">{escape(name)}</a></p><h1>Releases</h1></header>'
    return _page(f"Releases of {name}", title + _table(["Records, t", "Published", "Table"], rows))


def page_of(run: dict[str, Any]) -> bytes:
    text, promised = _text(_OWN, "live.html"), Guarantee.as_stated(run)
    for part in ("quality", "pairs"):
        text = text.replace("{{" + part + "}}", _text(_SHARED, f"{part}.html"))
    facts = {name: getattr(promised, name) for name in ("promise", "loss", "whom", "meaning", "limits")}
    for key, value in (facts | {"name": run["name"], "t": f"{run['t']:,}"}).items():
        text = text.replace("{{" + key + "}}", _POWER.sub(r"<sup>\1</sup>", escape(value)))
    return _page(f"{run['name']}, live", text, f'<script src="{_address("live.js")}" defer></script>')


def _table(names: list[str], rows: list[list[str]]) -> str:
    """A table of HTML; names and cells are HTML already."""
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _page(title: str, body: str, script: str = "") -> bytes:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f'<link rel="icon" href="{_address("icon.svg")}">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="{_address("live.css")}">{script}</head>'
        f"<body><main>{body}</main></body></html>\n"
    ).encode()
