"""The numbers of the accuracy benchmark: kept, found again, averaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy_cases import CASCADE, CHECK, RATE, Setting
from headwater.public.cells import expected_w1

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """All seeds (rows) of one setting at all its times (columns)."""

    setting: Setting
    w1: list[list[float]]
    spread: list[list[float]]

    @cached_property
    def scaled(self) -> Floats:
        """For each seed W1·(εt)^(1/d), the mean over the times."""
        s = self.setting
        scale = (s.epsilon * np.array(s.times)) ** (1 / s.d)
        values: Floats = (np.array(self.w1) * scale).mean(axis=1)
        return values

    @property
    def mean(self) -> float:
        """Of `scaled`, over the seeds."""
        return float(self.scaled.mean())

    @property
    def deviation(self) -> float:
        """Standard deviation of `scaled` over the seeds."""
        return float(self.scaled.std(ddof=1)) if len(self.scaled) > 1 else 0.0


@dataclass(frozen=True)
class Foretold:
    """One release of cascade: what it expected of its error, and what the error was."""

    setting: Setting
    t: int
    w1: float
    spread: float  # for each point

    @property
    def upper(self) -> float:
        """What W1 was said to stay below in nine cases of ten."""
        return expected_w1(self.spread).upper


@dataclass(frozen=True)
class Numbers:
    """Everything that was measured."""

    size: str
    seconds: float
    measured: list[Measured]

    @cached_property
    def _index(self) -> dict[tuple[str, str, int, float, int, str], Measured]:
        return {
            (s.group, s.stream, s.d, s.epsilon, s.length, s.mechanism): m for m in self.measured for s in [m.setting]
        }

    def __call__(
        self, group: str, stream: str, d: int, mechanism: str, *, epsilon: float = 1.0, length: int = 131_072
    ) -> Measured:
        """What was measured of one setting."""
        return self._index[group, stream, d, epsilon, length, mechanism]

    def beside(self, measured: Measured, mechanism: str) -> Measured | None:
        """Another mechanism in the same setting, if it was run."""
        s = measured.setting
        return self._index.get((s.group, s.stream, s.d, s.epsilon, s.length, mechanism))

    def of(self, mechanism: str, *groups: str) -> list[Measured]:
        """All that was measured of a mechanism."""
        return [m for m in self.measured if m.setting.mechanism == mechanism and m.setting.group in groups]

    def foretold(self) -> Iterator[Foretold]:
        """Every release of cascade, but for those that only serve to check another."""
        for m in self.measured:
            if m.setting.mechanism == CASCADE and m.setting.group not in (CHECK, RATE):
                for values, spreads in zip(m.w1, m.spread, strict=True):
                    for t, value, spread in zip(m.setting.times, values, spreads, strict=True):
                        yield Foretold(m.setting, t, value, spread)

    def write(self, path: Path) -> None:
        """One setting a line."""
        lines = []
        for m in self.measured:
            spread = {"spread": m.spread} if m.setting.mechanism == CASCADE else {}  # the others know nothing
            lines.append(json.dumps(asdict(m.setting) | {"w1": m.w1} | spread, ensure_ascii=False))
        head = f'{{"size": "{self.size}", "seconds": {self.seconds:.0f}, "measured": [\n'
        path.write_text(head + ",\n".join(lines) + "\n]}\n")

    @staticmethod
    def read(path: Path) -> Numbers:
        """What `write` wrote."""
        record = json.loads(path.read_text())
        measured = []
        for entry in record["measured"]:
            values, spread = entry.pop("w1"), entry.pop("spread", [])
            measured.append(Measured(Setting(**entry | {"times": tuple(entry["times"])}), values, spread))
        return Numbers(record["size"], record["seconds"], measured)
