"""A run as what takes records: keep, then count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headwater.public.bad_rows import BadRow, row_texts
from headwater.public.protocol import Rows
from headwater.public.tally import Tally
from headwater.run.bad_rows import BadRows, own_position
from headwater.run.due import Due
from headwater.run.durable import DurableSynthesizer
from headwater.run.schedule import Schedule
from headwater.run.store import Store
from headwater.secret.counts import BucketedCounts, CountedParts
from headwater.secret.read.batch import Batch
from headwater.synthesizer import Synthesizer


class EncodedBatch(NamedTuple):
    """A batch as a run keeps it: what of its records, what was bad or clipped in it, and bad rows for quarantine."""

    rows: Rows
    tally: Tally
    bad: Sequence[BadRow]


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
        position, policy = own_position(position), self.policy(bad_rows)
        found = self.synth.encode_batch(table, bad_rows=policy)  # all of it is checked before any of it is kept
        bad = row_texts(table, found.bad) if policy == "quarantine" and found.bad else ()
        return self.take_rows(found.rows, found.tally, position=position, quarantined=bad)

    def encode_batch(self, batch: Batch, *, bad_rows: str | None = None) -> EncodedBatch:
        """What `take_rows` takes of a batch that was read from files: rows, what was bad or clipped, bad rows' text.

        Parameters
        ----------
        batch
            Of `headwater.secret.read`.
        bad_rows
            As for `take`; the batch must have been read under the same policy.
        """
        return self.encoder(bad_rows)(batch)

    def encoder(self, bad_rows: str | None = None) -> Callable[[Batch], EncodedBatch]:
        """`encode_batch` for another thread: it does not wait while records are counted, for it uses none of them.

        Parameters
        ----------
        bad_rows
            As for `encode_batch`.
        """
        synth, policy = self.synth, self.policy(bad_rows)

        def encode(batch: Batch) -> EncodedBatch:
            found = synth.encode_batch(batch.table, bad_rows=policy)
            bad = batch.all_bad(found.bad) if policy == "quarantine" else ()
            found = found.among(batch) if batch.bad or found.bad else found
            return EncodedBatch(found.rows, found.tally, bad)

        return encode

    def take_rows(
        self,
        rows: Rows,
        tally: Tally = Tally(),  # noqa: B008 - frozen
        *,
        position: Mapping[str, Any] | None = None,
        quarantined: Sequence[BadRow] = (),
        receipts: bytes = b"",
    ) -> int:
        """Take a batch that was encoded before (`Synthesizer.encode_batch`), as `take` does.

        ``tally`` says what was clipped, unlisted, missing or bad in it; the text of rows that are ``quarantined`` is
        put beside the state; `receipts` gives ``receipts`` back. Rows that no encoding has given are refused.
        """
        named = own_position(position)
        with self._durable.turn:
            checked = self.synth.check_rows(rows)  # before the step: what is wrong leaves everything as it is
            with self._durable.step():
                kept = named | self._bad_rows.add(tally, quarantined)
                t = self._durable.keep(checked, kept, receipts)
                self._count()
                self._durable.snapshot_if_large()
                return t

    def take_counts(
        self,
        counts: BucketedCounts | CountedParts,
        tally: Tally = Tally(),  # noqa: B008 - frozen
        *,
        position: Mapping[str, Any] | None = None,
        quarantined: Sequence[BadRow] = (),
    ) -> int:
        """Take records that were counted elsewhere (`Synthesizer.histogram`), as `take` does with the records.

        They are all records after the first `t`, up to any number, each of them counted once. If they were counted to
        be taken at once (``until``), no release may be due before the last of them (`next_due`).
        """
        named = own_position(position)
        with self._durable.step():
            checked = self.synth.check_counts(counts, self.t)
            if checked.until is not None and (self.next_due or checked.until) < checked.until:
                raise ValueError("a release is due inside records that were counted to be taken at once")
            kept = named | self._bad_rows.add(tally, quarantined)
            t = self._durable.keep(checked.rows, kept, counts=checked.counts, whole=checked.until is not None)
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
