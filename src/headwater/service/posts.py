"""Requests to write, and their records as the run keeps them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from headwater.run import Run
from headwater.run.store.entries import Rows
from headwater.service import bodies
from headwater.service.config import Limits
from headwater.service.problems import ProblemError, of_table
from headwater.table.errors import TableError
from headwater.table.schema import Schema

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
    size: int = 0
    decided: threading.Event = field(default_factory=threading.Event)

    def result(self) -> Answer:
        """Stay until the records are on the disk, or raise why they were refused."""
        self.decided.wait()
        if not isinstance(self.outcome, Answer):
            raise self.outcome or RuntimeError("no outcome")
        return self.outcome


class Encoder:
    """Reads and checks the records of posts. Threads may share it.

    Parameters
    ----------
    run
        The run.
    limits
        How many records a post may hold.
    """

    def __init__(self, run: Run, limits: Limits) -> None:
        self._run, self._limits = run, limits

    def encode(self, post: Post) -> None:
        """Read the records of a post, or raise a problem; small JSON is left to be read together with others.

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
        if post.form != "jsonl" or len(post.body) > _SMALL:
            post.rows, post.body = self._read(post.body, post.form), b""

    def encode_small(self, posts: list[Post]) -> None:
        """Read small JSON lines of many posts at once; one by one if anything is wrong, to find out where.

        Parameters
        ----------
        posts
            Each of them gets its rows, or its outcome if it is refused.
        """
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
                post.outcome = problem

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
