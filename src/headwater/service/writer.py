"""One thread that takes posted records in one order, many posts in one transaction."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from headwater.run import Run
from headwater.run.store import StoreError
from headwater.run.store.entries import Rows
from headwater.service import bodies
from headwater.service.config import Limits
from headwater.service.problems import ProblemError, of_table
from headwater.service.receipts import Receipt, Receipts
from headwater.table.errors import TableError
from headwater.table.schema import Schema

_GROUP_POSTS, _GROUP_BYTES = 2048, 64 << 20
_SMALL = 1 << 12  # bytes of JSON lines that are read together with others


class Answer(NamedTuple):
    """What a writer is told: how many records were accepted, the ``t`` they ended at, and whether it was a retry."""

    accepted: int
    t: int
    repeated: bool = False


@dataclass
class Post:
    """One request to write.

    Parameters
    ----------
    body
        The records, decompressed.
    form
        The format of the body.
    key
        The digest of the idempotency key, if there is one.
    digest
        The digest of the body.
    rows
        The records as the run keeps them; None if they are still to be read.
    position
        Where the source of the records stands, kept in the same transaction.
    future
        Of the loop that is to be told the outcome, if it is a loop.
    """

    body: bytes
    form: str
    key: bytes | None
    digest: bytes
    rows: Rows | None = None
    position: Mapping[str, Any] = field(default_factory=dict)
    future: asyncio.Future[Answer] | None = None
    outcome: Answer | ProblemError | None = None
    decided: threading.Event = field(default_factory=threading.Event)

    def result(self) -> Answer:
        """Stay until the records are on the disk, or raise why they were refused."""
        self.decided.wait()
        if not isinstance(self.outcome, Answer):
            raise self.outcome or RuntimeError("no outcome")
        return self.outcome


class Writer:
    """The only thread that writes to a run. A commit takes whatever has arrived during the one before it.

    Parameters
    ----------
    run
        The run.
    limits
        How much may be queued.
    taken
        Called in the thread after each commit, with the number of records.
    """

    def __init__(self, run: Run, limits: Limits, taken: Callable[[int], None]) -> None:
        self._run, self._limits, self._taken = run, limits, taken
        self._receipts = Receipts(run.receipts())
        self._queue: deque[Post] = deque()
        self._bytes, self._closing = 0, False
        self._changed = threading.Condition()
        self._decided: list[Post] = []  # in the thread only: posts whose outcome is known and not yet told
        self.failing = ""  # why the last commit failed, without any value
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """How many posts have not been answered yet."""
        return len(self._queue)

    def encode(self, post: Post) -> None:
        """Read and check the records of a post; small JSON is left to be read together with others.

        Parameters
        ----------
        post
            The request.
        """
        if post.form == "json":
            try:
                post.body, post.form = bodies.lines_of(post.body), "jsonl"
            except TableError as error:
                raise of_table(error) from None
        if post.form == "jsonl" and len(post.body) <= _SMALL:
            return
        post.rows = self._read(post.body, post.form)
        post.body = b""

    def submit(self, post: Post) -> None:
        """Put a post into the queue, or raise a 429 if it is full. Nothing is dropped silently.

        Parameters
        ----------
        post
            The request, after `encode`.
        """
        size = _size(post)
        with self._changed:
            if self._closing:
                raise ProblemError(503, "the service is stopping; send this again in a moment", {"Retry-After": "5"})
            full = len(self._queue) >= self._limits.queued_posts or self._bytes + size > self._limits.queued_bytes
            if full and self._queue:
                raise ProblemError(429, "too much is queued; send this again in a moment", {"Retry-After": "1"})
            self._queue.append(post)
            self._bytes += size
            self._changed.notify()

    def close(self) -> None:
        """Take what is queued, then end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    # ---- in the thread

    def _loop(self) -> None:
        while group := self._next_group():
            try:
                self._commit(group)
            except BaseException as error:  # whatever it is, every writer gets an answer
                self.failing = type(error).__name__
                detail = "the records could not be kept; nothing of this request was counted: send it again"
                if not isinstance(error, StoreError):
                    detail = "the service failed while it took this request: send it again with its Idempotency-Key"
                self._refuse(group, ProblemError(503, detail, {"Retry-After": "5"}))
                self._receipts = self._kept_receipts()
            else:
                self.failing = ""
            self._tell()

    def _decide(self, post: Post, outcome: Answer | ProblemError) -> None:
        if post.outcome is None:
            post.outcome = outcome
            self._decided.append(post)

    def _tell(self) -> None:
        """Tell all outcomes at once: waking a loop for each of them would take longer than taking their records."""
        decided, self._decided = self._decided, []
        loops = dict[asyncio.AbstractEventLoop, list[Post]]()
        for post in decided:
            if post.future is None:
                post.decided.set()
            else:
                loops.setdefault(post.future.get_loop(), []).append(post)
        for loop, posts in loops.items():
            with suppress(RuntimeError):  # the loop has ended, and with it whoever asked
                loop.call_soon_threadsafe(_set_outcomes, posts)

    def _next_group(self) -> list[Post]:
        """Everything that is queued, up to the size of a group; nothing if the writer is closed."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            group, size = list[Post](), 0
            while self._queue and len(group) < _GROUP_POSTS and (not group or size < _GROUP_BYTES):
                post = self._queue.popleft()
                size += _size(post)
                group.append(post)
            self._bytes -= size
            return group

    def _commit(self, group: list[Post]) -> None:
        """Keep and count the records of a group, then answer. Errors of one post do not touch the others."""
        fresh = self._unanswered(group)
        self._read_small([post for post in fresh if post.rows is None])
        good = [post for post in fresh if post.rows is not None]
        t = self._run.t
        answers, told = list[tuple[Post, Answer]](), list[Receipt]()
        for post in good:
            accepted = len(post.rows) if post.rows is not None else 0
            t += accepted
            answers.append((post, Answer(accepted, t)))
            if post.key is not None:
                told.append(Receipt(post.key, post.digest, accepted, t))
        if answers:
            rows = np.concatenate([post.rows for post in good if post.rows is not None])
            position = {name: value for post in good for name, value in post.position.items()}
            kept = b"".join(receipt.to_bytes() for receipt in told)
            end = self._run.take_rows(rows, position=position, receipts=kept)
            if end != t:
                raise RuntimeError("somebody else writes to this run")
            for receipt in told:
                self._receipts.add(receipt)
            self._taken(end)  # first: whoever was answered can read what was written
            for post, answer in answers:
                self._decide(post, answer)
        for post in group:
            if post.outcome is None and not self._repeat(post):  # its key came twice in this group, and was refused
                self._refuse(
                    [post], ProblemError(409, "another request with this Idempotency-Key was refused just now")
                )

    def _unanswered(self, group: list[Post]) -> list[Post]:
        """The posts that are to be taken: neither retries nor cancelled, each key once."""
        fresh, keys = list[Post](), set[bytes]()
        for post in group:
            if post.key is None:
                fresh.append(post)
            elif post.key not in keys and not self._repeat(post):
                keys.add(post.key)
                fresh.append(post)
        return fresh

    def _repeat(self, post: Post) -> bool:
        """Answer a retry as the first time. Another body under the same key is refused."""
        known = self._receipts.find(post.key) if post.key is not None else None
        if known is None:
            return False
        if known.body == post.digest:
            self._decide(post, Answer(known.accepted, known.t, repeated=True))
        else:
            detail = "this Idempotency-Key was used for another body; use a new key for new records"
            self._refuse([post], ProblemError(409, detail))
        return True

    def _read_small(self, posts: list[Post]) -> None:
        """Read small JSON lines of many posts at once; one by one if anything is wrong, to find out where."""
        whole = [post.body.strip(b"\r\n") for post in posts]
        counts = [text.count(b"\n") + 1 for text in whole]
        if len(posts) > 1 and all(whole):
            try:
                rows = self._read(b"\n".join(whole), "jsonl")
            except ProblemError:
                rows = None
            if rows is not None and len(rows) == sum(counts):
                ends = np.cumsum(counts)
                for post, part in zip(posts, np.split(rows, ends[:-1]), strict=True):
                    post.rows = part
                return
        for post in posts:
            try:
                post.rows = self._read(post.body, post.form)
            except ProblemError as problem:
                self._refuse([post], problem)

    def _read(self, body: bytes, form: str) -> Rows:
        """The records of a body as the run keeps them, or a problem that names row and column."""
        before, found = 0, list[Rows]()
        try:
            for table in bodies.tables(body, form, self._run.synth.schema, self._limits.records):
                try:
                    found.append(self._run.encode(table))
                except TableError as error:
                    raise error.at(row=None if error.row is None else before + error.row) from None
                before += len(found[-1])
        except TableError as error:
            raise of_table(error) from None
        return np.concatenate(found) if found else self._nothing()

    def _nothing(self) -> Rows:
        """No records, in the shape of some."""
        schema = self._run.synth.schema
        empty: object = {name: [] for name in schema.names} if isinstance(schema, Schema) else None
        return self._run.encode(np.empty((0, schema.dimension)) if empty is None else empty)

    def _refuse(self, posts: list[Post], problem: ProblemError) -> None:
        for post in posts:
            self._decide(post, problem)

    def _kept_receipts(self) -> Receipts:
        """The state decides what was kept, also after an error in the middle."""
        try:
            return Receipts(self._run.receipts())
        except Exception:  # the state cannot be read: nothing can be taken either
            return self._receipts


def _size(post: Post) -> int:
    return len(post.body) + (post.rows.nbytes if post.rows is not None else 0) + 512


def _set_outcomes(posts: list[Post]) -> None:
    """In the loop of their futures; whoever went away does not care."""
    for post in posts:
        if post.future is not None and not post.future.done():
            if isinstance(post.outcome, Answer):
                post.future.set_result(post.outcome)
            elif post.outcome is not None:
                post.future.set_exception(post.outcome)
