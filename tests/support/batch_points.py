"""What the records of a batch mean, each in its place."""

from __future__ import annotations

from typing import Any

from headwater.public.schema import Schema


def points_in_places(batch: Any, schema: Schema, policy: str) -> list[list[float] | None]:  # noqa: ANN401 - of a file or a topic
    """The encoding of each record of a batch; None for a bad one."""
    encoded = schema.encode_batch(batch.table, bad_rows=policy)
    records: list[list[float] | None] = [None] * batch.records
    for place, point in zip(batch.places.tolist(), encoded.points.tolist(), strict=True):
        records[place] = point
    for bad in batch.all_bad(encoded.bad):
        records[bad.row] = None
    return records
