"""What was found out about a column by looking at some of its values: guesses for a person to check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Observed:
    """What was found: the kind of a column, what to declare of it, and notes for a person."""

    kind: str = "category"
    declared: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    """More lines of a schema file: those that are comments a person may want to take."""
    point: str | None = None
    """What surely comes before decimals: other columns of the same file are written alike."""
    nulls: list[str] = field(default_factory=list)
    """Texts that commonly mean "missing" and were seen."""
    doubtful: bool = False
    """Whether a mark in numbers may come before decimals as well as between thousands."""
