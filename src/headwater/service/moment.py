"""The release of this moment, and windows of it: made once for all who ask, and for a bounded part of the time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from headwater.public.release import Release
from headwater.run import Run
from headwater.service.problems import ProblemError

SHARE = 0.1
"""How much of the time making releases may take, however many readers there are."""

_SAVED = 1.0  # seconds of making that can be saved up while nobody asks: a first question is not kept waiting
_BEHIND = 2.0  # seconds to let the publisher catch up with the writers
_LONGEST = 30.0  # seconds that a reader waits for its turn
_WAITING = 64  # readers that may wait for a new window
_WINDOWS = 32  # releases of this moment that are kept: one for each window that is asked for


class Moment:
    """Makes releases of this moment, one at a time. Safe between threads.

    Making one takes the time of fitting a model, which writers need as well. So a release is made again only when
    making has taken less than `SHARE` of the time; until then readers get the one that there is.
    """

    def __init__(self, run: Run, t: Callable[[], int]) -> None:
        self._run, self._t = run, t
        self._made: OrderedDict[int | None, Release] = OrderedDict()
        self._making, self._waiting = threading.Lock(), 0
        self._saved, self._saved_at = _SAVED, time.monotonic()

    def release(self, last: int | None = None) -> Release:
        """The release of this moment, or one that is a little older if there was no time to make another."""
        t = self._t()
        if t == 0:
            raise ProblemError(404, "no record has come yet, so there is no release")
        if found := self.recent(last):
            return found
        if self._waiting >= _WAITING:
            raise ProblemError(503, "too many readers ask for new windows at a time", {"Retry-After": "2"})
        self._waiting += 1
        try:
            with self._making:
                found = self._made.get(last)
                if found is not None and (found.t >= t or not self._may_make()):
                    return found
                self._stay()
                return self._make(last)
        finally:
            self._waiting -= 1

    def recent(self, last: int | None) -> Release | None:
        """The release of this moment if it is known, or an older one if no new one is to be made yet."""
        found = self._made.get(last)
        if found is None or found.t >= self._t() or self._making.locked() or not self._may_make():
            return found
        return None

    def _may_make(self) -> bool:
        return self._saved + SHARE * (time.monotonic() - self._saved_at) > 0

    def _stay(self) -> None:
        """Sleep until another release may be made."""
        end = time.monotonic() + _LONGEST
        while not self._may_make() and time.monotonic() < end:
            time.sleep(0.05)

    def _make(self, last: int | None) -> Release:
        end = time.monotonic() + _BEHIND
        while self._run.synth.t < self._t() and time.monotonic() < end:  # releases are being published that were due
            time.sleep(0.01)
        begun = time.thread_time()
        try:
            release = self._run.release(last=last)
        except ValueError as error:  # the mechanism has no windows
            raise ProblemError(400, f"{error}") from None
        finally:
            now = time.monotonic()
            saved = min(self._saved + SHARE * (now - self._saved_at), _SAVED)
            self._saved, self._saved_at = saved - (time.thread_time() - begun), now
        self._made[last] = release
        self._made.move_to_end(last)
        while len(self._made) > _WINDOWS:
            self._made.popitem(last=False)
        return release
