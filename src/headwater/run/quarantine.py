"""Rows that were no records, in a file beside the state: as secret as the data, and each of them once.

What is written goes to the disk before the state says so. The state keeps how long the file is with what it has taken;
whatever is behind that comes from a batch that was never kept, and is cut off before anything is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from headwater.public.bad_rows import BadRow
from headwater.run.store import StoreError


class Quarantine:
    """The file of bad rows of one run: a JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, rows: Sequence[BadRow], t: int, size: int) -> int:
        """Bring rows of a batch to the disk behind the first ``size`` bytes; how long the file is then."""
        lines = []
        for bad in rows:
            said = {"record": t + bad.row + 1, "file": bad.error.file, "line": bad.error.line}
            said |= {"column": bad.error.column, "problem": bad.error.problem, "text": bad.text}
            lines.append(json.dumps(said) + "\n")
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(handle, 0o600)
                os.ftruncate(handle, size)
                os.lseek(handle, size, os.SEEK_SET)
                with os.fdopen(os.dup(handle), "wb") as file:
                    file.write("".join(lines).encode())
                os.fsync(handle)
                return os.fstat(handle).st_size
            finally:
                os.close(handle)
        except OSError as error:
            problem = f"bad rows cannot be written to it ({error.strerror})"
            raise StoreError(self.path, problem, "see to the cause, then give the same command again") from None
