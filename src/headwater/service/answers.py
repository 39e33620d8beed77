"""How answers are sent: JSON with validators, files in parts, compressed where the client takes it."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from headwater.service.problems import MEDIA_TYPE, ProblemError
from headwater.service.releases import Table

_COMPRESSED_FROM = 1024  # bytes
_AT_ONCE = 1 << 17  # bytes of a file that are sent at once: handing it to a thread, step by step, takes longer
REVALIDATE, FOREVER = "no-cache", "max-age=31536000, immutable"


def to_json(data: object) -> bytes:
    """JSON without numbers that JSON does not have: an unknown error is null, not Infinity."""
    return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _finite(data: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def takes_gzip(request: Request) -> bool:
    """Whether the client takes compressed answers."""
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, options = part.partition(";")
        if name.strip().lower() == "gzip":
            return options.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def wants_html(request: Request) -> bool:
    """Whether the client is a browser that shows a page."""
    return "text/html" in request.headers.get("accept", "")


def is_known(request: Request, etag: str) -> bool:
    """Whether the client has this content already."""
    known = request.headers.get("if-none-match")
    return known is not None and (
        known.strip() == "*" or etag in (part.strip().removeprefix("W/") for part in known.split(","))
    )


def send(request: Request, content: bytes, media_type: str, cache: str = REVALIDATE) -> Response:
    """Send content with a validator, compressed if it is long."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    found = {"ETag": etag, "Cache-Control": cache, "Vary": "Accept, Accept-Encoding, Authorization"}
    if is_known(request, etag):
        return Response(status_code=304, headers=found)
    if len(content) >= _COMPRESSED_FROM and takes_gzip(request):
        content = gzip.compress(content, 5, mtime=0)
        found["Content-Encoding"] = "gzip"
        found["ETag"] = f"W/{etag}"
    return Response(content, headers=found, media_type=media_type)


def send_json(request: Request, data: object, cache: str = REVALIDATE) -> Response:
    """Send JSON."""
    return send(request, to_json(data), "application/json", cache)


def send_table(request: Request, table: Table, cache: str, gzipped: bool) -> Response:
    """Send a file: whole, in parts, or not at all if the client has it."""
    headers = {"ETag": table.etag, "Cache-Control": cache, "Vary": "Accept-Encoding, Authorization"}
    headers["Headwater-T"] = str(table.t)
    if gzipped:
        headers["Content-Encoding"] = "gzip"
    if is_known(request, table.etag):
        return Response(status_code=304, headers=headers)
    if "range" not in request.headers and table.path.stat().st_size <= _AT_ONCE:
        headers["Accept-Ranges"] = "bytes"
        return Response(table.path.read_bytes(), headers=headers, media_type=table.media_type)
    return FileResponse(table.path, headers=headers, media_type=table.media_type)


def send_problem(problem: ProblemError) -> Response:
    """Send what is wrong."""
    headers = {"Cache-Control": "no-store", **problem.headers}
    return Response(to_json(problem.to_dict()), problem.status, headers, MEDIA_TYPE)
