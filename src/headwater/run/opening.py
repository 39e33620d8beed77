"""How a run begins or goes on: every check, and every refusal, before the first record is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.run.config import RunConfig
from headwater.run.durable import DurableSynthesizer
from headwater.run.sink import Sink, newest
from headwater.run.store import StateCopiedError, Store
from headwater.run.store.identity import REMEDY
from headwater.synthesizer import Synthesizer

Windows = Mapping[int, Sink]
"""For numbers of last records, where windows of them go."""


def state_beside(out: Path) -> Path:
    folder = out.resolve() if out.name in ("", "..") else out
    return folder.with_name(f"{folder.name}.state")


def begun(config: RunConfig, state: Path | None, sink: Sink, windows: Windows) -> DurableSynthesizer:
    synth = config.synthesizer()
    check_windows(synth, windows)
    for place in (sink, *windows.values()):
        place.begin(synth.run_id)
    return DurableSynthesizer.create(synth, config, state)


def continued(
    store: Store, sink: Sink, windows: Windows, *, allow_copy: bool, journal_stays: bool
) -> DurableSynthesizer:
    """The run of a state that is open."""
    durable = DurableSynthesizer.open(store, journal_stays=journal_stays)
    check_windows(durable.synth, windows)
    sinks, run_id = (sink, *windows.values()), durable.synth.run_id
    if not allow_copy:
        refuse_older(store, sinks, run_id)
    for place in sinks:
        place.begin(run_id)
    return durable


@contextmanager
def open_store(state: Path, *, allow_copy: bool) -> Iterator[Store]:
    store = Store.open(state, allow_copy=allow_copy)
    try:
        yield store
    except BaseException:
        store.close()
        raise


def holds_run(state: Path, config: RunConfig, *, allow_copy: bool) -> bool:
    if not state.exists():
        return False
    with Store.open(state, allow_copy=allow_copy) as store:
        if store.t or store.releases() or config.matches(store):
            return True
        state.unlink()  # while nobody else can have it
    return False


def refuse_older(store: Store, sinks: Sequence[Sink], run_id: str) -> None:
    """Refuse a state that is behind what its run has published: every release is of records that were kept."""
    found = {place.location: place.newest(run_id) for place in sinks}
    for location in {*found, *(store.noted("sinks") or ())}:
        if (t := found[location] if location in found else newest(location, run_id)) > store.t:
            problem = (
                f"an older version of this state was put back: {location} holds a release of {t:,} records, and "
                f"this state has taken {store.t:,}"
            )
            raise StateCopiedError(store.path, problem, REMEDY)


def check_windows(synth: Synthesizer, windows: Windows) -> None:
    for last in windows:
        if last < 1:
            raise ValueError(f"a window must hold at least 1 record, not {last}")
    if windows and not synth.has_windows:
        raise ValueError(f"mechanism={synth.mechanism!r} has no windows; leave them out, or choose another mechanism")
