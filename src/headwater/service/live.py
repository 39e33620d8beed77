"""What the live page draws: numbers of releases only, so whoever may read may see it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluation.axes import column_axes
from headwater.public.folder import facts_of
from headwater.public.partition import Points
from headwater.public.release import Release
from headwater.report import choose_pairs
from headwater.report.contents import Counts, Cuts, Page
from headwater.report.releases import Published
from headwater.service.answers import to_json
from headwater.service.problems import ProblemError
from headwater.service.releases import Releases

WINDOW = 1000
"""The window that is shown against everything, in records."""

_DOTS = 59  # releases on the line of growth
_DRAWN = 200_000  # synthetic records that pictures are drawn from, at most


class LivePage:
    """The contents of the page of one run, made once for each release of this moment."""

    def __init__(self, name: str, releases: Releases) -> None:
        self._name, self._releases = name, releases
        self._lock = threading.Lock()
        self._cuts: Cuts | None = None
        self._cut_at = 0
        self._made: tuple[tuple[int, int], bytes] | None = None

    def json(self) -> bytes:
        """What the page draws: promise, growth, columns, pairs, all records and the last ones."""
        with self._lock:
            try:
                release = self._releases.now()
            except ProblemError as problem:
                if problem.status != 404:
                    raise
                return to_json({"name": self._name, "t": 0})
            version = (release.t, self._releases.count())
            if self._made is None or self._made[0] != version:
                self._made = (version, to_json(self._make(release)))
            return self._made[1]

    def _make(self, release: Release) -> dict[str, Any]:
        points = _drawn(release)
        cuts = self._cuts_for(release, points)
        window, counts = None, [cuts.count(points)]
        if recent := self._recent(release):
            window = {"asked": WINDOW, "rows": len(recent), "start": recent.start, "t": recent.t}
            counts.append(cuts.count(_drawn(recent)))
        history = [Published(Path(str(t)), self._releases.card(t)) for t in _spread(self._releases.times())]
        now = Published(Path("now"), facts_of(release))
        published = [{"t": one.card["t"], "time": one.card["time"]} for one in history[-1:]]
        others = [one for one in history if one.card["t"] != release.t]
        line = sorted([*others, now], key=lambda one: int(one.card["t"]))
        page = Page(cuts, self._releases.count(), line, list[Counts](counts)).to_dict()
        page["current"] = line.index(now)
        return {"name": self._name, "t": release.t, "window": window, "published": published, **page}

    def _recent(self, release: Release) -> Release | None:
        """The window of the last records; None if the mechanism has none, or it is everything."""
        if release.t <= WINDOW:
            return None
        try:
            found = self._releases.now(WINDOW)
        except ProblemError:
            return None
        return found if found.start > 0 else None

    def _cuts_for(self, release: Release, points: Points) -> Cuts:
        """Which pairs and categories are drawn; chosen again whenever twice as many records have come."""
        if self._cuts is None or release.t >= 2 * self._cut_at:
            columns = column_axes(release.schema)
            self._cuts, self._cut_at = Cuts.choose(columns, choose_pairs(columns, points), points), release.t
        return self._cuts


def _spread(times: list[int]) -> list[int]:
    """Some of the releases, evenly spread, the first and the last among them."""
    places = np.unique(np.linspace(0, max(len(times) - 1, 0), min(len(times), _DOTS)).round().astype(int))
    return [times[place] for place in places]


def _drawn(release: Release) -> Points:
    """The records that pictures are drawn from: all of them, or as many as show the same."""
    return release.points() if len(release) <= _DRAWN else release.model.sample(_DRAWN, release.seed)
