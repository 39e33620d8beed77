"""Answers, problems and log lines. None of them holds a value of a record or a text that was sent."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headwater.public.errors import TableError

REVALIDATE, FOREVER = "no-cache", "max-age=31536000, immutable"

quiet = False  # whether requests that went well are left out of the log


class ProblemError(Exception):
    """A request that is refused: an answer of RFC 9457."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:  # noqa: ANN401
        super().__init__(status, detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers or {}, more

    def response(self) -> Response:
        title = HTTPStatus(self.status).phrase
        content = msgspec.json.encode({"title": title, "status": self.status, "detail": self.detail, **self.more})
        return Response(content, self.status, {"Cache-Control": "no-store", **self.headers}, "application/problem+json")


def busy(detail: str, status: int = 503, seconds: int = 2) -> ProblemError:
    return ProblemError(status, f"{detail}; try again in a moment", {"Retry-After": str(seconds)})


def of_table(error: TableError) -> ProblemError:
    """The answer to records that do not fit the schema: row and column, never a value."""
    place = {name: getattr(error, name) for name in ("line", "row", "column") if getattr(error, name) is not None}
    return ProblemError(422, str(error.for_sender()), None, **place)


def wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def is_known(request: Request, etag: str) -> bool:
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return "*" in known or etag.removeprefix("W/") in known


def send(request: Request, content: bytes, media_type: str = "application/json", cache: str = REVALIDATE) -> Response:
    """Send content with a validator: a weak one, since it may be compressed on its way."""
    etag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": cache, "Vary": "Accept, Accept-Encoding, Authorization"}
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def to_json(data: object) -> bytes:
    """JSON; what is not finite is null."""
    return msgspec.json.encode(data, enc_hook=lambda number: number.item())  # of NumPy


def send_json(request: Request, data: object, cache: str = REVALIDATE) -> Response:
    return send(request, to_json(data), cache=cache)


def log(event: str, **facts: object) -> None:
    """Write a line of JSON on standard error. Facts are numbers and names of our own, never text of a request."""
    status = facts.get("status")
    if quiet and event == "request" and isinstance(status, int) and status < 500:
        return
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stderr.write(json.dumps({"time": time, "event": event, **facts}) + "\n")


def place_of(error: BaseException) -> str:
    """Where an error was raised, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


class ServerLog(logging.Handler):
    """Lines of the HTTP server, without exceptions and their texts."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            log("server", level=record.levelname.lower(), message=str(record.msg).split("\n")[0][:100], error=kind)
