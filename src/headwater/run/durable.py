"""A synthesizer whose records are on the disk before they are counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.run.config import RunConfig
from headwater.run.restore import counted, measured_by, restored
from headwater.run.store import Store, StoreError
from headwater.run.store.entries import Entry, Position, Rows, merge
from headwater.synthesizer import Synthesizer

LEAST_SNAPSHOT = 1 << 23  # bytes of journal up to which no snapshot is made


class DurableSynthesizer:
    """A synthesizer and its state: `keep`, then `count`, inside `step`.

    Without a state everything is in memory only.

    Formal guarantees
    -----------------
    After an error or an interrupt at any moment of a `step`, what was kept decides: the next use reads the state
    again, and counts what was kept exactly once.
    """

    def __init__(self, synth: Synthesizer, store: Store | None, pending: list[Entry]) -> None:
        self.store = store
        self._synth: Synthesizer | None = synth  # None after an error in a step
        self._pending = pending  # kept, and not yet counted
        self._journal_stays = False
        self._position: Position = {}  # without a state
        self.turn = threading.RLock()
        """For whatever must see one moment: no other thread takes or counts records meanwhile."""

    @staticmethod
    def create(synth: Synthesizer, config: RunConfig, state: Path | None) -> DurableSynthesizer:
        """A new run. Its key is in the state before any record."""
        if state is None:
            return DurableSynthesizer(synth, None, [])
        store = Store.create(state, config.to_dict())
        try:
            store.snapshot(0, synth.to_bytes())
        except BaseException:
            store.close()
            raise
        return DurableSynthesizer(synth, store, [])

    @staticmethod
    def open(store: Store, *, journal_stays: bool = False) -> DurableSynthesizer:
        """The run of a state. With ``journal_stays`` no snapshot replaces a journal of records, until more are kept.

        A killed run may have had a release due among the records of its journal. Whoever does not know its schedule
        counts beyond that release, and must leave the journal to the run.
        """
        synth, pending = restored(store)
        found = DurableSynthesizer(synth, store, pending)
        found._journal_stays = journal_stays and bool(pending)
        return found

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step of one thread. If it does not come to its end, the state decides what was done."""
        with self.turn:
            try:
                yield
            except StoreError:  # such as a full disk: a service may try again without reading everything
                if not self._is_current():
                    self._forget()
                raise
            except BaseException:
                self._forget()
                raise

    def _is_current(self) -> bool:
        """Whether the state says that it holds what is in memory."""
        try:
            return not self.store or self.store.t == self.t
        except StoreError:
            return False

    def _forget(self) -> None:
        if self.store:  # without one, `Synthesizer` itself undoes what was half done
            self._synth, self._pending = None, []

    @property
    def synth(self) -> Synthesizer:
        """The synthesizer, which has counted everything but what is pending."""
        with self.turn:
            if self._synth is None:
                assert self.store is not None  # noqa: S101 - only then is it forgotten
                self._synth, self._pending = restored(self.store)
            return self._synth

    @property
    def t(self) -> int:
        """How many records were kept."""
        with self.turn:
            t = self.synth.t  # which may read what is pending from the state
            return self._pending[-1].end if self._pending else t

    def keep(
        self,
        rows: Rows,
        position: Mapping[str, Any],
        receipts: bytes = b"",
        counts: NDArray[np.int64] | None = None,
        whole: bool = False,
    ) -> int:
        """Bring records to the disk, ``counts`` of each row if given, and return how many there are now."""
        entry, self._journal_stays = Entry(self.t, rows, dict(position), counts, whole), False
        if self.store:
            self.store.append(rows, entry.position, receipts, counts, whole)
        else:
            merge(self._position, entry.position)
        self._pending.append(entry)
        return entry.end

    def keep_position(self, position: Mapping[str, Any]) -> None:
        """Bring positions to the disk without records."""
        if self.store:
            self.store.append(np.empty((0, self.synth.width), dtype=np.uint8), dict(position))
        else:
            merge(self._position, position)

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """The last value that was kept under a name; ``None`` if there is none."""
        return self.store.position(name) if self.store else self._position.get(name)

    def count(self, until: int) -> None:
        """Let the mechanism count what is pending, up to ``until`` records; more if those are taken at once."""
        while self._pending and self.synth.t < until:
            entry = self._pending[0]
            counted(self.store, self.synth, entry.between(self.synth.t, until))
            if self.synth.t >= entry.end:
                self._pending.pop(0)

    def note_measured(self, location: str | None) -> None:
        """Write down, before a release of this moment can be seen, which version measured it and where it goes.

        The step of this call comes after the measuring: a snapshot of an earlier step clears the note and may lack
        what was measured, one of a later step holds it.

        What it shows can then be measured again exactly: by this version from the journal, or by any version from a
        snapshot, which holds whatever was measured and clears the note.
        """
        if self.store:
            before = self.store.noted("sinks") or []
            sinks = sorted({*before, *([] if location is None else [location])})
            if self.store.noted("measured_by") is None or sinks != before:
                self.store.note(measured_by=measured_by(self.synth), sinks=sinks)

    def snapshot_if_large(self) -> None:
        """Replace a journal that has outgrown the snapshot, so that all snapshots together cost linear time.

        It comes after records were kept. If it fails, they are still kept and the journal is as good, so the step must
        not fail: whoever was answered that nothing was counted would send them again.
        """
        store = self.store
        if (
            store
            and not self._pending
            and not self._journal_stays
            and store.journal_bytes > max(store.snapshot_bytes, LEAST_SNAPSHOT)
        ):
            with suppress(StoreError):
                store.snapshot(self.synth.t, self.synth.to_bytes())

    def close(self) -> None:
        """Leave a snapshot, from which any later version can continue, and release the state. May be called twice.

        If the journal stays, it is left as it is, and the version that has measured from it continues.
        """
        if self.store is None:
            return
        with self.turn:
            with suppress(Exception):  # whatever was wrong has been said; a journal is as good, for the same version
                unsaved = self.store.journal_bytes or self.store.noted("measured_by")
                if unsaved and not self._journal_stays:
                    self.store.snapshot(self.synth.t, self.synth.to_bytes())
            self.store.close()
