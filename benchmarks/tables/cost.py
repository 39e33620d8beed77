"""What wide tables cost: ingestion, releases, drawing and memory, beside bare NumPy in the same run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from time import process_time, strftime
from types import FunctionType, ModuleType

import numpy as np

from benchmarks.tables.cases import Case
from benchmarks.tables.data import Codes, Table, table
from benchmarks.tables.online import UnknownMechanismError, synthesizer_of

RUNS = (("flights", "marginals"), ("health", "marginals"), ("flights", "cascade"))
COPIES = (1, 3, 10, 31)  # how often the first of these tables is taken, one copy after the other
BATCH = 8_192
REPEATS = 2


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor, one thread, at the end of a table; the least of `REPEATS` runs."""

    table: str
    columns: int
    mechanism: str
    t: int
    encode: float  # turning the values of data frames into codes, all records, in batches
    take: float  # taking the codes; all that happens when a bucket ends is part of it
    take_between: float  # the same if every batch took as long as the median one: without the ends of large buckets
    count_tree: float  # bare bincounts: one-way marginals and as many two-way ones as a spanning tree has
    count_all: float  # bare bincounts: one-way marginals and those of all pairs
    release: float  # after new records
    release_early: float  # the same at an eighth of the records
    draw: float
    random: float  # Generator.random of the shape of the records
    state: float  # live bytes for each record and column, the most of all times at which it was measured
    state_from: int  # those were from this time on
    longer: tuple[tuple[int, float], ...] = ()  # so many times the table: taking them all / bare counts of all pairs

    @property
    def update(self) -> float:
        """All records, from data frames."""
        return self.encode + self.take


def measure_cost() -> list[Cost]:
    """Costs of every run of `RUNS` whose mechanism this version has."""
    found = []
    for name, mechanism in RUNS:
        try:
            print(f"{strftime('%H:%M:%S')} costs of {mechanism} on {name}", file=sys.stderr, flush=True)
            found.append(_cost(table(name), mechanism))
        except UnknownMechanismError:
            continue
    return found


def _cost(whole: Table, mechanism: str) -> Cost:
    case = Case(whole.name, len(whole), 1.0, mechanism, 0)
    frames = [whole.frame.iloc[i : i + BATCH] for i in range(0, len(whole), BATCH)]
    codes, empty = whole.codes(), synthesizer_of(case)
    rows = [empty.encode(frame) for frame in frames]

    def take() -> list[float]:
        synthesizer, seconds = synthesizer_of(case), []
        for batch in rows:
            start = process_time()
            synthesizer.update_rows(batch)
            seconds.append(process_time() - start)
        return seconds

    def longer(bare: float) -> tuple[tuple[int, float], ...]:
        synthesizer, seconds, found = synthesizer_of(case), 0.0, []
        for copy in range(1, COPIES[-1] + 1):
            start = process_time()
            for batch in rows:
                synthesizer.update_rows(batch)
            seconds += process_time() - start
            if copy in COPIES:
                found.append((copy, round(seconds / (copy * bare), 2)))
        return tuple(found)

    taken = min((take() for _ in range(REPEATS)), key=sum)
    count_all = _least(lambda: _count(codes, whole.sizes, tree=False))
    early, late = (_release(whole, case, t) for t in (len(whole) // 8, len(whole)))
    shape = (len(whole), len(whole.sizes))
    rng = np.random.default_rng(0)
    state_from = 1 << 13
    return Cost(
        whole.name,
        len(whole.sizes),
        mechanism,
        len(whole),
        encode=_least(lambda: [empty.encode(frame) for frame in frames]),
        take=sum(taken),
        take_between=float(np.median(taken)) * len(rows),
        count_tree=_least(lambda: _count(codes, whole.sizes, tree=True)),
        count_all=count_all,
        release=late[0],
        release_early=early[0],
        draw=late[1],
        random=_least(lambda: rng.random(shape)),
        state=_state(whole, case, state_from),
        state_from=state_from,
        longer=longer(count_all) if (whole.name, mechanism) == RUNS[0] else (),
    )


def _count(codes: Codes, sizes: tuple[int, ...], *, tree: bool) -> None:
    """One-way and two-way marginals, batch by batch, from codes."""
    small = codes.astype(np.uint16)
    pairs = [(i, i + 1) for i in range(len(sizes) - 1)] if tree else list(combinations(range(len(sizes)), 2))
    for at in range(0, len(small), BATCH):
        columns = list(np.ascontiguousarray(small[at : at + BATCH].T).astype(np.int64))
        for column, size in zip(columns, sizes, strict=True):
            np.bincount(column, minlength=size)
        for i, j in pairs:
            np.bincount(columns[i] * sizes[j] + columns[j], minlength=sizes[i] * sizes[j])


def _release(whole: Table, case: Case, t: int) -> tuple[float, float]:
    """Seconds of a release after new records, and of drawing from it."""
    synthesizer = synthesizer_of(case)
    synthesizer.update(whole.frame.iloc[: t - REPEATS])
    found = []
    for at in range(t - REPEATS, t):
        synthesizer.update(whole.frame.iloc[at : at + 1])
        start = process_time()
        release = synthesizer.release()
        released = process_time()
        release.points()
        found.append((released - start, process_time() - released))
    return min(one for one, _ in found), min(two for _, two in found)


def _state(whole: Table, case: Case, state_from: int) -> float:
    """The most bytes of arrays for each record and column that a run holds between updates."""
    synthesizer, most = synthesizer_of(case), 0.0
    for at in range(0, len(whole), BATCH):
        synthesizer.update(whole.frame.iloc[at : at + BATCH])
        if synthesizer.t >= state_from:
            most = max(most, held(synthesizer) / (synthesizer.t * len(whole.sizes)))
    return round(most, 3)


def held(root: object) -> int:
    """Bytes of all arrays that can be reached from an object, whole arrays where only a view is kept."""
    seen, bytes_held, queue = set[int](), 0, [root]
    while queue:
        one = queue.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            if one.base is None:
                bytes_held += one.nbytes
            else:
                queue.append(one.base)
        elif isinstance(one, bytes):
            bytes_held += len(one)
        queue += gc.get_referents(one)
    return bytes_held


def _least(work: Callable[[], object]) -> float:
    found = []
    for _ in range(REPEATS):
        start = process_time()
        work()
        found.append(process_time() - start)
    return min(found)
