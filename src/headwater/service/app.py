"""The addresses of the service, and what holds for every request."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.service import openapi, pages, read, write
from headwater.service.access import check_headers, readable, token_of
from headwater.service.answers import FOREVER, send, send_json, send_problem
from headwater.service.logs import log, place_of
from headwater.service.problems import ProblemError
from headwater.service.service import Service

_FAILED = "the service failed; its log says where"
_SECURITY = [
    (b"content-security-policy", pages.POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_RECORDS = re.compile("/runs/([^/]+)/records")


def create_app(service: Service) -> ASGIApp:
    """The application of a service, for any server of ASGI applications in one process."""
    name = "/runs/{name}"
    routes = [
        Route("/", read.runs),
        Route("/runs", read.runs),
        Route(name, read.run),
        Route(f"{name}/live", read.live),
        Route(f"{name}/records", _records, methods=["POST"]),
        Route(f"{name}/releases", read.releases),
        Route(f"{name}/releases/{{t}}/card", read.card),
        *(Route(f"{name}/releases/{{t}}/data.{form}", _data(form)) for form in ("parquet", "csv", "json", "arrow")),
        Route(f"{name}/events", read.events),
        Route(f"{name}/status", read.status),
        Route("/healthz", _healthz),
        Route("/readyz", _readyz),
        Route("/metrics", _metrics),
        Route("/openapi.json", _openapi),
        Route("/static/{file}", _static),
    ]

    handlers: dict[Any, Any] = {ProblemError: _problem, HTTPException: _http_exception, Exception: _unexpected}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.service = service
    return _Guard(app, service, next(route for route in routes if route.endpoint is _records))


class _Guard:
    """What holds for every request: who it comes from, what its answer says, and what is written down of it."""

    def __init__(self, app: ASGIApp, service: Service, records: Route) -> None:
        self._app, self._service, self._records = app, service, records

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0
        scope["state"] = {}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name for name, _ in message["headers"]}
                message["headers"] += [header for header in _SECURITY if header[0] not in there]
                self._count(scope, status, time.perf_counter() - begun)
            await send(message)

        try:
            check_headers(self._service.config, scope["method"], scope["headers"])
            await self._answer(scope, receive, sending)
        except ProblemError as problem:
            await send_problem(problem)(scope, receive, sending)
        except Exception as error:  # its text may hold a value: only its kind and place are written down
            log("error", error=type(error).__name__, place=place_of(error), route=_route(scope))
            if not status:
                await send_problem(ProblemError(500, _FAILED))(scope, receive, sending)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Posts of records go straight to their function: finding it would take as long as the rest of the request."""
        found = _RECORDS.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = self._records, {"name": found[1]}
        answer = await write.records(self._service, Request(scope, receive))
        await answer(scope, receive, send)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        self._service.metrics.count(scope["method"], route, status, seconds)
        log(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            **{key: scope["state"][key] for key in ("run", "token", "bytes", "t") if key in scope["state"]},
        )


def _route(scope: Scope) -> str:
    """The pattern of an address, never the address itself: a client may put anything there."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "unknown"


async def _records(request: Request) -> Response:
    return await write.records(request.app.state.service, request)


def _data(form: str) -> Any:  # noqa: ANN401 - an endpoint
    async def data(request: Request) -> Response:
        request.path_params["form"] = form
        return await read.data(request)

    return data


async def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, ProblemError)  # noqa: S101 - for the type checker
    return send_problem(problem)


async def _unexpected(request: Request, error: Exception) -> Response:
    """The error itself goes on to `_Guard`, which writes down where it was."""
    return send_problem(ProblemError(500, _FAILED))


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    detail = {404: "there is nothing at this address", 405: "this address does not take this method"}
    found = ProblemError(error.status_code, detail.get(error.status_code, "this request cannot be answered"))
    found.headers = dict(error.headers or {})
    return send_problem(found)


async def _healthz(request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})


async def _readyz(request: Request) -> Response:
    """All runs take records and publish."""
    service: Service = request.app.state.service
    ready = not service.stopping and not any(run.failing for run in service.runs.values())
    text = "ready\n" if ready else "not ready\n"
    return PlainTextResponse(text, 200 if ready else 503, {"Cache-Control": "no-store"})


async def _metrics(request: Request) -> Response:
    service: Service = request.app.state.service
    if service.tokens is not None and token_of(service, request) is None:
        raise ProblemError(401, "this needs a token", {"WWW-Authenticate": "Bearer"})
    text = await asyncio.to_thread(service.metrics.text, readable(service, request))
    return PlainTextResponse(text, headers={"Cache-Control": "no-store"}, media_type="text/plain; version=0.0.4")


async def _openapi(request: Request) -> Response:
    return send_json(request, openapi.document())


async def _static(request: Request) -> Response:
    found = pages.static(request.path_params["file"])
    if found is None:
        raise ProblemError(404, "there is nothing at this address")
    return send(request, *found, FOREVER)
