"""``POST /runs/{name}/records``: answered when the records are on the disk, many posts in one transaction."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from headwater.public.errors import TableError
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.run import Run
from headwater.run.lock import StoreError
from headwater.secret.batch import Batch, in_order
from headwater.secret.read.lines import ArrayLines
from headwater.secret.read.source import read_bytes
from headwater.secret.read.text import is_json
from headwater.service.answers import ProblemError, busy, of_table
from headwater.service.render import Cache
from headwater.service.settings import Limits, RunSettings
from headwater.service.tokens import run_for

CONTENT_TYPES = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.parquet": "parquet",
}
KEYS = 1 << 20  # how many idempotency keys are remembered at least
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_CLOSE = {"Connection": "close"}
_SMALL = 1 << 12  # bytes of JSON that are read together with others: a post by itself takes a hundred times as long
_GROUP_POSTS, _GROUP_BYTES = 2048, 64 << 20
_OVERHEAD = 512  # bytes of a post besides its records
_CURL = "curl -d and --data remove line ends: send a file with --data-binary @FILE, and its Content-Type with -H"
_LOST = "the records could not be kept; nothing of this request was counted: send it again"
_UNKNOWN = (
    "the service failed while it took this request, and may have counted it: send it again with its Idempotency-Key; "
    "without one, it might count twice"
)


# ---- requests


async def records(request: Request) -> Response:
    """Take the records of a request, all of them or none. The header ``Idempotency-Key`` makes retries safe."""
    service, headers = request.state.service, request.headers
    run, limits = run_for(service, request, "write"), service.config.limits
    form = form_of(headers.get("content-type", ""))
    key = headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ProblemError(400, "an Idempotency-Key is 1 to 255 printable ASCII characters without spaces")
    with service.reserve(_declared(headers.get("content-length"), limits)):
        raw = await _body(request.receive, limits)
        run_for(service, request, "write")  # the token may have been revoked meanwhile
        body = decompressed(raw, headers.get("content-encoding", ""), limits.body_bytes)
        request.state.bytes = len(raw)
        owner = getattr(request.state, "token", "")  # an answer to a retry shows whether two bodies are the same
        named = None if key is None else digest(owner.encode(), key.encode())
        post = Post(body, form, named, digest(repr(form).encode(), body))
        try:
            if not post.is_small:
                async with service.encoding:
                    await asyncio.to_thread(run.writer.read, post)
            run.writer.submit(post)
            answer = await asyncio.wrap_future(post.answer)
        except ProblemError as problem:
            if problem.status == 422:
                run.count_refused(problem)
            raise
    request.state.t = answer.t
    more = {"Cache-Control": "no-store"} | ({"Idempotency-Replayed": "true"} if answer.repeated else {})
    return Response(b'{"accepted":%d,"t":%d}' % answer[:2], headers=more, media_type="application/json")


def _declared(text: str | None, limits: Limits) -> int:
    length = limits.body_bytes if text is None else int(text) if text.isascii() and text.isdigit() else -1
    if length < 0:
        raise ProblemError(400, "Content-Length is not a number", _CLOSE)
    if length > limits.body_bytes:
        raise _too_long(limits)
    return length


def _too_long(limits: Limits) -> ProblemError:
    return ProblemError(413, f"a body may have at most {limits.body_bytes:,} bytes; send several", _CLOSE)


async def _body(receive: Receive, limits: Limits) -> bytes:
    parts, size, more = list[bytes](), 0, True
    try:
        async with asyncio.timeout(limits.body_seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProblemError(400, "the connection ended before the body did", _CLOSE)
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > limits.body_bytes:
                    raise _too_long(limits)
    except TimeoutError:
        raise ProblemError(408, f"the body did not arrive within {limits.body_seconds:g} seconds", _CLOSE) from None
    return b"".join(parts)


# ---- bodies


class Form(NamedTuple):
    """A format of `CONTENT_TYPES`, and the encoding of CSV if the content type says it: it wins over the schema."""

    format: str
    encoding: str | None = None


def form_of(content_type: str) -> Form:
    kind, _, option = (part.strip().replace('"', "") for part in content_type.lower().partition(";"))
    if kind == "application/x-www-form-urlencoded":
        raise ProblemError(415, f"this was sent as a form; {_CURL} 'Content-Type: text/csv'")
    if kind not in CONTENT_TYPES or option not in ("", "charset=utf-8", "header=present"):
        raise ProblemError(415, f"send one of {', '.join(CONTENT_TYPES)} as Content-Type, text as UTF-8")
    return Form(CONTENT_TYPES[kind], "utf-8" if (kind, option) == ("text/csv", "charset=utf-8") else None)


def decompressed(body: bytes, encoding: str, most: int) -> bytes:
    """A body without its Content-Encoding, or a problem; never more than ``most`` bytes are made."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name != "gzip":
        raise ProblemError(415, "send the body as it is, or with Content-Encoding: gzip")
    engine = zlib.decompressobj(wbits=31)
    try:
        found = engine.decompress(body, most + 1)
    except zlib.error:
        raise ProblemError(400, "the body is not compressed as Content-Encoding says") from None
    if len(found) > most:
        raise ProblemError(413, f"a body may have at most {most:,} bytes when it is decompressed; send several")
    if not engine.eof or engine.unused_data:
        raise ProblemError(400, "the compressed body is cut short, or something follows it")
    return found


