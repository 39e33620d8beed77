"""Everything that is read: runs, releases, tables, events. None of it costs ε."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headwater.service import live as pages
from headwater.service.answers import FOREVER, REVALIDATE, ProblemError, busy, is_known, send, send_json, wants_html
from headwater.service.hosted import HostedRun, Service
from headwater.service.releases import Table, Wanted
from headwater.service.render import unless_gone
from headwater.service.tokens import client_of, readable, run_for, token_of

_MOST = 10**15  # of any number in an address
_PLAIN = (str, int, float, bool, type(None))


async def runs(request: Request) -> Response:
    listed = [_summary(run) for run in readable(request.state.service, request).values()]
    if wants_html(request):
        return send(request, pages.home(listed), pages.HTML)
    return send_json(request, {"runs": listed})


async def run(request: Request) -> Response:
    found = _run(request)
    if wants_html(request):
        return send(request, pages.page_of(_summary(found)), pages.HTML)
    return send_json(request, {**_summary(found), "schema": found.settings.schema.to_dict()})


async def live(request: Request) -> Response:
    found = _run(request)
    return send(request, await unless_gone(request.receive, found.live.json(client_of(request))))


async def releases(request: Request) -> Response:
    found, asked = _run(request), _query(request, {"after", "limit"})
    after, limit = _number(asked, "after", 0) or 0, min(_number(asked, "limit", 1) or 1000, 1000)
    times = [t for t in found.releases.times if t > after][:limit]
    cards = await asyncio.to_thread(lambda: [found.releases.card(t) for t in times])
    listed = [{key: card[key] for key in ("t", "time", "rows", "sha256", "data")} for card in cards]
    if wants_html(request):
        return send(request, pages.releases(found.name, listed), pages.HTML)
    return send_json(request, {"run": found.name, "releases": listed})


async def card(request: Request) -> Response:
    found, t = _run(request), _time(request)
    last = _number(_query(request, {"last"} if t is None else set()), "last", 1)
    if t is not None:
        return send_json(request, found.releases.card(t), FOREVER)
    return send_json(request, await unless_gone(request.receive, found.releases.now_card(client_of(request), last)))


async def data(request: Request) -> Response:
    found, t, most = _run(request), _time(request), request.state.service.config.limits.records
    asked = _query(request, {"last", "rows", "where"})
    rows = _number(asked, "rows", 1)
    if rows is not None and rows > most:
        raise ProblemError(400, f"rows may be at most {most:,} at a time")
    wanted = Wanted(_number(asked, "last", 1), rows, _where(asked))
    making = found.releases.table(client_of(request), t, wanted, request.url.path.rpartition(".")[2])
    return _send_table(request, await unless_gone(request.receive, making), REVALIDATE if t is None else FOREVER)


def _send_table(request: Request, table: Table, cache: str) -> Response:
    headers = {"ETag": table.etag, "Cache-Control": cache, "Vary": "Authorization", "Headwater-T": str(table.t)}
    if is_known(request, table.etag):
        return Response(status_code=304, headers=headers)
    if isinstance(table.content, bytes):
        return Response(table.content, headers=headers, media_type=table.media_type)
    headers["Content-Length"] = str(table.content.size)
    return StreamingResponse(table.content.pieces(), headers=headers, media_type=table.media_type)


async def events(request: Request) -> Response:
    service: Service = request.state.service
    found, token, client = _run(request), token_of(service, request), client_of(request)
    readers = [run.events.readers for run in service.runs.values()]
    most = service.config.limits.streams
    if sum(one.total() for one in readers) >= most or sum(one[client] for one in readers) >= max(1, most // 4):
        raise busy("too many readers of events", seconds=10)

    def allowed() -> bool:
        return token is None or service.tokens is None or service.tokens.holds(token)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(found.events.stream(client, allowed), headers=headers, media_type="text/event-stream")


async def status(request: Request) -> Response:
    """What is secret: which posts were refused and why. For admins only."""
    found = run_for(request.state.service, request, "admin")
    return send_json(request, await asyncio.to_thread(found.status), "no-store")


def _run(request: Request) -> HostedRun:
    return run_for(request.state.service, request, "read")


def _summary(run: HostedRun) -> dict[str, Any]:
    schedule = run.settings.schedule
    facts: dict[str, Any] = {**run.guarantee.to_dict(), "guarantee": str(run.guarantee), "mechanism": run.mechanism}
    facts |= {"public": run.settings.public, "every": {"records": schedule.records, "seconds": schedule.seconds}}
    return {"name": run.name, "run": run.run.run_id, **run.state(), **facts}


def _time(request: Request) -> int | None:
    text = request.path_params["t"]
    if text == "now":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ProblemError(404, "a release is named by its t, or is now")
    return int(text)


def _query(request: Request, known: set[str]) -> dict[str, str]:
    found = request.query_params.multi_items()
    if not known.issuperset(dict(found)):
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
    if "where" not in asked:
        return None
    try:
        found = json.loads(asked["where"])
        where = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    except (ValueError, RecursionError, AttributeError):
        where = {"": ()}
    for value in where.values():
        if not isinstance(value, _PLAIN) and not (len(value) == 2 and all(isinstance(end, _PLAIN) for end in value)):
            raise ProblemError(400, 'where must be a JSON object such as {"origin": "JFK", "delay": [0, 30]}')
    return where or None
