"""Time of the processor: what else the machine does counts as little as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time


def seconds(work: Callable[[], object]) -> float:
    """Of this process, for one call."""
    start = process_time()
    work()
    return process_time() - start


def in_turns(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each side, repeat by repeat in turns, so that a busy machine slows all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, work in sides.items():
            found[name].append(seconds(work))
    return found
