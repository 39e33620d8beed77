"""The tables of a state file, and the checksum of a row."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from headwater.store.errors import StoreError, damaged, plain_errors

VERSION = 1
APPLICATION = 0x48_57_41_54  # "HWAT", where `file` and others look for the kind of an SQLite file

README = (
    "This file is the state of a Headwater run. It is as secret as the data it was made from: it holds records and the "
    "key of all noise. Do not publish, share or copy it. Go on from it once: two runs from one state put the same "
    "noise on different data, and subtracting what they publish shows the difference."
)

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE snapshot (part INTEGER PRIMARY KEY, data BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY, head TEXT NOT NULL, data BLOB NOT NULL, sha256 BLOB NOT NULL
);
CREATE TABLE release (t INTEGER PRIMARY KEY, sha256 TEXT NOT NULL);
"""


def is_store(path: Path) -> bool:
    """Whether a file claims to be the state of a run, by its first bytes."""
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION.to_bytes(4, "big")


def connect(path: Path) -> sqlite3.Connection:
    """A connection that never makes a file, never waits, and calls a commit done when it is on the disk.

    A rollback journal, not a write-ahead log: a commit here is one large append, which a rollback journal writes once
    and a write-ahead log twice; and at rest the state is one file, with nothing beside it that a backup could forget.
    """
    # Autocommit mode: transactions are begun and ended by hand. Threads take turns by the store's own lock.
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA page_size = 65536")  # blobs of megabytes: large pages halve the time of a commit
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a second guard, where two names lead to one file
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA journal_size_limit = 0")  # no old pages left beside the state
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute("PRAGMA temp_store = MEMORY")  # no data in temporary files
    except BaseException:
        connection.close()
        raise
    return connection


def build(path: Path, meta: dict[str, str]) -> None:
    """Make the tables in the empty file ``path``."""
    with plain_errors(path):
        connection = connect(path)
        try:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES}")
            connection.executemany("INSERT INTO meta VALUES (?, ?)", {"readme": README, **meta}.items())
            connection.execute("COMMIT")
        finally:
            connection.close()


def check_kind(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that is no state, or one of a newer version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise StoreError(path, "this is not the state of a Headwater run", "name the right file")
    if version > VERSION:
        problem = f"the state was written by a newer Headwater (format {version}, this one knows {VERSION})"
        raise StoreError(path, problem, "go on with that version")
    if version != VERSION:
        raise damaged(path, "it has no format version")


def digest(*parts: bytes | memoryview) -> bytes:
    """SHA-256 of some parts, each with its length, so that no two lists of parts look alike."""
    result = hashlib.sha256()
    for part in parts:
        result.update(len(part).to_bytes(8, "big"))
        result.update(part)
    return result.digest()


def identity(path: Path) -> dict[str, str]:
    """Which file this is, as far as the operating system can tell."""
    status = os.stat(path)
    return {"inode": str(status.st_ino), "device": str(status.st_dev)}


def same_file(kept: dict[str, str], path: Path) -> bool:
    """Whether ``path`` is the file that ``kept`` was noted of.

    A device of major number 0 (network, overlay, memory) gets a new number at every mount: there only the inode counts.
    """
    now = identity(path)
    stable = os.major(int(kept["device"])) and os.major(int(now["device"]))
    return kept["inode"] == now["inode"] and (not stable or kept["device"] == now["device"])
