"""The process: listens, answers, and ends in order."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from headwater.service.app import create_app
from headwater.service.config import ServiceConfig
from headwater.service.logs import ServerLog, log
from headwater.service.protocol import BoundedProtocol
from headwater.service.service import Service

_GRACE = 20  # seconds for requests that are being answered when the service stops
_SWITCH = 0.0005  # seconds after which a thread that computes gives way to one that answers
_MOST = 4000  # connections that are served at a time


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
        """Listen, then say so."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, answer what has come."""
        self._service.stopping = True
        for run in self._service.runs.values():
            run.events.close()
        await super().shutdown(sockets)


def serve(config: ServiceConfig, ready: Callable[[str], None] = lambda address: None) -> None:
    """Serve until SIGTERM or SIGINT, then finish what has come, keep a snapshot of every run, and return.

    ``ready`` is called with the address when requests are answered.
    """
    _bound_memory(config.limits.memory_bytes)
    sys.setswitchinterval(_SWITCH)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [ServerLog()], False
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening, Service(config) as service:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        options = uvicorn.Config(
            create_app(service),
            http=type("Protocol", (BoundedProtocol,), {"seconds": config.limits.body_seconds}),
            loop="uvloop",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=2048,
            limit_concurrency=_MOST,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_GRACE,
        )
        log("start", runs=list(service.runs), t={name: run.t for name, run in service.runs.items()})
        _Server(options, service, ready).run(sockets=[listening])
    log("stop")


def _bound_memory(most: int) -> None:
    """A body that would need more memory than this gets an answer, instead of ending the process."""
    if most:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
