"""The description of the service for programs, with examples."""

from __future__ import annotations

from typing import Any

from headwater.public.version import __version__
from headwater.service.bodies import CONTENT_TYPES
from headwater.service.render import MEDIA

_RECORDS = [{"delay": 3, "origin": "JFK"}, {"delay": -2, "origin": "LGA"}]
_EXAMPLES: dict[str, Any] = {
    "application/json": _RECORDS,
    "application/x-ndjson": '{"delay": 3, "origin": "JFK"}\n{"delay": -2, "origin": "LGA"}\n',
    "application/jsonl": '{"delay": 3, "origin": "JFK"}\n',
    "text/csv": "delay,origin\n3,JFK\n-2,LGA\n",
}
_FACTS = {
    "name": "trips",
    "run": "cfa09e85593a58b4",
    "t": 20000,
    "releases": 2,
    "newest": 20000,
    "epsilon": 1.0,
    "delta": 0.0,
    "unit": "record",
    "neighbours": "replace one record",
    "guarantee": "ε = 1 for one record (replace one record; how many records arrived is public)",
    "mechanism": "cascade",
    "public": False,
    "every": {"records": 10000, "seconds": None},
}
_RELEASE = {"t": 10000, "time": "2026-01-31T12:00:00+00:00", "rows": 10000, "sha256": "e3e0…", "data": "data.parquet"}
_SIGNED_IN: list[dict[str, list[str]]] = [{"token": []}, {"login": []}, {}]


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headwater", "version": __version__, "description": _ABOUT},
        "paths": {
            "/": {"get": _get("Runs that may be read", _json(_object(["runs"]), {"runs": [_FACTS]}), html=True)},
            "/runs": {"get": _get("Runs that may be read", _json(_object(["runs"]), {"runs": [_FACTS]}), html=True)},
            "/runs/{name}": {"get": _get("The live page, or the facts of a run", _facts(), 404, _NAME, html=True)},
            "/runs/{name}/live": {"get": _get("What the live page draws", _json(_object(["name", "t"])), 404, _NAME)},
            "/runs/{name}/records": {"post": _post()},
            "/runs/{name}/releases": {"get": _list()},
            "/runs/{name}/releases/{t}/card": {"get": _card()},
            **{f"/runs/{{name}}/releases/{{t}}/data.{form}": {"get": _data(form)} for form in MEDIA},
            "/runs/{name}/events": {"get": _events()},
            "/runs/{name}/status": {"get": _status()},
            "/healthz": {"get": _plain("The process answers", "ok\n", 200)},
            "/readyz": {"get": _plain("All runs take records and publish", "ready\n", 200, 503)},
            "/metrics": {
                "get": _plain("Operational numbers for Prometheus", 'headwater_records{run="trips"} 3\n', 200)
            },
            "/openapi.json": {"get": _get("This document", _json({"type": "object"}))},
        },
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "What `headwater token` printed"},
                "login": {"type": "http", "scheme": "basic", "description": "The token as password, for browsers"},
            },
            "schemas": {"Problem": _PROBLEM, "Accepted": _ACCEPTED},
        },
    }


_ABOUT = (
    "Records are posted to a run and are on its disk when the answer comes. Everything that can be read is computed "
    "from releases, which together keep the guarantee that the run and every card state; reading costs nothing."
)
_PROBLEM = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong and what to do; never a value of a record"},
        "line": {"type": "integer"},
        "row": {"type": "integer", "description": "Of the first record that does not fit, from 0"},
        "column": {"type": "string"},
    },
}
_ACCEPTED = {
    "type": "object",
    "required": ["accepted", "t"],
    "properties": {
        "accepted": {"type": "integer", "description": "How many records were taken"},
        "t": {"type": "integer", "description": "How many records the run has with them"},
    },
}
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}, "example": "trips"}
_T = {
    "name": "t",
    "in": "path",
    "required": True,
    "description": "The time of a published release, or now",
    "schema": {"type": "string", "pattern": "^(now|[0-9]{1,15})$"},
    "example": "now",
}


def _question(name: str, kind: dict[str, Any], about: str, example: object) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": kind, "example": example}


def _whole(least: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": 10**15}


_LAST = _question("last", _whole(1), "Only about the last so many records; of now only", 1000)
_ROWS = _question("rows", {**_whole(1), "maximum": 1_000_000}, "How many synthetic records", 100)
_WHERE = _question(
    "where", {"type": "string"}, "A JSON object: a value, or a range, for some columns", '{"origin": "JFK"}'
)


def _object(required: list[str]) -> dict[str, Any]:
    return {"type": "object", "required": required}


def _json(schema: dict[str, Any], example: object = None) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **({} if example is None else {"example": example})}}


