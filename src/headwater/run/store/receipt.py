"""Receipts: what was answered to the sources of records, kept when a snapshot replaces their journal entries."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from headwater.run.store import database, entries
from headwater.run.store.errors import damaged

KEPT_BYTES = 1 << 26
"""How much of the receipts is kept at least."""


def keep(connection: sqlite3.Connection, receipts: bytes) -> None:
    """Keep the receipts of journal entries that are replaced by a snapshot, and forget the oldest."""
    run = connection.execute
    if receipts:
        run("INSERT INTO receipt (data, sha256) VALUES (?, ?)", (receipts, database.digest(receipts)))
    kept = 0
    for seq, size in list(run("SELECT seq, length(data) FROM receipt ORDER BY seq DESC")):
        if kept >= KEPT_BYTES:
            run("DELETE FROM receipt WHERE seq <= ?", (seq,))
            break
        kept += size


def read(path: Path, connection: sqlite3.Connection) -> list[bytes]:
    """All receipts that are kept, oldest first: those of the journal are the last."""
    rows = list(connection.execute("SELECT data, sha256 FROM receipt ORDER BY seq"))
    heads = list(connection.execute("SELECT head FROM journal ORDER BY seq"))
    if any(database.digest(data) != checksum for data, checksum in rows):
        raise damaged(path, "the receipts do not match their checksum")
    try:
        return [*(data for data, _ in rows), *(entries.receipts_in(json.loads(head)) for (head,) in heads)]
    except entries.UNFIT as error:
        raise damaged(path, "its parts do not fit together") from error
