"""``POST /runs/{name}/records``: answered when the records are on the disk."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from headwater.service import bodies
from headwater.service.access import run_for
from headwater.service.answers import to_json
from headwater.service.config import Limits
from headwater.service.posts import Post
from headwater.service.problems import ProblemError
from headwater.service.receipts import digest
from headwater.service.service import Service

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_INLINE = 1 << 12  # bytes that are read in the loop itself: handing them to a thread takes longer
_CLOSE = {"Connection": "close"}


async def records(request: Request) -> Response:
    """Take the records of a request, all of them or none.

    Parameters
    ----------
    request
        Its body holds records, its header ``Idempotency-Key`` makes retries safe.
    """
    service: Service = request.app.state.service
    run, limits = run_for(service, request, "write"), service.config.limits
    form = bodies.format_of(request.headers.get("content-type", ""))
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ProblemError(400, "an Idempotency-Key is 1 to 255 printable ASCII characters without spaces")
    with service.admission.reserve(_declared(request, limits)):
        raw = await _body(request, limits)
        body = bodies.decompressed(raw, request.headers.get("content-encoding", ""), limits.body_bytes)
        request.state.bytes = len(raw)
        post = Post(body, form, _owned(key, request), digest(form.encode(), body))
        try:
            if len(body) <= _INLINE and form in ("json", "jsonl"):
                run.writer.encode(post)
            else:
                async with service.encoding:
                    await asyncio.to_thread(run.writer.encode, post)
            post.future = asyncio.get_running_loop().create_future()
            run.writer.submit(post)
            answer = await post.future
        except ProblemError as problem:
            if problem.status == 422:
                run.count_refused(problem)
            raise
    request.state.t = answer.t
    headers = {"Cache-Control": "no-store"}
    if answer.repeated:
        headers["Idempotency-Replayed"] = "true"
    content = to_json({"accepted": answer.accepted, "t": answer.t})
    return Response(content, headers=headers, media_type="application/json")


def _owned(key: str | None, request: Request) -> bytes | None:
    """A key belongs to the token that it came with: the answer to a retry tells whether two bodies are the same."""
    return None if key is None else digest(getattr(request.state, "token", "").encode(), key.encode())


def _declared(request: Request, limits: Limits) -> int:
    """How long the body says that it is; the most it may be if it does not say."""
    text = request.headers.get("content-length")
    length = limits.body_bytes if text is None else int(text) if text.isascii() and text.isdigit() else -1
    if length < 0:
        raise ProblemError(400, "Content-Length is not a number", _CLOSE)
    if length > limits.body_bytes:
        raise ProblemError(413, f"a body may have at most {limits.body_bytes:,} bytes; send several", _CLOSE)
    return length


async def _body(request: Request, limits: Limits) -> bytes:
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise ProblemError(
                        413, f"a body may have at most {limits.body_bytes:,} bytes; send several", _CLOSE
                    )
                parts.append(part)
    except TimeoutError:
        raise ProblemError(408, f"the body did not arrive within {limits.body_seconds:g} seconds", _CLOSE) from None
    except ClientDisconnect:
        raise ProblemError(400, "the connection ended before the body did", _CLOSE) from None
    return b"".join(parts)
