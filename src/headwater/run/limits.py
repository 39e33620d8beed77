"""How much is published, unless somebody says otherwise, and how such limits are written: a number, or all."""

from __future__ import annotations

ROWS, KEEP = 1_000_000, 100
"""The most rows of a published table, and how many releases keep their tables."""


def limit(option: str, given: str | int) -> int | None:
    plain = str(given).strip().lower().replace("_", "").replace(",", "")
    if plain == "all":
        return None
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 18 and int(plain)):
        raise ValueError(f"{option} must be a whole number from 1 on, or all, not {given!r}")
    return int(plain)
