"""The description of the service, and requests of any shape made from it."""

import json
import re
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

from headwater import __version__
from headwater.service.render import MEDIA
from headwater.service.write import CONTENT_TYPES
from tests.service.conftest import Open, records

pytestmark = pytest.mark.slow  # processes, browsers and brokers

EVENTS = "/runs/{name}/events"  # never ends; tested with a real server


def test_every_address_method_and_format_of_the_service_is_described_and_no_other(opened: Open) -> None:
    client = opened()
    app: Any = client.app
    routes = {route.path: {method.lower() for method in route.methods - {"HEAD"}} for route in app.router.routes}
    del routes["/static/{file}"]
    document = client.get("/openapi.json").json()
    assert {path: set(operations) for path, operations in document["paths"].items()} == routes
    assert set(document["paths"]["/runs/{name}/records"]["post"]["requestBody"]["content"]) == set(CONTENT_TYPES)
    for form, media in MEDIA.items():
        content = document["paths"][f"/runs/{{name}}/releases/{{t}}/data.{form}"]["get"]["responses"]["200"]["content"]
        assert set(content) == {media.partition(";")[0]}
    assert document["info"]["version"] == __version__


def test_examples_of_bodies_are_what_the_formats_mean(opened: Open) -> None:
    document = opened().get("/openapi.json").json()
    content = document["paths"]["/runs/{name}/records"]["post"]["requestBody"]["content"]
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
    parameters = document["components"]["parameters"]  # so that most requests reach a run
    parameters["name"]["schema"] = {"type": "string", "enum": ["trips", "other"]}
    parameters["t"]["schema"] = {"type": "string", "enum": ["now", "100", "7", "x"]}
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
    asked = re.findall(r'requests_total\{.*route="(.+?)",status="(.+?)"\} (\S+)', client.get("/metrics").text)
    assert sum(float(count) for _, _, count in asked) > 100
    assert {route for route, _, _ in asked} >= set(document["paths"]) - {"/metrics"}
    assert not [status for _, status, _ in asked if status.startswith("5")]
