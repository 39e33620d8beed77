"""Limits as the command line has them: a number, or all."""

from __future__ import annotations


def limit(option: str, text: str) -> int | None:
    """A whole number from 1 on; ``None`` for ``all``.

    Parameters
    ----------
    option
        What errors call it.
    text
        As it was given.

    >>> limit("--rows", "10_000"), limit("--rows", "all")
    (10000, None)
    """
    plain = text.strip().lower().replace("_", "").replace(",", "")
    if plain == "all":
        return None
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 18 and int(plain)):
        raise ValueError(f"{option} must be a whole number from 1 on, or all, not {text!r}")
    return int(plain)
