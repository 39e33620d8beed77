"""What is checked when a state is opened: who may read it, what it says of itself, and whether it is a copy."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any, NamedTuple

from headwater.run.store.entries import UNFIT
from headwater.run.store.errors import StoreError, damaged
from headwater.run.store.identity import refuse_copy

NOTES = ("measured_by", "sinks")
"""Facts that `Store.note` keeps."""


class Meta(NamedTuple):
    """The state's facts about itself."""

    config: dict[str, Any]
    commits: int
    opened: int


def check_permission(path: Path) -> None:
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        problem = "other users may read this state, which is as secret as the data"
        raise StoreError(path, problem, f"think who may have read it, then: chmod 600 {path.name}")


def read_meta(path: Path, connection: sqlite3.Connection, commits: int | None) -> Meta:
    """Read and check the facts."""
    values = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        if hashlib.sha256(values["config"].encode()).hexdigest() != values["config_sha256"]:
            raise damaged(path, "the configuration does not match its checksum")
        meta = Meta(json.loads(values["config"]), int(values["commits"]), int(values["opened"]) + 1)
        if commits is not None:
            refuse_copy(path, values, meta.commits, commits)
    except UNFIT as error:
        raise damaged(path, "its notes about itself cannot be read") from error
    return meta
