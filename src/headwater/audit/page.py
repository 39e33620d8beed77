"""The result of an audit as a table, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.audit.findings import Finding
from headwater.markdown import table


@dataclass(frozen=True)
class ExactFinding:
    """A loss that was computed, not sampled. ``loss`` is ``None`` where a check raised an alarm and says so."""

    name: str
    claimed: float
    loss: float | None
    how: str

    @property
    def alarm(self) -> bool:
        """Whether the claim is refuted. The slack is for the auditor's own floating point."""
        return self.loss is None or self.loss > self.claimed * (1 + 1e-9)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**vars(self), "alarm": self.alarm}


@dataclass(frozen=True)
class AuditReport:
    """All that an audit found. Print it, or take `to_json` or `markdown`."""

    version: str
    confidence: float
    sampled: tuple[Finding, ...]
    exact: tuple[ExactFinding, ...]
    screened: int = 0

    @property
    def alarms(self) -> list[str]:
        """The experiments and checks that refute a claim."""
        sampled = [found.name for found in self.sampled if found.alarm]
        return sampled + [found.name for found in self.exact if found.alarm]

    @property
    def passed(self) -> bool:
        """No claim was refuted."""
        return not self.alarms

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "headwater": self.version,
            "audit": 1,
            "passed": self.passed,
            "confidence": self.confidence,
            "note": self._note(),
            "random pairs screened": self.screened,
            "sampled": [found.to_dict() for found in self.sampled],
            "exact": [found.to_dict() for found in self.exact],
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def _note(self) -> str:
        m, alpha = len(self.sampled), 1 - self.confidence
        return (
            f"Each lower bound holds with {self.confidence:.1%}, for its experiment alone. A claim is refuted only by "
            f"a bound at {1 - alpha / max(m, 1):.4%} ({m} experiments): the whole audit accuses a sound mechanism with "
            f"a probability of at most {alpha:.2%}."
        )

    def _rows(self) -> tuple[list[list[str]], list[list[str]]]:
        sampled = [[f.name, *_claim(f), f"{f.runs:,}", "ALARM" if f.alarm else "ok", f.event] for f in self.sampled]
        exact = [
            [f.name, f"{f.claimed:g}", "—" if f.loss is None else f"{f.loss:.6f}", "ALARM" if f.alarm else "ok", f.how]
            for f in self.exact
        ]
        return sampled, exact

    def markdown(self) -> str:
        """Two tables and a note on what they prove."""
        sampled, exact = self._rows()
        parts = []
        if sampled:
            parts += [table(_SAMPLED, sampled).rstrip(), self._note()]
        if exact:
            parts.append(table(_EXACT, exact).rstrip())
        return "\n\n".join(parts) + "\n"

    def __str__(self) -> str:
        sampled, exact = self._rows()
        parts = [_plain(_SAMPLED, sampled), self._note()] if sampled else []
        parts += [_plain(_EXACT, exact)] if exact else []
        last = f"passed: no claim is refuted by {len(sampled)} experiments and {len(exact)} exact checks"
        return "\n\n".join([*parts, last if self.passed else "ALARM: " + "; ".join(self.alarms)])


_SAMPLED = ["experiment", "claimed ε, δ", "lower bound", "runs a stream", "", "event that gave it"]
_EXACT = ["exact check", "claimed ε", "loss", "", "how"]


def _claim(found: Finding) -> tuple[str, str]:
    """What was claimed, and the lower bounds: on ε at the claimed δ, and on δ at the claimed ε."""
    if not found.delta:
        return f"{found.claimed:g}", f"{found.lower:.3f}"
    return f"{found.claimed:g}, {found.delta:g}", f"{found.lower:.3f}, {found.delta_lower:.3f}"


def _plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)
