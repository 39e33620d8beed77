"""Everything that is read: runs, releases, tables, events. None of it costs ε."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headwater.service import pages
from headwater.service.access import readable, run_for
from headwater.service.answers import FOREVER, REVALIDATE, send, send_json, send_table, takes_gzip, wants_html
from headwater.service.hosted import HostedRun
from headwater.service.problems import ProblemError
from headwater.service.releases import Wanted
from headwater.service.render import COMPRESSED
from headwater.service.service import Service

_MOST = 10**15  # of any number in an address


async def runs(request: Request) -> Response:
    """The runs that the client may read."""
    found = readable(request.app.state.service, request)
    listed = [await asyncio.to_thread(_summary, run) for run in found.values()]
    if wants_html(request):
        return send(request, pages.home(listed), pages.HTML)
    return send_json(request, {"runs": listed})


async def run(request: Request) -> Response:
    """One run: the live page, or its facts."""
    found = run_for(request.app.state.service, request, "read")
    summary = await asyncio.to_thread(_summary, found)
    if wants_html(request):
        return send(request, pages.live(summary), pages.HTML)
    return send_json(request, {**summary, "schema": found.schema.to_dict()})


async def live(request: Request) -> Response:
    """What the live page draws."""
    found = run_for(request.app.state.service, request, "read")
    return send(request, await asyncio.to_thread(found.live.json), "application/json")


async def releases(request: Request) -> Response:
    """The list of releases. ``after`` and ``limit`` page through it."""
    found = run_for(request.app.state.service, request, "read")
    asked = _query(request, {"after", "limit"})
    after, limit = _number(asked, "after", 0), _number(asked, "limit", 1)
    listed = await asyncio.to_thread(_listed, found, after or 0, min(limit or 1000, 1000))
    if wants_html(request):
        return send(request, pages.releases(found.name, listed), pages.HTML)
    return send_json(request, {"run": found.name, "releases": listed})


async def card(request: Request) -> Response:
    """The card of one release."""
    found = run_for(request.app.state.service, request, "read")
    t = _time(request)
    asked = _query(request, {"last"} if t is None else set())
    if t is None:
        last = _number(asked, "last", 1)
        return send_json(request, await asyncio.to_thread(found.releases.now_card, last))
    return send_json(request, await asyncio.to_thread(found.releases.card, t), FOREVER)


async def data(request: Request) -> Response:
    """The table of one release. ``last``, ``rows`` and ``where`` say which records."""
    service: Service = request.app.state.service
    found, t = run_for(service, request, "read"), _time(request)
    asked = _query(request, {"last", "rows", "where"})
    rows = _number(asked, "rows", 1)
    if rows is not None and rows > service.config.limits.records:
        raise ProblemError(400, f"rows may be at most {service.config.limits.records:,} at a time")
    wanted = Wanted(_number(asked, "last", 1), rows, _where(asked))
    form = request.path_params["form"]
    gzipped = form in COMPRESSED and takes_gzip(request) and "range" not in request.headers
    table = found.releases.ready(t, wanted, form, gzipped)
    if table is None:
        async with service.rendering:
            table = await asyncio.to_thread(found.releases.table, t, wanted, form, gzipped)
    return send_table(request, table, REVALIDATE if t is None else FOREVER, gzipped)


async def events(request: Request) -> Response:
    """A stream of events: the state whenever it changes."""
    service: Service = request.app.state.service
    found = run_for(service, request, "read")
    if sum(run.events.readers for run in service.runs.values()) >= service.config.limits.streams:
        raise ProblemError(503, "too many readers of events", {"Retry-After": "10"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(found.events.stream(), headers=headers, media_type="text/event-stream")


async def status(request: Request) -> Response:
    """What is secret: which posts were refused and why. For admins only."""
    found = run_for(request.app.state.service, request, "admin")
    return send_json(request, await asyncio.to_thread(found.status), "no-store")


def _summary(run: HostedRun) -> dict[str, Any]:
    """What anyone who may read may know of a run, at any time."""
    settings = run.settings
    every = {"records": settings.schedule.records, "seconds": settings.schedule.seconds}
    facts: dict[str, Any] = {**run.guarantee.to_dict(), "guarantee": str(run.guarantee)}
    facts |= {"mechanism": run.mechanism, "public": settings.public}
    return {"name": run.name, "run": run.run.run_id, **run.state(), **facts, "every": every}


def _listed(run: HostedRun, after: int, limit: int) -> list[dict[str, Any]]:
    times = [t for t in run.releases.times() if t > after][:limit]
    cards = [run.releases.card(t) for t in times]
    return [{key: one[key] for key in ("t", "time", "rows", "sha256", "data")} for one in cards]


def _time(request: Request) -> int | None:
    text = request.path_params["t"]
    if text == "now":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ProblemError(404, "a release is named by its t, or is now")
    return int(text)


def _query(request: Request, known: set[str]) -> dict[str, str]:
    """The questions of an address, each at most once."""
    found = request.query_params.multi_items()
    for name, _ in found:
        if name not in known:
            raise ProblemError(400, f"there is no such parameter here; there are {', '.join(sorted(known)) or 'none'}")
    if len(dict(found)) < len(found):
        raise ProblemError(400, "a parameter is there twice")
    return dict(found)


def _number(asked: dict[str, str], name: str, least: int) -> int | None:
    text = asked.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and least <= int(text) <= _MOST):
        raise ProblemError(400, f"{name} must be a whole number from {least}")
    return int(text)


def _where(asked: dict[str, str]) -> dict[str, Any] | None:
    """Conditions as a JSON object: a value, null for a missing one, or a list of two for a range."""
    text = asked.get("where")
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError):
        where = None
    fits = isinstance(where, dict) and all(_is_condition(value) for value in where.values())
    if not fits:
        raise ProblemError(400, 'where must be a JSON object such as {"origin": "JFK", "delay": [0, 30]}')
    return where or None


def _is_condition(value: object) -> bool:
    plain = (str, int, float, bool, type(None))
    if isinstance(value, list):
        return len(value) == 2 and all(isinstance(end, plain) for end in value)
    return isinstance(value, plain)
