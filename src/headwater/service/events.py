"""Server-sent events: the number of records and the newest release, whenever they change."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

INTERVAL = 0.5
"""Seconds between two events to one reader."""

HEARTBEAT = 15.0
"""Seconds after which a reader gets an event in any case."""

CHECK = 0.75
"""Seconds after which it is looked at again whether a reader may read: with those of `tokens.RELOAD`, one second."""


class Events:
    """Sends any number of readers what has changed. Keeps nothing for a slow one: it gets the newest state."""

    def __init__(self, state: Callable[[], dict[str, Any]]) -> None:
        self._state = state
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the readers
        self._changed: set[asyncio.Event] = set()
        self.readers: Counter[str] = Counter()  # by client
        self.closing = False

    def notify(self) -> None:
        """Something may have changed. From any thread."""
        if self._loop is not None and self._changed:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Let all readers go. In the loop."""
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        for event in self._changed:
            event.set()

    async def stream(self, client: str, allowed: Callable[[], bool]) -> AsyncIterator[str]:
        """The events of one reader as long as it may read, as text. Begins with the present state."""
        changed, last, self._loop = asyncio.Event(), None, asyncio.get_running_loop()
        self._changed.add(changed)
        self.readers[client] += 1
        try:
            yield "retry: 1000\n\n"
            sent, pause = time.monotonic(), 0.0
            while not self.closing and allowed():
                state = self._state()
                if state != last:
                    yield f"event: state\nid: {state['t']}\ndata: {json.dumps(state)}\n\n"
                    last, sent, pause = state, time.monotonic(), INTERVAL
                elif time.monotonic() - sent >= HEARTBEAT:
                    yield ": still here\n\n"
                    sent = time.monotonic()
                await asyncio.sleep(pause)
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), CHECK - pause)
                changed.clear()
                pause = 0.0
        finally:
            self._changed.discard(changed)
            self.readers[client] -= 1
            self.readers += Counter()  # without those that have none
