"""A service in this process, without sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from headwater import Category, Number, Schema
from headwater.run import Schedule
from headwater.service import Limits, RunSettings, Service, ServiceConfig
from headwater.service.app import create_app

SCHEMA = Schema(x=Number(0, 1), kind=Category("a", "b"))

Open = Callable[..., TestClient]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens a service of one run called trips, with settings of the run and of the service; closed at the end."""
    with ExitStack() as stack:

        def open_service(
            limits: Limits | None = None, tokens: Path | None = None, hosts: tuple[str, ...] = (), **settings: object
        ) -> TestClient:
            chosen = {"schema": SCHEMA, "epsilon": 1.0, "out": tmp_path / "out", "schedule": Schedule(records=100)}
            run = RunSettings(**{**chosen, **settings})  # type: ignore[arg-type]
            config = ServiceConfig({"trips": run}, tokens=tokens, hosts=hosts, limits=limits or Limits())
            service = stack.enter_context(Service(config))
            client = TestClient(create_app(service), base_url="http://127.0.0.1:8640", raise_server_exceptions=False)
            client.headers.pop("accept-encoding")
            client.service = service  # type: ignore[attr-defined]
            return stack.enter_context(client)

        yield open_service


def records(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Some records that fit the schema."""
    return [{"x": (i % 97) / 97, "kind": "ab"[i % 3 == 0]} for i in range(start, start + count)]
