"""A run: read, keep, count, publish; over and over, and on from where it was when it was killed.

The order of steps is what makes it survive. Records are written to the state *before* anything that was made from
them is published, so what is published can always be made again, with the very same noise; and a release that is
there is never written again. A run without a state cannot be continued, and starting it anew spends ε anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from headwater.mechanisms.protocol import AnySchema
from headwater.noise import warn_of_seed
from headwater.partition import Cells
from headwater.release.folder import publish, read_card, refuse_others, sweep
from headwater.release.release import Release
from headwater.release.write_table import check_format
from headwater.store import Kept, Store, StoreError, is_store
from headwater.store.errors import damaged
from headwater.synthesizer import Synthesizer
from headwater.table.errors import TableError
from headwater.table.readers import Batch, open_source
from headwater.version import __version__

_LEAST_SNAPSHOT = 1 << 23  # bytes of journal that are not worth a snapshot
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Every:
    """When to publish: after so many records, or after so many seconds by the clock.

    Both are public. The time *in* the records is not: publishing when some record says so would tell what it says.

    >>> Every.parse("10_000"), Every.parse("1h")
    (Every(records=10000, seconds=None), Every(records=None, seconds=3600.0))
    """

    records: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str) -> Every:
        """Read ``10000``, ``30s``, ``15min``, ``1h`` or ``1d``."""
        plain = text.strip().replace("_", "").replace(",", "").lower()
        number = plain.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = plain[len(number) :]
        try:
            if not unit and int(number) > 0:
                return Every(records=int(number))
            if unit in _UNITS and 0 < float(number) < float("inf"):
                return Every(seconds=float(number) * _UNITS[unit])
        except ValueError:
            pass
        raise ValueError(
            f"{text!r} says neither how many records nor how long; write for example 10000, 30s, 15min or 1h"
        )

    def room(self, t: int) -> int | None:
        """How many records may come before the next release is due; ``None`` if records do not decide."""
        return None if self.records is None else self.records - t % self.records


@dataclass(frozen=True)
class Progress:
    """Where a run stands. Public."""

    t: int
    published: Path | None = None
    release: Release | None = None


class Run:
    """One run of the mechanism, and its shell: what it has read, what it keeps, what it has published."""

    def __init__(self, synth: Synthesizer, store: Store | None, out: Path, every: Every, release_format: str) -> None:
        self.synth, self.store, self.out, self.every, self.release_format = synth, store, out, every, release_format
        self.position: Any = None  # of the input: everything before it has been taken
        self._done = set(store.releases()) if store else set[int]()
        self._clock = time.monotonic()

    @staticmethod
    def begin(
        schema: AnySchema,
        *,
        epsilon: float,
        out: Path,
        every: Every,
        mechanism: str = "cascade",
        state: Path | None = None,
        release_format: str = "parquet",
        seed: int | None = None,
        allow_copy: bool = False,
    ) -> Run:
        """Start a run, or go on with the one that the state holds."""
        check_format(release_format)
        config = {"schema": schema.to_dict(), "epsilon": float(epsilon), "mechanism": mechanism, "seed": seed}
        if state is None or not state.exists() or _is_unused(state, config, allow_copy):
            synth = Synthesizer(schema, epsilon=epsilon, mechanism=mechanism, seed=seed)
            run = Run(synth, None, out, every, release_format)._swept()
            if state is not None:
                run.store = Store.create(state, config)
                run.store.snapshot(0, synth.to_bytes())
            return run
        store = Store.open(state, allow_copy=allow_copy)
        try:
            return Run._resumed(store, config, schema, out, every, release_format)
        except BaseException:
            store.close()
            raise

    @staticmethod
    def _resumed(
        store: Store, config: dict[str, Any], schema: AnySchema, out: Path, every: Every, release_format: str
    ) -> Run:
        refuse_other(store, config)
        kept = store.load()
        if kept.snapshot is None:  # killed before the first one: nothing was read or published yet
            synth = Synthesizer(schema, epsilon=config["epsilon"], mechanism=config["mechanism"], seed=config["seed"])
            store.snapshot(0, synth.to_bytes())
        else:
            synth = _restored(kept, store)
            if config["seed"] is not None:
                warn_of_seed(3)
        run = Run(synth, store, out, every, release_format)
        run.position = kept.position["input"] if isinstance(kept.position, dict) else None
        return run._swept()

    def _swept(self) -> Run:
        refuse_others(self.out, self.synth.run_id)
        sweep(self.out)
        return self

    def feed(self, batches: Iterator[Batch | None]) -> Iterator[Progress]:
        """Take everything that the input gives, and publish whenever it is time."""
        yield from self._publish_if_due()
        for batch in batches:
            if batch is not None:
                yield from self._take(batch)
            else:  # nothing new, but the clock may say that it is time
                yield from self._publish_if_due()

    def _take(self, batch: Batch) -> Iterator[Progress]:
        try:
            cells = self.synth.encode(batch.table)  # all of it is checked before any of it is counted
        except TableError as error:
            raise batch.place(error) from None
        done = 0
        while done < len(cells):
            part = cells[done:][: self.every.room(self.synth.t)]
            done += len(part)
            self.synth.update_rows(part)
            self._keep(part, batch.position_after(done))
            yield Progress(self.synth.t)
            yield from self._publish_if_due()

    def _keep(self, cells: Cells, position: Any) -> None:  # noqa: ANN401 - any JSON value
        self.position = position
        if self.store is None:
            return
        self.store.append(self.synth.t, cells.reshape(-1), {"input": position, "by": measured_by(self.synth)})
        if self.store.journal_bytes > max(self.store.snapshot_bytes, _LEAST_SNAPSHOT):
            self._snapshot(self.store)

    def _snapshot(self, store: Store) -> None:
        store.snapshot(self.synth.t, self.synth.to_bytes(), {"input": self.position, "by": measured_by(self.synth)})

    def _publish_if_due(self) -> Iterator[Progress]:
        t = self.synth.t
        if self.every.records is not None:
            due = t > 0 and t % self.every.records == 0
        else:
            due = self.every.seconds is not None and time.monotonic() - self._clock >= self.every.seconds
        if due:
            yield from self.publish()

    def publish(self) -> Iterator[Progress]:
        """Publish the release of this moment, unless that was done before or nothing has come yet."""
        self._clock = time.monotonic()
        t = self.synth.t
        if t == 0 or t in self._done:
            return
        release = self.synth.release()
        place = publish(release, self.out, run=self.synth.run_id, format=self.release_format)
        card = read_card(place)
        if self.store:
            self.store.published(t, card["sha256"])
        self._done.add(t)
        yield Progress(t, place, release)

    def close(self) -> None:
        """Let go of the state, which is then a snapshot alone: any later version can go on from it."""
        if self.store:
            with suppress(StoreError):  # a journal is as good, for the same version
                if self.store.journal_bytes and self.store.t == self.synth.t:
                    self._snapshot(self.store)
            self.store.close()


def _is_unused(state: Path, config: Mapping[str, Any], allow_copy: bool) -> bool:
    """Whether a state was begun under other terms and has taken nothing yet; then it is removed, and nothing is lost.

    That is what a first try leaves behind which failed before its first record.
    """
    with Store.open(state, allow_copy=allow_copy) as store:
        if store.t or store.releases() or all(store.config.get(name) == value for name, value in config.items()):
            return False
        state.unlink()  # while nobody else can have it
    return True


def refuse_other(store: Store, config: Mapping[str, Any]) -> None:
    """A state goes on under the schema, ε and mechanism that it was begun with, and no others."""
    kept = store.config
    different = [name for name, value in config.items() if kept.get(name) != value]
    if different:
        problem = f"this run was begun with another {' and another '.join(different)}"
        remedy = "give the command that it was begun with, or another --state for a new run, which spends its own ε"
        raise StoreError(store.path, problem, remedy)


def run(
    paths: Sequence[str],
    schema: AnySchema,
    *,
    epsilon: float,
    out: Path,
    every: Every,
    mechanism: str = "cascade",
    state: Path | None = None,
    release_format: str = "parquet",
    follow: bool = False,
    seed: int | None = None,
    allow_copy: bool = False,
    begun: Callable[[Run], None] = lambda run: None,
    **reading: Any,  # noqa: ANN401 - the fields of `Options`
) -> Iterator[Progress]:
    """Read files in the order of time, and publish a release whenever ``every`` says so, and one at the end.

    Give the same ``state`` again after an interruption of any kind, and the run goes on: no record is counted twice
    and none is lost. ``begun`` is called once, when the run is ready. What is left says how to read the files
    (`headwater.table.readers.Options`).
    """
    current = Run.begin(
        schema,
        epsilon=epsilon,
        out=out,
        every=every,
        mechanism=mechanism,
        state=state,
        release_format=release_format,
        seed=seed,
        allow_copy=allow_copy,
    )
    try:
        begun(current)
        if not follow:
            reading = {"batch_rows": 1 << 17} | reading  # whole blocks of text: nobody waits for the next record
        with open_source(paths, schema, current.position, follow=follow, **reading) as source:
            yield from current.feed(source)
        yield from current.publish()
    finally:
        current.close()


def _restored(kept: Kept, store: Store) -> Synthesizer:
    """The synthesizer as it was: its last snapshot, and what came after."""
    if kept.snapshot is None:
        raise StoreError(store.path, "this run has not begun yet", "give the command that was to begin it again")
    synth = Synthesizer.from_bytes(kept.snapshot)
    if kept.journal and _by(kept.position) != measured_by(synth):
        # What was published after the snapshot hangs on trees that are not in it, and other code may choose others.
        problem = f"this run was interrupted under {_by(kept.position)}, and this is {measured_by(synth)}"
        raise StoreError(store.path, problem, "give the same command once under the old versions, then upgrade")
    try:
        for cells in kept.journal:
            synth.update_rows(cells.reshape(-1, 1))
    except (TypeError, ValueError) as error:
        raise damaged(store.path, "its journal does not hold records") from error
    if synth.t != kept.t:
        raise damaged(store.path, "its journal does not hold as many records as it says")
    return synth


def measured_by(synth: Synthesizer) -> str:
    """The versions of whatever decides what is measured."""
    return f"headwater {__version__} ({synth.measurement_version}), numpy {numpy.__version__}"


def _by(position: Any) -> str:  # noqa: ANN401 - any JSON value
    return str(position.get("by")) if isinstance(position, dict) else "an unknown version"


@contextmanager
def opened(state: Path) -> Iterator[Synthesizer]:
    """The synthesizer of a run that has stopped, to look at and to publish from: of a state, or of a saved file."""
    if state.is_file() and not is_store(state):
        yield Synthesizer.load(state)
        return
    store = Store.open(state, observe=True)
    try:
        yield _restored(store.load(), store)
    finally:
        store.close()
