"""One thread that publishes what is due, and answers other processes of the owner, while records are being taken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headwater.run import Published, Run
from headwater.run.requests import answer_requests

_IDLE, _AFTER_ERROR = 1.0, 5.0  # seconds


class Publisher:
    """Publishes the releases of a run that are due, by number of records or by the clock.

    The clock is read when records were taken, and once a second: never at a time that the content of a record decides.

    In the thread, ``published`` is called after each release, and ``looked`` after each look, when all that could be
    counted is counted.
    """

    def __init__(self, run: Run, published: Callable[[Published], None], looked: Callable[[], None]) -> None:
        self._run, self._published, self._looked = run, published, looked
        self._wake, self._closing = threading.Event(), False
        self.failing = ""  # why the last attempt failed, without any value
        self._thread = threading.Thread(target=self._loop, name="publisher", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Records were taken: look whether a release is due."""
        self._wake.set()

    def close(self) -> None:
        """End the thread after the release that it is publishing."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._closing:
            try:
                for published in self._run.publish_if_due(time.monotonic()):
                    self._published(published)
                self._looked()
                answer_requests(self._run)
                self.failing = ""
                self._wake.wait(_IDLE)
            except Exception as error:  # a full disk, for instance; nothing is lost, and it is tried again
                self.failing = type(error).__name__
                if not self._closing:
                    self._wake.clear()
                    time.sleep(_AFTER_ERROR)
            self._wake.clear()
