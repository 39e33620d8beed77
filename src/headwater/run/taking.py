"""A run as what takes records: keep, then count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.public.bad_rows import row_texts
from headwater.public.tally import Tally
from headwater.run.bad_rows import BadRows, own_position
from headwater.run.due import Due
from headwater.run.durable import DurableSynthesizer
from headwater.run.schedule import Schedule
from headwater.run.store import Store
from headwater.secret.batch import Batch
from headwater.secret.read.batch import Batch as Lines
from headwater.synthesizer import Synthesizer


class TakingRun:
    """Takes batches, each whole or not at all, and counts them up to the next release that is due.

    Parameters
    ----------
    durable
        The synthesizer and its state.
    schedule
        When releases are due.
    """

    def __init__(self, durable: DurableSynthesizer, schedule: Schedule) -> None:
        self.schedule = schedule
        self.epsilon, self.run_id = durable.synth.epsilon, durable.synth.run_id
        self.guarantee = durable.synth.guarantee
        self._durable = durable
        self._due = Due(schedule, durable.store.releases() if durable.store else ())
        self._bad_rows = BadRows(durable)

    @property
    def store(self) -> Store | None:
        """What keeps the run, if anything does. Secret."""
        return self._durable.store

    @property
    def state(self) -> Path | None:
        """The file that keeps the run, if there is one. Secret."""
        return self.store.path if self.store else None

    @property
    def t(self) -> int:
        """How many records have been taken. Public."""
        return self._durable.t

    @property
    def next_due(self) -> int | None:
        """The number of records, after `t`, at which the next release is due; None if their number decides nothing."""
        return self.schedule.next_due(self.t)

    @property
    def synth(self) -> Synthesizer:
        """The synthesizer. It may be behind `t` until `publish_if_due` was called."""
        return self._durable.synth

    def position(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """The last value that `take` has kept under a name, in memory only if there is no state; ``None`` if none was.

        Parameters
        ----------
        name
            As given to `take`.
        """
        return self._durable.position(name)

    @property
    def tally(self) -> Tally:
        """How many rows were bad, and how many values were clipped, unlisted or missing. Secret: there is no noise."""
        return self._bad_rows.tally.with_capped(self.synth.capped, self.synth.t)

    @property
    def quarantine(self) -> Path | None:
        """Where bad rows go under ``bad_rows="quarantine"``; None without a state."""
        return self._bad_rows.quarantine

    def policy(self, bad_rows: str | None = None) -> str:
        """What happens to bad rows from now on, as `take` has it. Releases state it: it is no secret.

        Parameters
        ----------
        bad_rows
            A policy of `headwater.public.bad_rows`; unless given, what the schema says.
        """
        return self._bad_rows.policy(bad_rows)

    def take(self, table: object, *, position: Mapping[str, Any] | None = None, bad_rows: str | None = None) -> int:
        """Take a batch in order of arrival, all of it or nothing, and return how many records there are with it.

        When it returns, the batch is on the disk. Call `publish_if_due` afterwards.

        Parameters
        ----------
        table
            Any kind of table that the schema reads. One with anything wrong in it is refused whole.
        position
            Named JSON values that are kept in the same transaction, such as an offset in a file, the offsets of a
            topic, or an idempotency key. Names that are not given stay as they are; ``None`` removes one. ``tally``,
            ``quarantine`` and ``bad_rows`` are refused: these the run keeps itself.
        bad_rows
            What happens to rows that are no records (`headwater.public.bad_rows`): ``"stop"``, ``"null"`` or
            ``"quarantine"``. Unless given, what the schema says; ``"stop"`` if it says nothing.
        """
        return self.take_batch(self.encode(table, bad_rows=bad_rows), position=position)

    def encode(self, table: object, *, bad_rows: str | None = None) -> Batch:
        """What `take_batch` takes of a table, or of records that were read from a file.

        Parameters
        ----------
        table
            Any kind of table that the schema reads, or a batch of `headwater.secret.read`, read under the same policy.
        bad_rows
            As for `take`.
        """
        return self.encoder(bad_rows)(table)

    def encoder(self, bad_rows: str | None = None) -> Callable[[object], Batch]:
        """`encode` for another thread: it does not wait while records are counted, for it uses none of them.

        Parameters
        ----------
        bad_rows
            As for `encode`.
        """
        synth, policy = self.synth, self.policy(bad_rows)

        def encode(table: object) -> Batch:
            found = synth.encode(table, bad_rows=policy)
            if policy != "quarantine":
                return replace(found, bad=())
            if found.bad and not isinstance(table, Lines):
                found = replace(found, bad=tuple(row_texts(table, found.bad)))
            return found

        return encode

    def take_batch(self, batch: Batch, *, position: Mapping[str, Any] | None = None, receipts: bytes = b"") -> int:
        """Take a batch that was encoded before (`encode`, `Synthesizer.encode`), as `take` does.

        The text of its bad rows is put beside the state; `receipts` gives ``receipts`` back. If it was counted to be
        taken at once (``until``), no release may be due before the last of its records (`next_due`).
        """
        named = own_position(position)
        with self._durable.turn:
            checked = self.synth.checked(batch, self.t)  # before the step: what is wrong leaves everything as it is
            if checked.until is not None and (self.next_due or checked.until) < checked.until:
                raise ValueError("a release is due inside records that were counted to be taken at once")
            with self._durable.step():
                kept = named | self._bad_rows.add(batch.tally, batch.bad)
                t = self._durable.keep(replace(checked, tally=Tally(), bad=()), kept, receipts)
                self._count()
                self._durable.snapshot_if_large()
                return t

    def receipts(self) -> list[bytes]:
        """What `take_rows` has kept as receipts, oldest first; very old ones are forgotten."""
        return self.store.receipts() if self.store else []

    def keep_position(self, position: Mapping[str, Any]) -> None:
        """Keep positions without records, such as that a file was read to its end."""
        named = own_position(position)
        with self._durable.step():
            self._durable.keep_position(named)

    def _count(self) -> None:
        self._durable.count(self._due.next_by_records(self.synth.t, self.t))
