"""What a run keeps of rows that were no records, and of values that were clipped: the policy, a tally, the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.public.bad_rows import BadRow, policy_of
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.tally import Tally
from headwater.run.durable import DurableSynthesizer
from headwater.run.quarantine import Quarantine

TALLY, QUARANTINE, POLICY = "tally", "quarantine", "bad_rows"
"""Names under which they are kept in the state, beside the positions of sources."""


def own_position(position: Mapping[str, Any] | None) -> dict[str, Any]:
    found = dict(position or {})
    for name in (TALLY, QUARANTINE, POLICY):
        if name in found:
            raise ValueError(f"the run itself keeps something under {name!r}: give the position another name")
    return found


class BadRows:
    """The tally of a run, and its quarantine."""

    def __init__(self, durable: DurableSynthesizer) -> None:
        self._durable = durable
        self._tally = Tally()  # without a state

    @property
    def tally(self) -> Tally:
        store = self._durable.store
        if store is None:
            return self._tally
        kept = store.position(TALLY)  # nothing is kept as long as all records are good
        return Tally.from_dict(kept) if kept else Tally(self._durable.synth.t)

    @property
    def quarantine(self) -> Path | None:
        store = self._durable.store
        return store.path.with_name(store.path.name + ".bad-rows.jsonl") if store else None

    def policy(self, bad_rows: str | None) -> str:
        """What happens to bad rows: what is given, or else what the schema says, or else ``"stop"``."""
        schema = self._durable.synth.schema
        policy = policy_of(bad_rows, schema)
        if policy == "quarantine" and not self._durable.store:
            raise ValueError("bad rows can be put in quarantine only beside a state; use bad_rows='null' without one")
        if policy != (self.in_force or "stop"):
            with self._durable.step():
                self._durable.keep_position({POLICY: policy})
        return policy

    @property
    def in_force(self) -> str | None:
        found: str | None = self._durable.position(POLICY)
        return found or getattr(self._durable.synth.schema, "bad_rows", None)

    def stated(self, release: Release, policy: str | None) -> Release:
        schema = release.schema
        if policy is None or not isinstance(schema, Schema) or schema.bad_rows == policy:
            return release
        return replace(release, facts=replace(release.facts, schema=schema.with_bad_rows(policy)))

    def add(self, tally: Tally, quarantined: Sequence[BadRow]) -> dict[str, Any]:
        """What is to be kept in the state with the batch that these came in."""
        store, kept = self._durable.store, dict[str, Any]()
        if store is None:
            self._tally += tally
        elif tally.bad or tally.columns or store.position(TALLY):
            kept[TALLY] = (self.tally + tally).to_dict()
        if quarantined:
            kept[QUARANTINE] = self._put_away(quarantined)
        return kept

    def _put_away(self, bad: Sequence[BadRow]) -> int:
        store = self._durable.store
        assert store is not None and self.quarantine is not None  # noqa: S101, PT018 - only with a state
        file, known = Quarantine(self.quarantine), store.position(QUARANTINE) or 0
        if file.size() < known:  # somebody has taken it away: begin anew, and note that before anything is written
            known = file.size()
            self._durable.keep_position({QUARANTINE: known})
        return file.append(bad, self._durable.t, known)