def _facts() -> dict[str, Any]:
    return _json(_object(["name", "t", "epsilon", "schema"]), {**_FACTS, "schema": {"headwater": 1, "columns": {}}})


def _problems(*statuses: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    always = (400, 401, 403, 421, 503)
    return {str(status): {"description": _SAID[status], "content": content} for status in sorted({*always, *statuses})}


_SAID = {
    400: "The request makes no sense",
    401: "A token is needed",
    403: "The token has another role, or the request comes from another site",
    404: "There is no such run or release, or the token is not for it",
    408: "The body did not arrive in time",
    409: "The Idempotency-Key was used for another body",
    410: "The table was removed; the card stays",
    413: "The body is too large, also when it is decompressed",
    415: "The Content-Type or Content-Encoding is not taken",
    421: "The service is not known under this name",
    422: "A record does not fit the schema; nothing was taken",
    429: "The queue is full; send it again after Retry-After seconds",
    503: "The service is stopping, or cannot write; send it again after Retry-After seconds",
}


def _get(summary: str, content: dict[str, Any], *more: int | dict[str, Any], html: bool = False) -> dict[str, Any]:
    if html:
        content = {**content, "text/html": {"schema": {"type": "string"}}}
    statuses = [one for one in more if isinstance(one, int)]
    parameters = [one for one in more if isinstance(one, dict)]
    answers = {"200": {"description": summary, "content": content}, "304": {"description": "It is what you have"}}
    return {
        "summary": summary,
        "parameters": parameters,
        "security": _SIGNED_IN,
        "responses": answers | _problems(*statuses),
    }


def _post() -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    json_schema = {"type": ["array", "object"], "items": {"type": "object"}}
    content: dict[str, Any] = dict.fromkeys(CONTENT_TYPES, binary)
    content |= {kind: {"schema": {"type": "string"}, "example": text} for kind, text in _EXAMPLES.items()}
    content["application/json"] = {"schema": json_schema, "example": _RECORDS}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same key with the same body counts once, also after restarts",
        "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
        "example": "delivery-2026-01-31-7",
    }
    accepted = {
        "application/json": {"schema": {"$ref": "#/components/schemas/Accepted"}, "example": {"accepted": 2, "t": 12}}
    }
    return {
        "summary": "Write records; answered when they are on the disk",
        "parameters": [_NAME, key],
        "security": [{"token": []}, {}],
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": "All of them were taken", "content": accepted}}
        | _problems(404, 408, 409, 413, 415, 422, 429),
    }


def _list() -> dict[str, Any]:
    questions = [
        _question("after", _whole(0), "Only releases of more records than this", 10000),
        _question("limit", _whole(1), "At most so many, and at most 1000", 100),
    ]
    content = _json(_object(["run", "releases"]), {"run": "trips", "releases": [_RELEASE]})
    return _get("Published releases, oldest first", content, 404, _NAME, *questions, html=True)


def _card() -> dict[str, Any]:
    content = _json(_object(["t", "span", "rows", "epsilon", "mechanism", "schema"]))
    return _get("The card of a release: what anyone may know of it", content, 404, _NAME, _T, _LAST)


def _data(form: str) -> dict[str, Any]:
    binary = form in ("parquet", "arrow")
    schema = {"type": "string", "format": "binary"} if binary else {"type": "array" if form == "json" else "string"}
    content = {MEDIA[form].partition(";")[0]: {"schema": schema}}
    found = _get(f"The table of a release as {form}", content, 404, 410, _NAME, _T, _LAST, _ROWS, _WHERE)
    found["responses"]["206"] = {"description": "A part of it, as asked for with Range"}
    found["responses"]["416"] = {"description": "There is no such part"}
    return found


def _events() -> dict[str, Any]:
    example = 'event: state\nid: 20000\ndata: {"t": 20000, "releases": 2, "newest": 20000}\n\n'
    content = {"text/event-stream": {"schema": {"type": "string"}, "example": example}}
    return _get("The state of the run, now and whenever it changes", content, 404, _NAME)


def _status() -> dict[str, Any]:
    content = _json(_object(["warning", "t", "refused_posts_by_column", "losses"]))
    return _get("What is secret, for admins only: which posts were refused", content, 404, _NAME)


def _plain(summary: str, example: str, *statuses: int) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}, "example": example}}
    answers: dict[str, Any] = {str(status): {"description": summary, "content": content} for status in statuses}
    return {"summary": summary, "responses": {**_problems(), **answers}}
