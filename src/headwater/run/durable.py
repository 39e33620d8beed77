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
    """A synthesizer and its state: `keep`, then `count`, inside `step`."""

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
        """A new run."""
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
        synth, pending = restored(store)
        found = DurableSynthesizer(synth, store, pending)
        found._journal_stays = journal_stays and bool(pending)
        return found

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step of one thread."""
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
        try:
            return not self.store or self.store.t == self.t
        except StoreError:
            return False

    def _forget(self) -> None:
        if self.store:  # without one, `Synthesizer` itself undoes what was half done
            self._synth, self._pending = None, []

    @property
    def synth(self) -> Synthesizer:
        with self.turn:
            if self._synth is None:
                assert self.store is not None  # noqa: S101 - only then is it forgotten
                self._synth, self._pending = restored(self.store)
            return self._synth

    @property
    def t(self) -> int:
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
        entry, self._journal_stays = Entry(self.t, rows, dict(position), counts, whole), False
        if self.store:
            self.store.append(rows, entry.position, receipts, counts, whole)
        else:
            merge(self._position, entry.position)
        self._pending.append(entry)
        return entry.end

    def keep_position(self, position: Mapping[str, Any]) -> None:
        if self.store:
            self.store.append(np.empty((0, self.synth.width), dtype=np.uint8), dict(position))
        else:
            merge(self._position, position)

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        return self.store.position(name) if self.store else self._position.get(name)

    def count(self, until: int) -> None:
        while self._pending and self.synth.t < until:
            entry = self._pending[0]
            counted(self.store, self.synth, entry.between(self.synth.t, until))
            if self.synth.t >= entry.end:
                self._pending.pop(0)

    def note_measured(self, location: str | None) -> None:
        if self.store:
            before = self.store.noted("sinks") or []
            sinks = sorted({*before, *([] if location is None else [location])})
            if self.store.noted("measured_by") is None or sinks != before:
                self.store.note(measured_by=measured_by(self.synth), sinks=sinks)

    def snapshot_if_large(self) -> None:
        """Replace a journal that has outgrown the snapshot, so that all snapshots together cost linear time."""
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
        """Leave a snapshot, from which any later version can continue, and release the state."""
        if self.store is None:
            return
        with self.turn:
            with suppress(Exception):  # whatever was wrong has been said; a journal is as good, for the same version
                unsaved = self.store.journal_bytes or self.store.noted("measured_by")
                if unsaved and not self._journal_stays:
                    self.store.snapshot(self.synth.t, self.synth.to_bytes())
            self.store.close()
