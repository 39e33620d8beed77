"""What readers see: published releases, and the release of this moment. All of it is post-processing."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headwater.public.card import read_card, read_rows
from headwater.public.files import FileRefusedError
from headwater.public.folder import facts_of, folders
from headwater.public.release import Release
from headwater.public.version import __version__
from headwater.public.where import conditions
from headwater.run import Run
from headwater.service.files import FileCache
from headwater.service.moment import Moment
from headwater.service.problems import ProblemError
from headwater.service.render import MEDIA, compress, read_parquet, write


@dataclass(frozen=True)
class Wanted:
    """Which records of a release a reader asks for.

    Parameters
    ----------
    last
        Only about the last so many records of the stream; of this moment's release only.
    rows
        How many synthetic records; as many as records arrived unless given.
    where
        Conditions on columns, as `Release.sample` takes them.
    """

    last: int | None = None
    rows: int | None = None
    where: dict[str, Any] | None = None

    @property
    def key(self) -> str:
        """The same text for the same question."""
        return json.dumps([self.last, self.rows, self.where], sort_keys=True)


@dataclass(frozen=True)
class Table:
    """A table that can be sent. The etag changes whenever the content does."""

    path: Path
    etag: str
    t: int
    media_type: str


class Releases:
    """The releases of one run, for readers. Safe between threads; everything that takes long is shared."""

    def __init__(self, run: Run, t: Callable[[], int], out: Path, cache: FileCache) -> None:
        self._run, self._out, self._cache = run, out, cache
        self._folders: dict[int, Path] = {}
        self._cards: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._moment = Moment(run, t)
        for folder in folders(out):
            self._note(folder)

    def _note(self, folder: Path) -> None:
        t = folder.name.removeprefix("release-")
        if t.isdigit() and (folder / "card.json").is_file():  # windows are named otherwise
            self._folders[int(t)] = folder

    def add(self, t: int) -> None:
        """A release was published."""
        self._note(self._out / f"release-{t:012d}")

    def count(self) -> int:
        """How many releases there are."""
        return len(self._folders)

    def newest(self) -> int | None:
        """The time of the last one."""
        return max(self._folders, default=None)

    def times(self) -> list[int]:
        """The times of all of them, in order."""
        return sorted(self._folders)

    def card(self, t: int) -> dict[str, Any]:
        """The card of a published release."""
        if t not in self._folders:
            raise ProblemError(404, f"there is no release of t = {t}; see the list of releases")
        if t not in self._cards:
            try:
                self._cards[t] = read_card(self._folders[t])
            except (FileRefusedError, OSError):
                raise ProblemError(404, f"the release of t = {t} cannot be read any more") from None
            while len(self._cards) > 10_000:
                self._cards.popitem(last=False)
        return self._cards[t]

    def folder(self, t: int) -> Path:
        """The folder of a published release."""
        self.card(t)
        return self._folders[t]

    # ---- this moment

    def now(self, last: int | None = None) -> Release:
        """The release of this moment, or one that is a little older: see `Moment`."""
        return self._moment.release(last)

    def now_card(self, last: int | None) -> dict[str, Any]:
        """What anyone may know of the release of this moment: its card, without a file."""
        return facts_of(self.now(last), self._run.run_id)

    # ---- tables

    def table(self, t: int | None, wanted: Wanted, form: str, gzip: bool) -> Table:
        """A table of a release, of this moment's if ``t`` is None, as a file."""
        if t is None:
            release = self.now(wanted.last)
            whole = release.t in self._folders and self.card(release.t)["rows"] == len(release)
            if whole and wanted == Wanted():  # published meanwhile, or before: the same table
                return self._published(release.t, wanted, form, gzip)
            return self._of_now(release, wanted, form, gzip)
        return self._published(t, wanted, form, gzip)

    def ready(self, t: int | None, wanted: Wanted, form: str, gzip: bool) -> Table | None:
        """What `table` gives, if that can be known at once."""
        release = self._moment.recent(wanted.last) if t is None else None
        if release is None or release.t in self._folders:
            return None
        name = self._name_of(release, wanted)
        path = self._cache.peek(f"{name}.{form}{'.gz' if gzip else ''}")
        return None if path is None else Table(path, _etag(path.name), release.t, MEDIA[form])

    def _name_of(self, release: Release, wanted: Wanted) -> str:
        return _name(self._run.run_id, release.t, release.start, wanted.key)

    def _of_now(self, release: Release, wanted: Wanted, form: str, gzip: bool) -> Table:
        def make(path: Path) -> None:
            if wanted.rows is None and wanted.where is None:
                write(release.tables("arrow"), path, form, release.schema)
                return
            with _refusing():
                table = release.sample(wanted.rows, where=_tuples(wanted.where), kind="arrow")
            write(iter([table]), path, form, release.schema)

        path = self._cache.get(f"{self._name_of(release, wanted)}.{form}", make)
        return self._sent(path, release.t, form, gzip)

    def _published(self, t: int, wanted: Wanted, form: str, gzip: bool) -> Table:
        card, folder = self.card(t), self.folder(t)
        if wanted.last is not None:
            raise ProblemError(400, "windows (last=) are of this moment only: ask for releases/now")
        data = folder / card["data"]
        if not data.is_file():
            raise ProblemError(410, f"the table of the release of t = {t} was removed; its card stays")
        if wanted == Wanted() and data.suffix == f".{form}":
            if not gzip:
                return Table(data, _etag(card["sha256"]), t, MEDIA[form])
            return self._sent(data, t, form, gzip, _name(card["sha256"], form))
        name = _name(card["sha256"], wanted.key)

        def make(path: Path) -> None:
            table = self._read(folder, card)
            if wanted.where is not None:
                table = self._matching(table, wanted.where)
            if wanted.rows is not None:
                if wanted.rows > table.num_rows:
                    detail = f"this release has {table.num_rows:,} such rows; releases/now can draw more than it has"
                    raise ProblemError(400, detail)
                chosen = np.random.default_rng(int(card["sha256"][:16], 16)).permutation(table.num_rows)
                table = table.take(np.sort(chosen[: wanted.rows]))
            write(iter([table]), path, form, self._run.synth.schema)

        return self._sent(self._cache.get(f"{name}.{form}", make), t, form, gzip)

    def _read(self, folder: Path, card: dict[str, Any]) -> Any:  # noqa: ANN401 - a pyarrow.Table
        """The table of a published release; text has no types, so the schema reads it."""
        if card["data"].endswith(".parquet"):
            return read_parquet(folder / card["data"])
        schema = self._run.synth.schema
        return schema.decode(read_rows(folder, card, schema), "arrow")

    def _matching(self, table: Any, where: dict[str, Any]) -> Any:  # noqa: ANN401 - a pyarrow.Table
        schema = self._run.synth.schema
        with _refusing():
            limits = conditions(schema, _tuples(where) or {})
        points = schema.encode(table)
        fits = np.ones(len(points), bool)
        for axis, (low, high) in limits.items():
            fits &= (points[:, axis] >= low) & (points[:, axis] <= high)
        return table.filter(fits)

    def _sent(self, path: Path, t: int, form: str, gzip: bool, name: str | None = None) -> Table:
        etag = name or path.stem
        if gzip:
            path = self._cache.get(f"{etag}.{form}.gz", partial(compress, path))
        return Table(path, _etag(f"{etag}.{form}{'.gz' if gzip else ''}"), t, MEDIA[form])


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn what a release refuses into an answer."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ProblemError(400, f"{error}") from None


def _tuples(where: dict[str, Any] | None) -> dict[str, Any] | None:
    """JSON has no tuples: a list of two is a range."""
    if where is None:
        return None
    return {name: tuple(value) if isinstance(value, list) else value for name, value in where.items()}


def _name(*parts: object) -> str:
    return hashlib.sha256(json.dumps([__version__, *map(str, parts)]).encode()).hexdigest()[:40]


def _etag(text: str) -> str:
    return f'"{text}"'
