"""When a run publishes by itself."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.public.person import microseconds


@dataclass(frozen=True)
class Schedule:
    """When to publish: at every multiple of so many records, or after so many seconds. Without either, never.

    Both are public: the number of records and the time of day are the same whatever one record holds. The clock is
    compared only between batches, and a batch ends after a number of records or when the input is idle, never at a
    place that the text of a record decides. A time *in* the records is not offered: the moment of a release would then
    reveal a value.

    Parameters
    ----------
    records
        Publish whenever ``t`` is a multiple of this.
    seconds
        Publish at the end of the first batch after so many seconds.

    Examples
    --------
    >>> Schedule.parse("10_000"), Schedule.parse("1h")
    (Schedule(records=10000, seconds=None), Schedule(records=None, seconds=3600.0))
    """

    records: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str) -> Schedule:
        """Read ``10000``, ``30s``, ``15min``, ``1h`` or ``1d``.

        Parameters
        ----------
        text
            A number of records, or a length of time.
        """
        plain = text.strip().replace("_", "").replace(",", "").lower()
        if plain.isascii() and plain.isdigit() and int(plain[:18]) > 0 and len(plain) <= 18:
            return Schedule(records=int(plain))
        if length := microseconds(plain):
            return Schedule(seconds=float(length / 10**6))
        raise ValueError(
            f"{text!r} is neither a number of records nor a length of time; write for example 10000, 30s, 15min or 1h"
        )

    def is_due(self, t: int) -> bool:
        """Whether the number of records alone says that a release of ``t`` is to be published."""
        return self.records is not None and t > 0 and t % self.records == 0

    def next_due(self, t: int) -> int | None:
        """The first number of records after ``t`` at which `is_due`; ``None`` if there is none."""
        return None if self.records is None else t + self.records - t % self.records
