"""What readers see: published releases, and the release of this moment. All of it is post-processing."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from headwater import __version__
from headwater.public.files import FileRefusedError
from headwater.public.folder import facts_of, folders, read_card, read_table
from headwater.public.release import Release
from headwater.public.where import conditions
from headwater.run import Run
from headwater.service.answers import ProblemError
from headwater.service.render import MEDIA, Cache, Check, File, Queue, regular

SHARE = 0.05
"""How much of the time making releases of this moment may take, and windows as much, however many readers there are."""

_SAVED = 1.0  # seconds of making that can be saved up while nobody asks: a first question is not kept waiting
_PATIENCE = 0.8  # seconds that readers wait for another release while there is one
_BEHIND = 2.0  # seconds to let the publisher catch up with the writers
_WINDOWS = 32  # releases of this moment that are kept: one for each window that is asked for
_SMALL = 100_000  # values of a table that is made beside large ones, and in memory
_CARDS = 10_000


class Wanted(NamedTuple):
    """Which records of a release a reader asks for: of the ``last`` ones only, so many ``rows``, with conditions."""

    last: int | None = None
    rows: int | None = None
    where: dict[str, Any] | None = None


class Table(NamedTuple):
    """A table that can be sent. The etag changes whenever the content does."""

    content: bytes | File
    etag: str
    t: int
    media_type: str


class Moment:
    """Makes releases of this moment, one at a time, in a queue of its own.

    Making one takes the time of fitting a model, which writers need as well. So a release is made again only when
    making has taken less than `SHARE` of the time; until then readers get the one that there is.
    """

    def __init__(self, run: Run, t: Callable[[], int]) -> None:
        self._run, self._t = run, t
        self._made: OrderedDict[int | None, Release] = OrderedDict()
        self._saved, self._saved_at = _SAVED, time.monotonic()
        self.queue = Queue("moment", threads=1, share=8, most=64)

    async def release(self, client: str, last: int | None = None) -> Release:
        """The release of this moment, or one that is a little older if there was no time to make another."""
        t, found = self._t(), self._made.get(last)
        if t == 0:
            raise ProblemError(404, "no record has come yet, so there is no release")
        if found is not None and (found.t >= t or self.queue.busy or not self._may_make()):
            return found
        making = self.queue.result(client, last, partial(self._make, last))
        if found is None:
            return await making
        with suppress(TimeoutError):  # it goes on being made
            return await asyncio.wait_for(making, _PATIENCE)
        return found

    def _may_make(self) -> bool:
        return self._saved + SHARE * (time.monotonic() - self._saved_at) > 0

    def _make(self, last: int | None, check: Check) -> Release:
        end = time.monotonic() + _BEHIND
        while not self._may_make() or (self._run.synth.t < self._t() and time.monotonic() < end):
            check()
            time.sleep(0.01)
        begun = time.thread_time()
        try:
            release = self._run.release(last=last)
        except ValueError as error:  # the mechanism has no windows
            raise ProblemError(400, f"{error}") from None
        finally:
            now = time.monotonic()
            saved = min(self._saved + SHARE * (now - self._saved_at), _SAVED)
            self._saved, self._saved_at = saved - (time.thread_time() - begun), now
        self._made[last] = release
        self._made.move_to_end(last)
        while len(self._made) > _WINDOWS:
            self._made.popitem(last=False)
        return release


class Releases:
    def __init__(
        self, run: Run, t: Callable[[], int], out: Path, most: int | None, cache: Cache, queues: tuple[Queue, Queue]
    ) -> None:
        self._run, self._out, self._most, self._cache = run, out, most, cache
        self.small, self._large = queues
        self._folders: dict[int, Path] = {}
        self._cards: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._whole, self._windows = Moment(run, t), Moment(run, t)
        self.queues = self._whole.queue, self._windows.queue
        for folder in folders(out):
            name = folder.name.removeprefix("release-")
            if name.isdigit() and (folder / "card.json").is_file():  # windows are named otherwise
                self._folders[int(name)] = folder

    def add(self, t: int) -> None:
        self._folders[t] = self._out / f"release-{t:012d}"

    @property
    def times(self) -> list[int]:
        return sorted(self._folders)

    def state(self) -> dict[str, Any]:
        return {"releases": len(self._folders), "newest": max(self._folders, default=None)}

    def card(self, t: int) -> dict[str, Any]:
        if t not in self._folders:
            raise ProblemError(404, f"there is no release of t = {t}; see the list of releases")
        if t not in self._cards:
            try:
                regular(self._folders[t] / "card.json")
                self._cards[t] = read_card(self._folders[t])
            except (FileRefusedError, OSError):
                raise ProblemError(404, f"the release of t = {t} cannot be read any more") from None
            while len(self._cards) > _CARDS:
                self._cards.popitem(last=False)
        return self._cards[t]

    async def now(self, client: str, last: int | None = None) -> Release:
        return await (self._whole if last is None else self._windows).release(client, last)

    async def now_card(self, client: str, last: int | None) -> dict[str, Any]:
        """What anyone may know of the release of this moment: its card, without a file."""
        release = await self.now(client, last)
        rows = self._rows(release)
        return facts_of(release, self._run.run_id, None if rows == len(release) else rows)

    def _rows(self, release: Release) -> int:
        return len(release) if self._most is None else min(len(release), self._most)

    async def table(self, client: str, t: int | None, wanted: Wanted, form: str) -> Table:
        release = await self.now(client, wanted.last) if t is None else None
        if release is not None:
            t = release.t
            if wanted.rows is None and wanted.last is None:
                same = wanted.where is None and t in self._folders and self.card(t)["rows"] == self._rows(release)
                release = None if same else release  # published meanwhile, or before: the same table
        if release is None:
            tables, rows, name = self._published(t or 0, wanted, form)
            if isinstance(tables, File):
                return Table(tables, f'"{name}"', t or 0, MEDIA[form])
        else:
            rows = self._rows(release) if wanted.rows is None else wanted.rows
            name = _name(self._run.run_id, release.span, rows, wanted.where, form)
            tables = partial(_drawn, release, None if rows == len(release) else rows, wanted.where)
        content = self._cache.find(name)
        if content is None:
            schema = self._run.synth.schema
            small = rows * schema.dimension <= _SMALL
            make = partial(self._cache.make, name, form, schema, tables, small)
            content = await (self.small if small else self._large).result(client, name, make)
        return Table(content, f'"{name}"', t or 0, MEDIA[form])

    def _published(self, t: int, wanted: Wanted, form: str) -> tuple[File | Callable[[], Iterator[Any]], int, str]:
        """The file of a published release, or what makes a table of it; how many rows are read for that; a name."""
        card = self.card(t)
        if wanted.last is not None:
            raise ProblemError(400, "windows (last=) are of this moment only: ask for releases/now")
        try:
            file = regular(self._folders[t] / card["data"])
        except OSError:
            raise ProblemError(410, f"the table of the release of t = {t} was removed; its card stays") from None
        if wanted == Wanted() and card["data"].endswith(f".{form}"):
            return file, 0, card["sha256"]
        return partial(self._read, t, file, wanted), card["rows"], _name(card["sha256"], wanted, form)

    def _read(self, t: int, file: File, wanted: Wanted) -> Iterator[Any]:
        card, schema, data = self.card(t), self._run.synth.schema, b"".join(file.pieces())
        if hashlib.sha256(data).hexdigest() != card["sha256"]:
            raise ProblemError(410, f"the table of the release of t = {t} cannot be read any more")
        if card["data"].endswith(".parquet"):
            table = parquet.read_table(pa.BufferReader(data))
        else:  # text has no types, so the schema reads it
            table = schema.decode(read_table(Path(card["data"]), data, schema), "arrow")
        if wanted.where is not None:
            with _refusing():
                limits = conditions(schema, wanted.where)
            points = schema.encode(table)
            fits = np.ones(len(points), bool)
            for axis, (low, high) in limits.items():
                fits &= (points[:, axis] >= low) & (points[:, axis] <= high)
            table = table.filter(fits)
        if wanted.rows is not None:
            if wanted.rows > table.num_rows:
                detail = f"this release has {table.num_rows:,} such rows; releases/now can draw more than it has"
                raise ProblemError(400, detail)
            chosen = np.random.default_rng(int(card["sha256"][:16], 16)).permutation(table.num_rows)
            table = table.take(np.sort(chosen[: wanted.rows]))
        yield table


def _drawn(release: Release, rows: int | None, where: dict[str, Any] | None) -> Iterator[Any]:
    with _refusing():
        if where is None:
            yield from release.tables("arrow", n=rows)
        else:
            yield release.sample(rows, where=where, kind="arrow")


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ProblemError(400, f"{error}") from None


def _name(*parts: object) -> str:
    return hashlib.sha256(json.dumps([__version__, *parts], sort_keys=True, default=list).encode()).hexdigest()[:40]
