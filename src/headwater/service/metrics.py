"""Operational numbers for Prometheus: public facts of runs, and counts of requests. No value of any record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

if TYPE_CHECKING:
    from headwater.service.hosted import HostedRun

_NUMBERS = {
    "records": "Records that were taken",
    "releases": "Published releases",
    "epsilon": "The privacy budget of the whole run",
    "delta": "δ of the whole run",
    "queued_posts": "Posts that are not answered yet",
    "event_readers": "Open streams of events",
    "failing": "Whether the run cannot take records or publish",
}
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "headwater_requests", "Answered requests", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram("headwater_request_seconds", "Until the answer begins", registry=self._registry)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. The route is the pattern of its address, never the address itself."""
        said = "answered" if method == "POST" and status < 500 else str(status)  # of posts it is made from raw data
        self._requests.labels(method, route, said).inc()
        self._seconds.observe(seconds)

    def text(self, runs: Mapping[str, HostedRun]) -> bytes:
        numbers = CollectorRegistry()
        gauges = {
            name: Gauge(f"headwater_{name}", about, ("run",), registry=numbers) for name, about in _NUMBERS.items()
        }
        for name, run in runs.items():
            gauges["records"].labels(name).set(run.t)
            gauges["releases"].labels(name).set(len(run.releases.times))
            gauges["epsilon"].labels(name).set(run.settings.epsilon)
            gauges["delta"].labels(name).set(run.settings.delta)
            gauges["queued_posts"].labels(name).set(run.writer.queued)
            gauges["event_readers"].labels(name).set(run.events.readers.total())
            gauges["failing"].labels(name).set(bool(run.failing))
        return generate_latest(self._registry) + generate_latest(numbers)
