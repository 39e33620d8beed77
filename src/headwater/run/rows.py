"""What a run keeps of records: rows of unsigned integers, as the mechanism encodes them."""

from __future__ import annotations

import numpy as np

from headwater.run.store.entries import Rows
from headwater.synthesizer import Synthesizer


def encode(synth: Synthesizer, table: object) -> Rows:
    """The row of every record of a batch; all of it is checked, and nothing is counted."""
    return synth.locate(table).reshape(-1, 1)


def update(synth: Synthesizer, rows: Rows) -> None:
    """Count rows that `encode` gave, in order of arrival."""
    if rows.shape[1:] != (1,):
        raise ValueError("rows have another width than this run's")
    synth.take(np.ascontiguousarray(rows[:, 0]))
