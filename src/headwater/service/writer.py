"""Takes posted records in one order, many posts in one transaction."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from headwater.public.tally import Tally
from headwater.run import Run
from headwater.run.store import StoreError
from headwater.service.config import Limits
from headwater.service.posts import Accepted, Post, PostReader, behind
from headwater.service.problems import ProblemError
from headwater.service.receipts import Receipt, Receipts

_GROUP_POSTS, _GROUP_BYTES = 2048, 64 << 20
_OVERHEAD = 512  # bytes of a post besides its records
_UNKNOWN = (
    "the service failed while it took this request, and may have counted it: send it again with its Idempotency-Key; "
    "without one, it might count twice"
)


class Writer:
    """The only one who writes to a run. A commit takes whatever has arrived during the one before it.

    ``taken`` is called in the thread after each commit, with the number of records.
    """

    def __init__(
        self,
        run: Run,
        limits: Limits,
        taken: Callable[[int], None],
        bad_rows: str = "stop",
        *,
        ignore_extra: bool = False,
    ) -> None:
        self._run, self._limits, self._taken = run, limits, taken
        self._receipts, self._stale = Receipts(run.receipts()), False  # stale after an error: the state decides
        self._encoder = PostReader(run, limits, bad_rows, ignore_extra=ignore_extra)
        self.encode = self._encoder.encode  # reads the records of a post before it is submitted
        self._queue: deque[Post] = deque()
        self._bytes, self._closing = 0, False
        self._row_bytes, self._behind = 1, 0  # of a record as it is kept; of all that are kept and not yet counted
        self._changed = threading.Condition()
        self._decided: list[Post] = []  # in the thread only: posts whose outcome is known and not yet sent
        self.failing = ""  # why the last commit failed, without any value
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """How many posts have not been answered yet."""
        return len(self._queue)

    def submit(self, post: Post) -> None:
        """Put a post into the queue, or raise a 429 if it is full. Nothing is dropped silently."""
        post.size = len(post.body) + (post.rows.nbytes if post.rows is not None else 0) + _OVERHEAD
        with self._changed:
            if self._closing:
                raise ProblemError(503, "the service is stopping; send this again in a moment", {"Retry-After": "5"})
            full = self.queued >= self._limits.queued_posts or self._bytes + post.size > self._limits.queued_bytes
            if full and self.queued:
                raise ProblemError(429, "too much is queued; send this again in a moment", {"Retry-After": "1"})
            if self._behind > self._limits.queued_bytes:
                detail = "releases that are due are published first; send this again in a moment"
                raise ProblemError(429, detail, {"Retry-After": "5"})
            self._queue.append(post)
            self._bytes += post.size
            self._changed.notify()

    def look(self) -> None:
        """Find out how much is kept and not yet counted, in memory until releases before it are published.

        Called after each commit and after each look of the publisher; too much of it is answered with 429.
        """
        self._behind = (self._run.t - self._run.synth.t) * self._row_bytes

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
                if type(error) is not StoreError:  # such as an `OutcomeUnknownError`
                    detail = _UNKNOWN
                self._refuse(group, ProblemError(503, detail, {"Retry-After": "5"}))
                self._stale = True
            else:
                self.failing = ""
            decided, self._decided = self._decided, []
            _hand_over(decided)

    def _decide(self, post: Post, outcome: Accepted | ProblemError) -> None:
        if post.outcome is None:
            post.outcome = outcome
            self._decided.append(post)

    def _next_group(self) -> list[Post]:
        """Everything that is queued, up to the size of a group; nothing if the writer is closed."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            group, size = list[Post](), 0
            while self._queue and len(group) < _GROUP_POSTS and (not group or size < _GROUP_BYTES):
                post = self._queue.popleft()
                size += post.size
                group.append(post)
            self._bytes -= size
            return group

    def _commit(self, group: list[Post]) -> None:
        """Keep and count the records of a group, then answer. Errors of one post do not touch the others."""
        while group:  # again for those whose keys came twice, if the first request of each was refused
            self._commit_once(group)
            group = [post for post in group if post.outcome is None and not self._repeat(post)]

    def _commit_once(self, group: list[Post]) -> None:
        """The same for the posts that came first under their keys."""
        if self._stale:
            self._receipts, self._stale = Receipts(self._run.receipts()), False
        fresh = self._encoded(self._unanswered(group))
        before = t = self._run.t
        answers, receipts = list[tuple[Post, Accepted]](), list[Receipt]()
        for post in fresh:
            accepted = len(post.rows) if post.rows is not None else 0
            t += accepted
            answers.append((post, Accepted(accepted, t)))
            if post.key is not None:
                receipts.append(Receipt(post.key, post.digest, accepted, t))
        if answers:
            rows = np.concatenate([post.rows for post in fresh if post.rows is not None])
            position = {name: value for post in fresh for name, value in post.position.items()}
            kept = b"".join(receipt.to_bytes() for receipt in receipts)
            tally = sum((post.tally for post in fresh), Tally())
            bad = [row for post, answer in answers for row in behind(answer.t - answer.accepted - before, post.bad)]
            end = self._run.take_rows(rows, tally=tally, position=position, quarantined=bad, receipts=kept)
            if end != t:
                raise RuntimeError("somebody else writes to this run")
            self._row_bytes = rows.itemsize * rows.shape[1]
            self.look()
            for receipt in receipts:
                self._receipts.add(receipt)
            self._taken(end)  # first: whoever was answered can read what was written
            for post, answer in answers:
                self._decide(post, answer)

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

    def _encoded(self, posts: list[Post]) -> list[Post]:
        """Read what was left to be read together, and refuse what does not fit the schema."""
        self._encoder.encode_small([post for post in posts if post.rows is None])
        for post in posts:
            if post.outcome is not None:
                self._decided.append(post)
        return [post for post in posts if post.outcome is None]

    def _repeat(self, post: Post) -> bool:
        """Answer a retry as the first time. Another body under the same key is refused."""
        known = self._receipts.find(post.key) if post.key is not None else None
        if known is None:
            return False
        if known.body == post.digest:
            self._decide(post, Accepted(known.accepted, known.t, repeated=True))
        else:
            detail = "this Idempotency-Key was used for another body; use a new key for new records"
            self._refuse([post], ProblemError(409, detail))
        return True

    def _refuse(self, posts: list[Post], problem: ProblemError) -> None:
        for post in posts:
            self._decide(post, problem)


def _hand_over(posts: list[Post]) -> None:
    """Hand over all outcomes at once: waking a loop for each of them would take longer than taking their records."""
    loops = dict[asyncio.AbstractEventLoop, list[Post]]()
    for post in posts:
        if isinstance(post.future, asyncio.Future):
            loops.setdefault(post.future.get_loop(), []).append(post)
        else:
            _set_outcomes([post])
    for loop, some in loops.items():
        with suppress(RuntimeError):  # the loop has ended, and with it whoever asked
            loop.call_soon_threadsafe(_set_outcomes, some)


def _set_outcomes(posts: list[Post]) -> None:
    """In the loop of their futures; whoever went away does not care."""
    for post in posts:
        if post.future is not None and not post.future.done():
            if isinstance(post.outcome, Accepted):
                post.future.set_result(post.outcome)
            elif post.outcome is not None:
                post.future.set_exception(post.outcome)
