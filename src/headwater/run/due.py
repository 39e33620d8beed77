"""Which releases of a schedule are still to be published."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.run.schedule import Schedule


class Due:
    """Which releases are due: by the schedule, and not yet published."""

    def __init__(self, schedule: Schedule, published: Iterable[int]) -> None:
        self.schedule = schedule
        self.published = set(published)
        self._clock: float | None = None  # at the last release that the clock made due

    def by_records(self, t: int) -> bool:
        return self.schedule.is_due(t) and t not in self.published

    def next_by_records(self, t: int, until: int) -> int:
        while t < until and not self.by_records(t):
            t = min(self.schedule.next_due(t) or until, until)
        return t

    def by_clock(self, now: float | None) -> bool:
        if now is None or self.schedule.seconds is None:
            return False
        if self._clock is None:
            self._clock = now
        return now - self._clock >= self.schedule.seconds

    def restart(self, now: float | None) -> None:
        self._clock = now
