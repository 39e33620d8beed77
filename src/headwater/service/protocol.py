"""HTTP as the service takes it: heads of bounded length that arrive in bounded time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 32 << 10
"""How long the head of a request may be."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose heads are too long or too slow; the parser itself has no such bounds."""

    seconds = 30.0  # how long the first head may take to arrive, once a connection is there

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection is there: its first head must arrive in time."""
        self._in_head, self._head_bytes, self._header_bytes = True, 0, 0
        self._deadline = self.loop.call_later(self.seconds, self._give_up)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, unless the head has become too long."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._give_up()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head, self._head_bytes, self._header_bytes = True, 0, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is there; many of them may have come at once."""
        self._header_bytes += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._in_head = False
        self._deadline.cancel()
        if self._header_bytes > HEAD_BYTES:
            self._give_up()
        else:
            super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The answer is sent: the next head has its own bounds."""
        self._in_head, self._head_bytes = True, 0
        super().on_response_complete()

    def _give_up(self) -> None:
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()
