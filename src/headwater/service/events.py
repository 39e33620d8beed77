"""Server-sent events: the number of records and the newest release, whenever they change."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

INTERVAL = 0.5  # seconds between two looks whether something has changed, and whether the reader may still read
HEARTBEAT = 15.0  # seconds after which a reader gets an event in any case


class Events:
    """Sends any number of readers what has changed. Keeps nothing for a slow one: it gets the newest state."""

    def __init__(self, state: Callable[[], dict[str, Any]]) -> None:
        self._state, self.closing = state, False
        self.readers: Counter[str] = Counter()  # by client

    async def stream(self, client: str, allowed: Callable[[], bool]) -> AsyncIterator[str]:
        last, sent = None, time.monotonic()
        self.readers[client] += 1
        try:
            yield "retry: 1000\n\n"
            while not self.closing and allowed():
                state = self._state()
                if state != last:
                    yield f"event: state\nid: {state['t']}\ndata: {json.dumps(state)}\n\n"
                    last, sent = state, time.monotonic()
                elif time.monotonic() - sent >= HEARTBEAT:
                    yield ": still here\n\n"
                    sent = time.monotonic()
                await asyncio.sleep(INTERVAL)
        finally:
            self.readers[client] -= 1
            self.readers += Counter()  # without those that have none
