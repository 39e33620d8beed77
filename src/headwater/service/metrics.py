"""Operational numbers for Prometheus: public facts of runs, and counts of requests. No value of any record."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.service.hosted import HostedRun

_ANSWERED = "answered"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts requests by route and status, and their time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request.

        The route is the pattern of its address, never the address itself; the seconds end where the answer begins.
        """
        if method == "POST" and status < 500:
            status = 0  # whether records were refused is made from raw data
        with self._lock:
            self.requests[method, route, status] += 1
            self._seconds[bisect_left(_BOUNDS, seconds)] += 1
            self._sum += seconds

    def text(self, runs: Mapping[str, HostedRun]) -> str:
        """Everything in the text format of Prometheus."""
        lines = ["# TYPE headwater_requests_total counter"]
        with self._lock:
            for (method, route, status), count in sorted(self.requests.items()):
                labels = f'method="{method}",route="{route}",status="{status or _ANSWERED}"'
                lines.append(f"headwater_requests_total{{{labels}}} {count}")
            lines.append("# TYPE headwater_request_seconds histogram")
            total = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._seconds, strict=True):
                total += count
                lines.append(f'headwater_request_seconds_bucket{{le="{bound}"}} {total}')
            lines += [f"headwater_request_seconds_sum {self._sum:.6f}", f"headwater_request_seconds_count {total}"]
        numbers: dict[str, tuple[str, Callable[[HostedRun], float]]] = {
            "records": ("counter", lambda run: run.t),
            "releases": ("gauge", lambda run: run.releases.count()),
            "epsilon": ("gauge", lambda run: run.settings.epsilon),
            "delta": ("gauge", lambda run: run.settings.delta),
            "queued_posts": ("gauge", lambda run: run.writer.queued),
            "event_readers": ("gauge", lambda run: run.events.readers),
            "failing": ("gauge", lambda run: int(bool(run.failing))),
        }
        for name, (kind, number) in numbers.items():
            lines.append(f"# TYPE headwater_{name} {kind}")
            lines += [f'headwater_{name}{{run="{run.name}"}} {number(run)}' for run in runs.values()]
        return "\n".join(lines) + "\n"
