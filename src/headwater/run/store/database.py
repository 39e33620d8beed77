"""The SQLite file of a state: its tables, its format, and how a connection to it is set up."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from urllib.parse import quote

from headwater.run.store.errors import StoreError, damaged, plain_errors

FORMAT = 2  # 1 kept the position of the input whole with every journal entry; 2 merges named positions
APPLICATION = 0x48_57_41_54  # "HWAT", where `file` and others look for the kind of an SQLite file

README = (
    "This file is the state of a Headwater run. It is as secret as the data it was made from: it holds records and the "
    "key of all noise. Do not publish, share or copy it. Continue from it once: two runs from one state put the same "
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
RECEIPTS = """
CREATE TABLE IF NOT EXISTS receipt (seq INTEGER PRIMARY KEY, data BLOB NOT NULL, sha256 BLOB NOT NULL);
"""


def is_store(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION.to_bytes(4, "big")


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def connect(path: Path) -> sqlite3.Connection:
    """A connection that never creates a file, never blocks, and returns from a commit when it is on the disk."""
    if journal_of(path).is_symlink():  # SQLite would follow it and write over its target
        raise StoreError(path, f"{journal_of(path).name} is a symbolic link", "find out who made it, then remove it")
    # Autocommit mode: transactions are begun and ended by hand. Threads take turns by the store's own lock.
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA page_size = 65536")  # blobs of megabytes: large pages halve the time of a commit
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a second guard, where two names lead to one file
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute("PRAGMA journal_size_limit = 0")  # no old pages left beside the state
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute("PRAGMA temp_store = MEMORY")  # no data in temporary files
    except BaseException:
        connection.close()
        raise
    return connection


def disconnect(path: Path, connection: sqlite3.Connection) -> None:
    connection.close()
    journal = journal_of(path)
    if journal.is_file() and not journal.stat().st_size:
        journal.unlink(missing_ok=True)


def build(path: Path, meta: dict[str, str]) -> None:
    """Create the tables in the empty file ``path``."""
    with plain_errors(path):
        connection = connect(path)
        try:
            marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
            connection.executescript(f"BEGIN IMMEDIATE; {marks} {_TABLES} {RECEIPTS}")  # one commit: each is slow
            connection.executemany("INSERT INTO meta VALUES (?, ?)", {"readme": README, **meta}.items())
            connection.execute("COMMIT")
        finally:
            connection.close()


def check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that is no state, one of a newer format, and an interrupted one of format 1."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise StoreError(path, "this is not the state of a Headwater run", "name the right file")
    if version > FORMAT:
        problem = f"the state was written by a newer Headwater (format {version}, this one knows {FORMAT})"
        raise StoreError(path, problem, "continue with that version")
    if version < 1:
        raise damaged(path, "it has no format version")
    if version == 1 and connection.execute("SELECT 1 FROM journal").fetchone():
        problem = "this run was interrupted under an older Headwater, and only that version can read its journal"
        raise StoreError(path, problem, "give the same command once under the version that it ran with, then upgrade")


def digest(*parts: bytes | memoryview) -> bytes:
    result = hashlib.sha256()
    for part in parts:
        result.update(len(part).to_bytes(8, "big"))
        result.update(part)
    return result.digest()
