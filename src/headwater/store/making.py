"""How a state file comes into being: owner-only from the first moment, and whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from headwater.store import tables


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path without links, so that two names of one state meet the same lock."""
    return Path(os.path.realpath(path))


def make_folder(folder: Path) -> None:
    """Make the folder of a state, owner-only as the state is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700)


def make_file(path: Path, config: str) -> None:
    """Build the state under another name and move it in place: a kill leaves either no state or a whole one."""
    new = path.with_name(f".{path.name}.new")
    for leftover in (new, new.with_name(new.name + "-journal")):
        leftover.unlink(missing_ok=True)  # of a run that was killed while it made its state; we hold the lock
    try:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        meta = {"config": config, "config_sha256": hashlib.sha256(config.encode()).hexdigest()}
        tables.build(new, meta | {"commits": "0", "opened": "0"} | tables.identity(new))
        os.rename(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
