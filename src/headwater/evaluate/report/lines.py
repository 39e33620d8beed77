"""The two lines of the page: how the stream grew, and the expected error. Positions run from 0 to 1 along both axes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from headwater.evaluate.report.ticks import Scale, datetimes

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
        "y": scale.to_dict(apart if windows else same),
        "series": line("rows"),
        "dashed": line("t") if windows else None,
        "describe": f"The stream has {first:,} records at the first release shown and {last:,} at the last",
    }


def expected_error(releases: Sequence[Release]) -> dict[str, Any] | None:
    """The typical error over the number of records, with a band up to what is rarely exceeded; None if unknown.

    A release that states no error has no point on the line: ``None`` in its place.
    """
    known = [r for r in releases if r["typical"] is not None and r["upper"] is not None and r["t"] > 0]
    if not known:
        return None
    x = Scale.of([release["t"] for release in known])
    y = Scale.of([release[key] for release in known for key in ("typical", "upper")], zero=True)

    def line(key: str) -> list[tuple[float, float] | None]:
        return [(x.at(release["t"]), y.at(release[key])) if release in known else None for release in releases]

    first, last = known[0]["typical"], known[-1]["typical"]
    return {
        "x": x.to_dict("records, t"),
        "y": y.to_dict("W1"),
        "series": line("typical"),
        "band": line("upper"),
        "describe": f"Expected error from {first} at the first release that states one to {last} at the last",
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
    scale = Scale.of(numbers) if len(releases) > 1 else Scale.of([0, 2])
    scale = Scale(scale.low, scale.high, log=False)
    return scale.to_dict("release", whole=True), [scale.at(number) for number in numbers]


def _moment(text: str) -> datetime | None:
    """A time as a card has it, in UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