def lines_of(body: bytes) -> bytes:
    """A JSON array of objects, or one object, as JSON lines; every value stays as it is written."""
    text = body.strip(b" \t\r\n")
    single = text.startswith(b"{")
    array = b"[" + text + b"]" if single else text
    try:
        found = msgspec.json.decode(array, type=list[msgspec.Raw])
        lines = [bytes(raw).replace(b"\n", b" ").replace(b"\r", b" ") for raw in found]  # between tokens only
        fits = True
    except (msgspec.DecodeError, RecursionError):  # slower: brackets outside of strings are counted
        lines = ArrayLines().convert(array, final=True).removesuffix(b"\n").split(b"\n")
        fits = text.startswith((b"[", b"{")) and all(map(is_json, lines))
    if not fits or (single and len(lines) > 1):  # outside of the handler: its exception holds the text
        raise TableError("a body that is not JSON", "send a JSON array of objects, or one object")
    return b"\n".join(lines)


# ---- what is kept


def digest(*parts: bytes) -> bytes:
    """Sixteen bytes that stand for a key or a body; the last one is not zero, which arrays would drop."""
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()[:15] + b"\x01"


class Accepted(NamedTuple):
    """The answer to a writer: how many records were accepted, the ``t`` they ended at, and whether it was a retry."""

    accepted: int
    t: int
    repeated: bool = False


class Receipts:
    """What was answered under the last million or more keys, in sorted blocks of 48 bytes each: key, body, answer."""

    _BLOCK = 1 << 16
    _RECORD = np.dtype([("key", "S16"), ("body", "S16"), ("accepted", "<u8"), ("t", "<u8")])

    def __init__(self, kept: Iterable[bytes] = ()) -> None:
        self._blocks: list[np.ndarray] = []
        self._recent: dict[bytes, bytes] = {}
        data = b"".join(kept)
        self._sort(np.frombuffer(data[: len(data) - len(data) % self._RECORD.itemsize], self._RECORD))

    def find(self, key: bytes) -> tuple[bytes, Accepted] | None:
        blocks = [np.frombuffer(self._recent[key], self._RECORD)] if key in self._recent else self._blocks[::-1]
        for block in blocks:
            at = int(np.searchsorted(block["key"], key))
            if at < len(block) and block["key"][at] == key:
                _, body, accepted, t = block[at].tolist()
                return body, Accepted(accepted, t)
        return None

    def add(self, receipt: bytes) -> None:
        self._recent[receipt[:16]] = receipt
        if len(self._recent) >= self._BLOCK:
            self._sort(np.frombuffer(b"".join(self._recent.values()), self._RECORD))
            self._recent = {}

    def _sort(self, receipts: np.ndarray) -> None:
        for start in range(0, len(receipts), self._BLOCK):
            block = receipts[start : start + self._BLOCK]
            self._blocks.append(block[np.argsort(block["key"], kind="stable")])
        while sum(map(len, self._blocks[1:])) >= KEYS:
            del self._blocks[0]


