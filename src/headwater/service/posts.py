"""Requests to write, and their records as the run keeps them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from headwater.public.cube import UnitCube
from headwater.public.errors import TableError
from headwater.public.tally import BadRow, Tally
from headwater.run import Run
from headwater.run.store.entries import Rows
from headwater.secret.read.batch import Batch
from headwater.secret.read.source import read_bytes
from headwater.service import bodies
from headwater.service.config import Limits
from headwater.service.problems import ProblemError, of_table

_SMALL = 1 << 12  # bytes of JSON lines that are read together with others


class Accepted(NamedTuple):
    """The answer to a writer: how many records were accepted, the ``t`` they ended at, and whether it was a retry."""

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
    key
        The digest of the idempotency key, if there is one.
    rows
        The records as the run keeps them; None if they are still to be read.
    bad
        Rows for quarantine, by their places among the records of this post.
    future
        Gets the answer when the records are on the disk, or why they were refused.
    """

    body: bytes
    form: bodies.Form
    key: bytes | None
    digest: bytes
    rows: Rows | None = None
    tally: Tally = field(default_factory=Tally)
    bad: list[BadRow] = field(default_factory=list)
    position: Mapping[str, Any] = field(default_factory=dict)
    future: asyncio.Future[Accepted] | concurrent.futures.Future[Accepted] | None = None
    outcome: Accepted | ProblemError | None = None
    size: int = 0


def behind(records: int, bad: Iterable[BadRow]) -> list[BadRow]:
    """Bad rows of a part, as rows of a whole in which so many records are before it."""
    return [replace(row, row=records + row.row) for row in bad]


class PostReader:
    """Reads and checks the records of posts. Threads may share it."""

    def __init__(self, run: Run, limits: Limits, bad_rows: str = "stop", *, ignore_extra: bool = False) -> None:
        self._run, self._limits, self._bad_rows = run, limits, bad_rows
        self._reading = {"bad_rows": bad_rows, "ignore_extra": ignore_extra}
        schema = run.synth.input_schema  # JSON needs names
        self._named = not isinstance(schema, UnitCube)

    def encode(self, post: Post) -> None:
        """Read the records of a post, or raise a problem; small JSON is left to be read together with others."""
        if post.form.format == "json":
            try:
                post.body, post.form = bodies.lines_of(post.body), bodies.Form("jsonl")
            except TableError as error:
                raise of_table(error) from None
        if post.form.format != "jsonl" or len(post.body) > _SMALL:
            self._read(post, post.body)
            post.body = b""

    def encode_small(self, posts: list[Post]) -> None:
        """Read small JSON lines of many posts at once; one by one if anything is wrong, to find out where.

        Each of them gets its rows, or its outcome if it is refused.
        """
        lines = [post.body.removesuffix(b"\n").split(b"\n") for post in posts]
        batch = self._at_once([line for some in lines for line in some]) if self._named and posts else None
        if batch is not None:
            with suppress(TableError):
                rows, posts[0].tally, bad = self._run.encode_batch(batch, bad_rows=self._bad_rows)
                # Counted with the first of them: of a retry in the group it is counted again.
                ends = np.cumsum([len(some) for some in lines]).tolist()
                for post, start, end in zip(posts, [0, *ends], ends, strict=False):
                    post.rows = rows[start:end]
                    post.bad = behind(-start, [row for row in bad if start <= row.row < end])
                return
        for post in posts:
            try:
                self._read(post, post.body)
            except ProblemError as problem:
                post.outcome = problem

    def _at_once(self, lines: list[bytes]) -> Batch | None:
        """Good lines of JSON as one batch, None if any is not good."""
        if not all(line.startswith(b"{") for line in lines):  # a mark, another encoding, a blank line
            return None
        text, extra = b"\n".join([*lines, b""]), self._reading["ignore_extra"]
        with suppress(TableError):
            found = list(read_bytes(text, self._run.synth.input_schema, "jsonl", ignore_extra=bool(extra)))
            return found[0] if len(found) == 1 and found[0].records == len(lines) else None
        return None

    def _read(self, post: Post, body: bytes) -> None:
        """Set the records of a post, or raise a problem that names row and column."""
        before, found = 0, list[Rows]()
        schema = self._run.synth.input_schema
        try:
            for batch in bodies.batches(body, post.form, schema, self._limits.records, **self._reading):
                try:
                    rows, tally, bad = self._run.encode_batch(batch, bad_rows=self._bad_rows)
                except TableError as error:
                    raise error.at(row=None if error.row is None else before + error.row) from None
                found.append(rows)
                post.tally += tally
                post.bad += behind(before, bad)
                before += len(rows)
        except TableError as error:
            raise of_table(error) from None
        post.rows = np.concatenate(found) if found else self._nothing()

    def _nothing(self) -> Rows:
        """No records, in the shape of some."""
        schema = self._run.synth.input_schema
        empty: object = None if isinstance(schema, UnitCube) else {name: [] for name in schema.names}
        return self._run.synth.encode(np.empty((0, schema.dimension)) if empty is None else empty)
