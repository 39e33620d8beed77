"""A batch as a mechanism takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.protocol import Rows
from headwater.table.bad_rows import BadRow
from headwater.table.readers import Batch
from headwater.table.tally import Tally


@dataclass(frozen=True)
class EncodedRows:
    """A batch as a mechanism takes it. Secret.

    Parameters
    ----------
    rows
        What is kept of each record; bad ones are null records.
    bad
        The rows that are no records, in order.
    tally
        What was clipped, unlisted, missing or bad.
    """

    rows: Rows
    bad: tuple[BadRow, ...]
    tally: Tally

    def among(self, batch: Batch) -> EncodedRows:
        """These rows of a batch of a file, with its lines that could not be read, which are null records.

        Parameters
        ----------
        batch
            The batch whose table was encoded.
        """
        rows = np.full((batch.records, self.rows.shape[1]), np.iinfo(self.rows.dtype).max, dtype=self.rows.dtype)
        rows[batch.places] = self.rows
        return EncodedRows(rows, self.bad, self.tally + Tally(len(batch.bad), len(batch.bad)))
