"""Creating a state file: owner-only from the first moment, and whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from headwater.public.files import sync
from headwater.run.store import database
from headwater.run.store.identity import identity


def real_path(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(path))


def create_folder(folder: Path) -> None:
    if not folder.is_dir():
        create_folder(folder.parent)
        folder.mkdir(mode=0o700)


def create_file(path: Path, config: str) -> None:
    """Build the state under another name and rename it: a kill leaves no state or a whole one."""
    new = path.with_name(f".{path.name}.new")
    leftovers = (new, database.journal_of(new))
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    try:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        meta = {"config": config, "config_sha256": hashlib.sha256(config.encode()).hexdigest()}
        database.build(new, meta | {"commits": "0", "opened": "0"} | identity(new))
        os.rename(new, path)
    finally:
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
    sync(path.parent)
