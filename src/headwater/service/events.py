"""Server-sent events: the number of records and the newest release, whenever they change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

INTERVAL = 0.5
"""Seconds between two events to one reader."""

HEARTBEAT = 15.0
"""Seconds after which a reader gets an event in any case."""


class Events:
    """Sends any number of readers what has changed. Keeps nothing for a slow one: it gets the newest state."""

    def __init__(self, state: Callable[[], dict[str, Any]]) -> None:
        self._state = state
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the readers
        self._changed: set[asyncio.Event] = set()
        self.closing = False

    @property
    def readers(self) -> int:
        """How many there are."""
        return len(self._changed)

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

    async def stream(self) -> AsyncIterator[str]:
        """The events of one reader, as text of the event stream format. Begins with the present state."""
        changed, last, self._loop = asyncio.Event(), None, asyncio.get_running_loop()
        self._changed.add(changed)
        try:
            yield "retry: 1000\n\n"
            while not self.closing:
                state = await asyncio.to_thread(self._state)
                if state != last:
                    last = state
                    yield f"event: state\nid: {state['t']}\ndata: {json.dumps(state)}\n\n"
                    await asyncio.sleep(INTERVAL)
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                changed.clear()
        finally:
            self._changed.discard(changed)
