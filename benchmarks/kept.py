"""Results that took long to compute, in a file to which one line of JSON is added for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Kept:
    """Results by key, and by the fingerprint of the code that made them.

    Parameters
    ----------
    path
        The file. A line that was cut off is left out.
    any_code
        Whether results that other code has made are found as well.
    """

    def __init__(self, path: Path, *, any_code: bool = False) -> None:
        self.path, self.any_code, self._rows = path, any_code, dict[str, dict[str, Any]]()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            if line.endswith("}"):
                row = json.loads(line)
                self._rows[row["key"]] = row

    def find(self, key: str, code: str = "") -> dict[str, Any] | None:
        """The newest result, if it was made by this code."""
        row = self._rows.get(key)
        return row if row is not None and (self.any_code or row.get("code", "") == code) else None

    def add(self, key: str, code: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        self._rows[key] = {"key": key, "code": code} | result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._rows[key], ensure_ascii=False) + "\n")
