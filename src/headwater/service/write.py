"""``POST /runs/{name}/records``: answered when the records are on the disk."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from headwater.service import bodies
from headwater.service.access import run_for
from headwater.service.config import Limits
from headwater.service.posts import Accepted, Post
from headwater.service.problems import ProblemError
from headwater.service.receipts import digest
from headwater.service.service import Service

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_INLINE = 1 << 12  # bytes that are read in the loop itself: handing them to a thread takes longer
_CLOSE = {"Connection": "close"}


async def records(service: Service, request: Request) -> Response:
    """Take the records of a request, all of them or none. The header ``Idempotency-Key`` makes retries safe."""
    run, limits = run_for(service, request, "write"), service.config.limits
    headers = {name: value.decode("latin-1") for name, value in request.scope["headers"]}
    form = bodies.form_of(headers.get(b"content-type", ""))
    key = headers.get(b"idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ProblemError(400, "an Idempotency-Key is 1 to 255 printable ASCII characters without spaces")
    with service.reserve(_declared(headers.get(b"content-length"), limits)):
        raw = await _body(request.receive, limits)
        body = bodies.decompressed(raw, headers.get(b"content-encoding", ""), limits.body_bytes)
        request.state.bytes = len(raw)
        post = Post(body, form, _owned(key, request), digest(form.name.encode(), body))
        try:
            if len(body) <= _INLINE and form.format in ("json", "jsonl"):
                run.writer.encode(post)
            else:
                async with service.encoding:
                    await asyncio.to_thread(run.writer.encode, post)
            post.future = answered = asyncio.get_running_loop().create_future()
            run.writer.submit(post)
            answer: Accepted = await answered
        except ProblemError as problem:
            if problem.status == 422:
                run.count_refused(problem)
            raise
    request.state.t = answer.t
    more = {"Cache-Control": "no-store"}
    if answer.repeated:
        more["Idempotency-Replayed"] = "true"
    content = b'{"accepted":%d,"t":%d}' % (answer.accepted, answer.t)
    return Response(content, headers=more, media_type="application/json")


def _owned(key: str | None, request: Request) -> bytes | None:
    """A key belongs to the token that it came with: the answer to a retry shows whether two bodies are the same."""
    return None if key is None else digest(getattr(request.state, "token", "").encode(), key.encode())


def _declared(text: str | None, limits: Limits) -> int:
    """How long the body says that it is; the most it may be if it does not say."""
    length = limits.body_bytes if text is None else int(text) if text.isascii() and text.isdigit() else -1
    if length < 0:
        raise ProblemError(400, "Content-Length is not a number", _CLOSE)
    if length > limits.body_bytes:
        raise _too_long(limits)
    return length


def _too_long(limits: Limits) -> ProblemError:
    return ProblemError(413, f"a body may have at most {limits.body_bytes:,} bytes; send several", _CLOSE)


async def _body(receive: Receive, limits: Limits) -> bytes:
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProblemError(400, "the connection ended before the body did", _CLOSE)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    raise _too_long(limits)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise ProblemError(408, f"the body did not arrive within {limits.body_seconds:g} seconds", _CLOSE) from None
