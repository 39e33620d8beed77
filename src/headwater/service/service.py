"""All runs of one service: opened together, closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from headwater.service.config import ServiceConfig
from headwater.service.files import FileCache
from headwater.service.hosted import HostedRun
from headwater.service.metrics import Metrics
from headwater.service.problems import ProblemError
from headwater.service.tokens import Tokens


class Service:
    """The runs of a service and who may do what with them. It has threads, and no sockets."""

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        self.tokens = Tokens(config.tokens) if config.tokens is not None else None
        self.metrics = Metrics()
        self._reserved = 0  # bytes of bodies; used in one loop only
        self.encoding = asyncio.Semaphore(2)  # bodies that are read at a time, by threads
        self.rendering = asyncio.Semaphore(4)  # tables that are made or found at a time, by threads
        self.stopping = False
        state = next(iter(config.runs.values())).state_path
        self._cache = FileCache(state.with_name(f"{state.name}.cache"), config.limits.cache_bytes)
        self.runs: dict[str, HostedRun] = {}
        try:
            for name, settings in config.runs.items():
                self.runs[name] = HostedRun(name, settings, config.limits, self._cache)
            self._cache.clear()  # whoever has the states has the folder
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Reserve memory while a body is read and its records are taken; a 429 if too much is reserved."""
        if self._reserved and self._reserved + size > self.config.limits.queued_bytes:
            raise ProblemError(429, "too much is being sent; send this again in a moment", {"Retry-After": "1"})
        self._reserved += size
        try:
            yield
        finally:
            self._reserved -= size

    def close(self) -> None:
        """Take what is queued, publish what is due, keep snapshots, release the states."""
        self.stopping = True
        self._cache.close()  # first: the next owner of the states has the same folder
        for run in self.runs.values():
            run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
