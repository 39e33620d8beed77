"""From a state back to a synthesizer, with the very same noise on the very same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy

from headwater.public.tally import Tally
from headwater.public.version import __version__
from headwater.run.config import RunConfig
from headwater.run.store import Store, StoreError, is_store
from headwater.run.store.entries import Entry
from headwater.run.store.errors import damaged
from headwater.secret.noise import warn_of_seed
from headwater.synthesizer import Synthesizer


def measured_by(synth: Synthesizer) -> str:
    return f"headwater {__version__} ({synth.measurement_version}), numpy {numpy.__version__}"


def restored(store: Store) -> tuple[Synthesizer, list[Entry]]:
    """The synthesizer of the last snapshot, and what is to be counted on top of it."""
    kept = store.load()
    if kept.snapshot is None:  # killed before the first one: nothing was taken or published
        if kept.t:
            raise damaged(store.path, "it has records and no snapshot")
        synth = RunConfig.of(store).synthesizer()
        store.snapshot(0, synth.to_bytes())
        return synth, []
    synth = Synthesizer.from_bytes(kept.snapshot.data)
    if synth.t != kept.snapshot.t:
        raise damaged(store.path, "its snapshot is of another time than it says")
    before = store.noted("measured_by")
    if before is not None and before != measured_by(synth):
        problem = f"this run was interrupted under {before}, and this is {measured_by(synth)}"
        raise StoreError(store.path, problem, "give the same command once under the old versions, then upgrade")
    if store.config.get("seed") is not None:
        warn_of_seed(3)
    return synth, kept.journal


def counted(store: Store | None, synth: Synthesizer, entry: Entry) -> None:
    """Count records, which may come from a journal: if they do not fit, the state is damaged."""
    try:
        if entry.counts is None:
            synth.update_rows(entry.rows)
        else:
            synth.update_counted_rows(entry.rows, entry.counts, entry.end if entry.whole else None)
    except (TypeError, ValueError) as error:
        if store is None:
            raise
        raise damaged(store.path, "its journal does not hold records") from error


def read_tally(state: Path, synth: Synthesizer) -> Tally:
    if not is_store(state):
        return synth.tally
    with Store.open(state, observe=True) as store:
        return Tally.from_dict(store.position("tally")).with_capped(synth.capped, synth.t)


def read_state(state: Path) -> Synthesizer:
    """The synthesizer of a run that has stopped, to look at: of a state, or of a file that `Synthesizer.save` wrote."""
    if state.is_file() and not is_store(state):
        return Synthesizer.load(state)
    with Store.open(state, observe=True) as store:
        kept = store.load()
        if kept.snapshot is None:
            raise StoreError(store.path, "this run has not begun yet", "give the command that was to begin it again")
        synth = Synthesizer.from_bytes(kept.snapshot.data)
        for entry in kept.journal:
            counted(store, synth, entry)
        return synth
