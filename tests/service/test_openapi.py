"""The description of the service, and requests of any shape made from it."""

import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headwater.service import openapi
from tests.service.conftest import Open, records

pytestmark = pytest.mark.slow  # processes, browsers and brokers

EVENTS = "/runs/{name}/events"  # never ends; tested with a real server


def test_every_address_of_the_service_is_described(opened: Open) -> None:
    client = opened()
    app: Any = client.app
    routes = {route.path for route in app._app.routes} - {"/static/{file}"}
    assert set(client.get("/openapi.json").json()["paths"]) == routes


def test_examples_of_bodies_are_what_the_formats_mean() -> None:
    content = openapi.document()["paths"]["/runs/{name}/records"]["post"]["requestBody"]["content"]
    lines = [json.loads(line) for line in content["application/x-ndjson"]["example"].splitlines()]
    assert lines == content["application/json"]["example"]


@pytest.mark.parametrize("with_records", [False, True])
def test_no_request_made_from_the_description_ends_in_a_server_error(
    opened: Open, with_records: bool, tmp_path: Path
) -> None:
    client = opened()
    if with_records:
        client.post("/runs/trips/records", json=records(250))
    document = client.get("/openapi.json").json()
    del document["paths"][EVENTS]
    for path in document["paths"].values():  # so that most requests reach a run
        for operation in path.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "name":
                    parameter["schema"] = {"type": "string", "enum": ["trips", "other"]}
                if parameter["name"] == "t":
                    parameter["schema"] = {"type": "string", "enum": ["now", "100", "7", "x"]}
    schema = schemathesis.openapi.from_dict(document)
    schema.app = client.app
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

    for operation in schema.get_all_operations():
        case_strategy = operation.ok().as_strategy()  # type: ignore[union-attr]

        @hypothesis.given(case=case_strategy)
        @hypothesis.settings(
            max_examples=15,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def check(case: Any) -> None:  # noqa: ANN401
            case.call_and_validate(base_url="http://127.0.0.1", checks=checks)

        check()
    assert client.get("/healthz").status_code == 200
    asked = client.service.metrics.requests  # type: ignore[attr-defined]
    assert sum(asked.values()) > 100
    assert {route for _, route, _ in asked} >= set(document["paths"])
    assert not [status for _, _, status in asked if status >= 500]
