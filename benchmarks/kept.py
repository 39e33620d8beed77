"""Results that took long to compute, in a file to which one line of JSON is added for each."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Kept:
    """Results by key, and by the code that made them, unless results of any code will do."""

    def __init__(self, path: Path, *, any_code: bool = False) -> None:
        self.path, self.any_code, self._rows = path, any_code, dict[str, dict[str, Any]]()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            if line.endswith("}"):  # the last one may be cut off
                row = json.loads(line)
                self._rows[row["key"]] = row

    def find(self, key: str, code: str) -> dict[str, Any] | None:
        """The newest result, if it was made by this code."""
        row = self._rows.get(key)
        if row is None or (not self.any_code and row.get("code", "") != code):
            return None
        return {name: value for name, value in row.items() if name not in ("key", "code")}

    def add(self, key: str, code: str, result: dict[str, Any]) -> dict[str, Any]:
        """Keep a result, and return it."""
        self._rows[key] = {"key": key, "code": code} | result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._rows[key], ensure_ascii=False) + "\n")
        return result


@cache
def fingerprint() -> str:
    """Of all code of the package: numbers that were made by other code are made again."""
    source = b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py")))
    return hashlib.sha256(source).hexdigest()[:16]
