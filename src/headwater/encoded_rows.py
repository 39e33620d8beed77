"""A batch as a mechanism takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.mechanisms.protocol import Mechanism, Rows, with_null_records
from headwater.people.hashing import NOBODY, SOMEBODY
from headwater.people.people import People
from headwater.people.person import OWN
from headwater.table.bad_rows import BadRow, flags_of
from headwater.table.errors import TableError
from headwater.table.input_schema import InputSchema
from headwater.table.readers import Batch
from headwater.table.schema import Schema
from headwater.table.series import Values
from headwater.table.tally import Tally


@dataclass(frozen=True)
class EncodedRows:
    """A batch as a mechanism takes it. Secret.

    Bad rows, which ``bad`` lists in order, are null records among ``rows``; ``people`` says whose records they are, and
    ``nobody`` which texts name none.
    """

    rows: Rows
    bad: tuple[BadRow, ...]
    tally: Tally
    people: People | None = None
    nobody: tuple[str, ...] = ()

    def among(self, batch: Batch) -> EncodedRows:
        """These rows of a batch of a file, with its lines that could not be read, which are null records.

        Such a line is one of its person's, as any other bad record is, if it names one.
        """
        rows = np.full((batch.records, self.rows.shape[1]), np.iinfo(self.rows.dtype).max, dtype=self.rows.dtype)
        rows[batch.places] = self.rows
        named = [one for one in batch.bad if one.person is not None]
        if self.people is not None and named:
            hashes, _, _ = self.people.read(Values([one.person for one in named]), None, self.nobody)
            width = rows.shape[1] - self.people.columns(rows.dtype.itemsize)
            null = np.full((len(named), width), np.iinfo(rows.dtype).max, dtype=rows.dtype)
            rows[[one.row for one in named]] = self.people.attached(null, hashes)
        tally = self.tally + Tally(len(batch.bad)).add_bad(one.error for one in batch.bad)
        if first := batch.all_bad(self.bad[:1])[:1]:  # with its file and line
            tally.first_bad = str(first[0].error.without_row())
        return EncodedRows(rows, self.bad, tally, self.people, self.nobody)


def encode_with_people(people: People, mechanism: Mechanism, schema: Schema, table: object, policy: str) -> EncodedRows:
    """A batch whose records belong to people: behind what the mechanism keeps of a record is who it belongs to.

    A bad record whose person can be read counts as one of that person's, so that what is in a record never decides
    whether another one counts.
    """
    column = people.person.column
    nobody = tuple(InputSchema(schema, column).nobody)
    found = schema.encode_batch(table, bad_rows=policy, beside=column)
    assert found.beside is not None  # noqa: S101 - it was asked for
    unread = flags_of(list(found.unread), len(found.points)) if found.unread else None
    hashes, nowhere, errors = people.read(found.beside, unread, nobody)
    wrong: dict[int, TableError] = {row: error.at(row=row, column=column) for row, error in errors.items()}
    unnamed = (hashes == (SOMEBODY if people.person.null == OWN else NOBODY)).all(axis=1)
    unnamed[[*wrong, *found.unread]] = False
    found.tally.add(column, "missing", int(np.count_nonzero(unnamed)))
    if wrong and policy == "stop":
        raise wrong[min(wrong)]
    known = {bad.row: bad.error for bad in found.bad}
    found.tally.add_bad(error for row, error in wrong.items() if row not in known)
    wrong |= known
    bad = tuple(BadRow(row, wrong[row]) for row in sorted(wrong))
    null = nowhere | flags_of(list(wrong), len(hashes))
    rows = with_null_records(mechanism.encode(found.points), null if null.any() else None)
    return EncodedRows(people.attached(rows, hashes), bad, found.tally, people, nobody)
