"""What a run keeps of records: rows of unsigned integers, as the mechanism encodes them."""

from __future__ import annotations

from headwater.run.store.entries import Rows
from headwater.synthesizer import Synthesizer


def encode(synth: Synthesizer, table: object) -> Rows:
    """The row of every record of a batch; all of it is checked, and nothing is counted."""
    return synth.encode(table)


def update(synth: Synthesizer, rows: Rows) -> None:
    """Count rows that `encode` gave, in order of arrival."""
    synth.update_rows(rows)
