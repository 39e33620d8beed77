"""Whether a state file is the one that its run wrote last, as far as the operating system shows."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.run.store.errors import StateCopiedError

_WHY = "two runs from one state publish the same noise on different data, and subtracting them shows the difference"
REMEDY = (
    "if no other run continues from this state or from the one it was copied from, "
    f"say so with allow_copy (--allow-copy); otherwise start a new run: {_WHY}"
)


def identity(path: Path) -> dict[str, str]:
    status = os.stat(path)
    return {"inode": str(status.st_ino), "device": str(status.st_dev)}


def refuse_copy(path: Path, kept: dict[str, str], commits: int, noted: int) -> None:
    if not _same_file(kept, path):
        raise StateCopiedError(path, "this is a copy of a state, or a backup that was put back", REMEDY)
    if commits < noted:
        raise StateCopiedError(path, "an older version of this state was put back in its place", REMEDY)


def _same_file(kept: dict[str, str], path: Path) -> bool:
    now = identity(path)
    stable = os.major(int(kept["device"])) and os.major(int(now["device"]))
    return kept["inode"] == now["inode"] and (not stable or kept["device"] == now["device"])