@dataclass
class Post:
    """One request to write: its decompressed body until it is read, then its records as the run keeps them."""

    body: bytes
    form: Form
    key: bytes | None
    digest: bytes
    batch: Batch | None = None
    size: int = 0
    answer: Future[Accepted] = field(default_factory=Future)

    @property
    def is_small(self) -> bool:
        return self.form.format in ("json", "jsonl") and len(self.body) <= _SMALL


class Writer:
    def __init__(
        self, run: Run, settings: RunSettings, limits: Limits, taken: Callable[[int], None], cache: Cache
    ) -> None:
        self._run, self._settings, self._limits, self._taken, self._cache = run, settings, limits, taken, cache
        self._schema = cast(Schema, run.synth.input_schema)  # with the column of people
        self._none = run.encode({name: [] for name in self._schema.inputs})
        run.read_as({**self._schema.reading, **({"ignore_extra": True} if settings.ignore_extra else {})})
        self._receipts, self._stale = Receipts(run.receipts()), False  # stale after an error: the state decides
        self._queue: deque[Post] = deque()
        self._bytes, self._closing = 0, False
        self._behind = 0  # bytes of records that are kept and not yet counted
        self._changed = threading.Condition()
        self.failing = ""  # why the last commit failed, without any value
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)
        self._thread.start()

    # ---- reading records: any thread

    def read(self, post: Post) -> None:
        """Set the records of a post, or raise a problem that names row and column and never a value."""
        schema, settings = self._schema, self._settings
        body, form, found, before = post.body, post.form.format, list[Batch](), 0
        reading: dict[str, Any] = {"bad_rows": settings.policy, "ignore_extra": settings.ignore_extra}
        if form == "csv":  # divided and encoded as the schema declares it for files
            reading |= {key: schema.reading[key] for key in ("delimiter", "encoding") if key in schema.reading}
            reading |= {"encoding": post.form.encoding} if post.form.encoding else {}
        try:
            body, form = (lines_of(body), "jsonl") if form == "json" else (body, form)
            for lines in read_bytes(body, schema, form, **reading):
                if before + lines.records > self._limits.records:
                    detail = f"one request may hold at most {self._limits.records:,} records; send several"
                    raise ProblemError(413, detail)
                try:
                    found.append(self._run.encode(lines, bad_rows=settings.policy))
                except TableError as error:
                    raise error if error.row is None else error.at(row=before + error.row) from None
                before += lines.records
        except TableError as error:
            if form == "csv" and body and b"\n" not in body and b"\r" not in body:
                raise ProblemError(422, f"one line, which is not a line of names; {_CURL}", line=1) from None
            raise of_table(error) from None
        except MemoryError:
            raise ProblemError(413, "the body needs more memory than this service has; send smaller ones") from None
        post.batch, post.body = in_order(found or [self._none]), b""

    # ---- the queue: any thread

    @property
    def queued(self) -> int:
        return len(self._queue)

    def submit(self, post: Post) -> None:
        post.size = len(post.body) + (post.batch.rows.nbytes if post.batch is not None else 0) + _OVERHEAD
        with self._changed:
            if self._closing:
                raise busy("the service is stopping", seconds=5)
            full = self.queued >= self._limits.queued_posts or self._bytes + post.size > self._limits.queued_bytes
            if full and self.queued:
                raise busy("too much is queued", 429, 1)
            if self._behind > self._limits.queued_bytes:
                raise busy("releases that are due are published first", 429, 5)
            self._queue.append(post)
            self._bytes += post.size
            self._changed.notify()

    def look(self) -> None:
        """See how much is to be counted, and after a failure whether something can be kept again."""
        rows = self._none.rows
        self._behind = (self._run.t - self._run.synth.t) * rows.itemsize * rows.shape[1]
        if self.failing and not self._queue:
            with suppress(ProblemError):
                self.submit(Post(b"", Form("jsonl"), None, b"", self._none))

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    # ---- in the thread

    def _loop(self) -> None:
        while group := self._next_group():
            try:
                self._cache.keep_free()
                try:
                    self.commit(group)
                except StoreError:
                    if not self._cache.give_back():
                        raise
                    self._stale = True
                    self.commit(group)
            except BaseException as error:  # whatever it is, every writer gets an answer
                self.failing, self._stale = type(error).__name__, True
                detail = _LOST if type(error) is StoreError else _UNKNOWN  # such as an `OutcomeUnknownError`
                for post in group:
                    if not post.answer.done():
                        post.answer.set_exception(ProblemError(503, detail, {"Retry-After": "5"}))

    def _next_group(self) -> list[Post]:
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            group, size = list[Post](), 0
            while self._queue and len(group) < _GROUP_POSTS and (not group or size < _GROUP_BYTES):
                group.append(self._queue.popleft())
                size += group[-1].size
                group[-1].answer.set_running_or_notify_cancel()  # nobody can cancel it from here on
            self._bytes -= size
            return group

    def commit(self, group: list[Post]) -> None:
        """Keep and count the records of posts, and answer them. Errors of one do not touch the others."""
        while group := [post for post in group if not post.answer.done()]:
            if self._stale:
                self._receipts, self._stale = Receipts(self._run.receipts()), False
            first = dict[bytes | int, Post]()  # of each key: another one is a retry, unless the first is refused
            for post in group:
                if not self._repeat(post):
                    first.setdefault(post.key or id(post), post)
            self._read_all([post for post in first.values() if post.batch is None])
            self._take([post for post in first.values() if not post.answer.done()])

    def _repeat(self, post: Post) -> bool:
        known = self._receipts.find(post.key) if post.key is not None else None
        if known is not None and known[0] == post.digest:
            post.answer.set_result(known[1]._replace(repeated=True))
        elif known is not None:
            detail = "this Idempotency-Key was used for another body; use a new key for new records"
            post.answer.set_exception(ProblemError(409, detail))
        return known is not None

    def _read_all(self, posts: list[Post]) -> None:
        """Read posts at once, or by halves until those that are not good are by themselves."""
        if len(posts) == 1:
            try:
                self.read(posts[0])
            except ProblemError as problem:
                posts[0].answer.set_exception(problem)
        elif posts and not self._read_together(posts):
            half = len(posts) // 2
            self._read_all(posts[:half])
            self._read_all(posts[half:])

    def _read_together(self, posts: list[Post]) -> bool:
        with suppress(TableError):
            texts = [lines_of(post.body) if post.form.format == "json" else post.body for post in posts]
            lines = [text.removesuffix(b"\n").split(b"\n") for text in texts]
            together = [line for some in lines for line in some]
            if not all(line.startswith(b"{") for line in together):  # a mark, a blank line
                return False
            found = read_bytes(
                b"\n".join([*together, b""]), self._schema, "jsonl", ignore_extra=self._settings.ignore_extra
            )
            batch = in_order([self._run.encode(one, bad_rows=self._settings.policy) for one in found])
            if batch.records == len(together) and not batch.tally.bad:
                ends = np.cumsum(list(map(len, lines))).tolist()
                for post, start, end in zip(posts, [0, *ends], ends, strict=False):
                    tally = batch.tally if start == 0 else Tally()  # that of all of them goes with the first
                    post.batch = replace(batch, rows=batch.rows[start:end], tally=tally)
                return True
        return False

    def _take(self, posts: list[Post]) -> None:
        if not posts:
            return
        t, answers, receipts, parts = self._run.t, list[Accepted](), list[bytes](), list[Batch]()
        for post in posts:
            part = post.batch or self._none
            t += part.records
            parts.append(part)
            answers.append(Accepted(part.records, t))
            if post.key is not None:
                receipts.append(post.key + post.digest + part.records.to_bytes(8, "little") + t.to_bytes(8, "little"))
        if self._run.take(in_order(parts), receipts=b"".join(receipts)) != t:
            raise RuntimeError("somebody else writes to this run")
        self.failing = ""
        self.look()
        for receipt in receipts:
            self._receipts.add(receipt)
        self._taken(t)  # first: whoever was answered can read what was written
        for post, answer in zip(posts, answers, strict=True):
            post.answer.set_result(answer)
