"""The process: listens, answers, and ends in order."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headwater.service import answers
from headwater.service.app import create_app
from headwater.service.hosted import Service
from headwater.service.settings import ServiceConfig

HEAD_BYTES = 32 << 10  # how long the head of a request may be
_GRACE = 20  # seconds for requests that are being answered when the service stops
_SWITCH = 0.0005  # seconds after which a thread that computes gives way to one that answers
_MOST = 4000  # connections that are served at a time


class _BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose heads are too long or too slow; the parser itself has no such bounds."""

    seconds = 30.0  # how long a head may take to arrive; the first one, once a connection is there
    _head: int | None = 0  # bytes of a head so far; None while it is answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._deadline = self.loop.call_later(self.seconds, self._give_up)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head = None if self._head is None else self._head + len(data)
        super().data_received(data)
        if self._head is not None and self._head > HEAD_BYTES:
            self._give_up()

    def on_message_begin(self) -> None:
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self.seconds, self._give_up)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        self._deadline.cancel()
        if sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES:  # many may have come at once
            self._give_up()
        else:
            super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._head = 0
        super().on_response_complete()

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """Lets readers of events go when it stops: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order on SIGTERM and SIGINT. uvicorn would raise the signal again, before the runs are closed."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)  # the runs are being closed: that is not to be interrupted

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stopping = True
        for run in self._service.runs.values():
            run.events.closing = True
        await super().shutdown(sockets)
        await asyncio.to_thread(self._service.stop)  # while there is a loop that can be informed


def serve(config: ServiceConfig, ready: Callable[[str], None] = lambda address: None, *, quiet: bool = False) -> None:
    """Serve until SIGTERM or SIGINT, then finish what has come, keep a snapshot of every run, and return."""
    answers.quiet = quiet
    if most := config.limits.memory_bytes:  # a body that would need more gets an answer, instead of ending the process
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    sys.setswitchinterval(_SWITCH)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [answers.ServerLog()], False
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening, Service(config) as service:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        options = uvicorn.Config(
            create_app(service),
            http=type("Protocol", (_BoundedProtocol,), {"seconds": config.limits.body_seconds}),
            loop="uvloop",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(config.proxies),
            forwarded_allow_ips=list(config.proxies),
            backlog=2048,
            limit_concurrency=_MOST,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_GRACE,
        )
        runs = service.runs
        answers.log("start", runs=list(runs), t={name: run.t for name, run in runs.items()})
        _Server(options, service, ready).run(sockets=[listening])
    answers.log("stop")
