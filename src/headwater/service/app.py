"""The addresses of the service, and what holds for every request."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater import __version__
from headwater.service import live, read, write
from headwater.service.answers import FOREVER, ProblemError, busy, log, place_of, send
from headwater.service.hosted import Service
from headwater.service.render import MEDIA
from headwater.service.tokens import check_headers, readable, token_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_DETAILS = {404: "there is nothing at this address", 405: "this address does not take this method"}
_GZIP = [Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)]  # of short answers: tables are a proxy's work
Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(service: Service) -> ASGIApp:
    run = "/runs/{name}"
    shown: dict[str, Endpoint] = {
        "/": read.runs,
        "/runs": read.runs,
        run: read.run,
        f"{run}/live": read.live,
        f"{run}/releases": read.releases,
        f"{run}/releases/{{t}}/card": read.card,
        f"{run}/status": read.status,
        "/openapi.json": _openapi,
        "/static/{file}": _static,
    }
    plain: dict[str, Endpoint] = {
        **{f"{run}/releases/{{t}}/data.{form}": read.data for form in MEDIA},
        f"{run}/events": read.events,
        "/healthz": _healthz,
        "/readyz": _readyz,
        "/metrics": _metrics,
    }
    routes = [Route(f"{run}/records", write.records, methods=["POST"])]  # first: it is asked for most often
    routes += [Route(path, endpoint) for path, endpoint in plain.items()]
    routes += [Route(path, endpoint, middleware=_GZIP) for path, endpoint in shown.items()]
    return Guard(Router(routes, redirect_slashes=False), service)


class Guard:
    """What holds for every request: who it comes from, what its answer says, and what is written down of it."""

    def __init__(self, router: Router, service: Service) -> None:
        self.router, self._service = router, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.router(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0
        scope["app"], scope["state"] = self, {"service": self._service}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start" and not status:
                status = message["status"]
                there = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in _SECURITY if one[0] not in there)]
                self._count(scope, status, time.perf_counter() - begun)
            await send(message)

        problem: ProblemError | None = None
        try:
            check_headers(self._service.config, scope["method"], scope["headers"])
            if b"%" in scope.get("raw_path", b"").partition(b"?")[0]:  # no address of ours has a character to escape
                raise ProblemError(404, _DETAILS[404])
            await self.router(scope, receive, sending)
        except ProblemError as error:
            problem = error
        except HTTPException as error:
            detail = _DETAILS.get(error.status_code, "this request cannot be answered")
            problem = ProblemError(error.status_code, detail, dict(error.headers or {}))
        except Exception as error:  # its text may hold a value: only its kind and place are written down
            log("error", error=type(error).__name__, place=place_of(error), route=_route(scope))
            short = isinstance(error, OSError | MemoryError)
            problem = (
                busy("there is no room for this")
                if short
                else ProblemError(500, "the service failed; its log says where")
            )
        if problem is not None and not status:
            await problem.response()(scope, receive, sending)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        self._service.metrics.count(scope["method"], route, status, seconds)
        known = {key: scope["state"][key] for key in ("run", "token", "bytes", "t") if key in scope["state"]}
        log("request", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 1), **known)


def _route(scope: Scope) -> str:
    """The pattern of an address, never the address itself: a client may put anything there."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "unknown"


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})


async def _readyz(request: Request) -> Response:
    service: Service = request.state.service
    ready = not service.stopping and not any(run.failing for run in service.runs.values())
    text = "ready\n" if ready else "not ready\n"
    return PlainTextResponse(text, 200 if ready else 503, {"Cache-Control": "no-store"})


async def _metrics(request: Request) -> Response:
    service: Service = request.state.service
    if service.tokens is not None and token_of(service, request) is None:
        raise ProblemError(401, "this needs a token", {"WWW-Authenticate": "Bearer"})
    text = service.metrics.text(readable(service, request))
    return PlainTextResponse(text, headers={"Cache-Control": "no-store"}, media_type="text/plain; version=0.0.4")


async def _openapi(request: Request) -> Response:
    text = (files("headwater.service") / "openapi.json").read_text(encoding="utf-8")
    return send(request, text.replace("{{version}}", __version__).encode())


async def _static(request: Request) -> Response:
    found = live.static(request.path_params["file"])
    if found is None:
        raise ProblemError(404, _DETAILS[404])
    return send(request, *found, FOREVER)
