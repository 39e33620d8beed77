"""The lines of the page: how the stream grew, and the error of releases. Positions run from 0 to 1 along both axes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from headwater.report.ticks import Scale, datetimes

Release = dict[str, Any]
Line = list[tuple[float, float]]


def growth(releases: Sequence[Release]) -> dict[str, Any]:
    """Rows of each release over the time of its publication, and records so far if that is something else."""
    x, places = _published(releases)
    scale = Scale.of([0, *(release["t"] for release in releases)])
    windows = any(release["rows"] != release["t"] for release in releases)
    same, apart = "records so far, as many as the release has rows", "rows of the release; dashed: records so far"

    def line(key: str) -> Line:
        return [(place, scale.at(release[key])) for place, release in zip(places, releases, strict=True)]

    first, last = releases[0]["t"], releases[-1]["t"]
    return {
        "x": x,
        "y": scale.to_dict(apart if windows else same, whole=True),
        "series": line("rows"),
        "dashed": line("t") if windows else None,
        "describe": f"The stream has {first:,} records at the first release shown and {last:,} at the last",
    }


def error(releases: Sequence[Release], measured: Sequence[float | None] = ()) -> dict[str, Any] | None:
    """The typical error over the number of records, a band up to what is rarely exceeded, and what was measured."""
    stated = [r["typical"] is not None and r["upper"] is not None and r["t"] > 0 for r in releases]
    lines: dict[str, list[float | None]] = {
        key: [r[key] if is_stated else None for r, is_stated in zip(releases, stated, strict=True)]
        for key in ("typical", "upper")
    }
    lines["measured"] = [*measured, *[None] * len(releases)][: len(releases)]
    points = [(max(r["t"], 1), value) for line in lines.values() for r, value in zip(releases, line, strict=True)]
    known = [(t, value) for t, value in points if value is not None]
    if not known:
        return None
    x, y = Scale.of([t for t, _ in known]), Scale.of([value for _, value in known], zero=True)

    def line(key: str) -> list[tuple[float, float] | None]:
        both = zip(releases, lines[key], strict=True)
        return [None if value is None else (x.at(max(r["t"], 1)), y.at(value)) for r, value in both]

    typical = [value for value in lines["typical"] if value is not None]
    said = "Expected error from {} at the first release that states one to {} at the last"
    return {
        "measure": releases[-1]["measure"],
        "x": x.to_dict("records, t", whole=True),
        "y": y.to_dict(releases[-1]["measure"]),
        "series": line("typical"),
        "band": line("upper") if typical else None,
        "measured": line("measured"),
        "describe": said.format(typical[0], typical[-1]) if typical else "Measured error of each release",
    }


def _published(releases: Sequence[Release]) -> tuple[dict[str, Any], list[float]]:
    """The axis of time, if each release was published after the one before it; else releases are numbered."""
    times = [_moment(release["time"]) for release in releases]
    known = [time for time in times if time is not None]
    if len(known) == len(times) > 1 and all(a < b for a, b in pairwise(known)):
        start, span = known[0], (known[-1] - known[0]).total_seconds()
        places = [round((time - start).total_seconds() / span, 6) for time in known]
        return {"label": "published, UTC", "ticks": datetimes(start, known[-1])}, places
    numbers = range(1, len(releases) + 1)
    if len(releases) == 1:
        return {"label": "release", "ticks": [(0.5, "1")]}, [0.5]
    scale = Scale(1, len(releases), log=False)
    return scale.to_dict("release", whole=True), [scale.at(number) for number in numbers]


def _moment(text: str) -> datetime | None:
    """A time as a card has it, in UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
