"""Marginals: noisy contingency tables of one and two columns, per bucket of time.

When a slow bucket closes, one-way marginals are measured first. By what they say and what was published before, pairs
of columns are chosen, partly by a private choice, and measured; then pairs that the published model predicts badly.
Fast buckets measure one-way marginals of the columns that move. All of this happens at bucket ends, whoever asks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.budget import Budget, Ledger, Spend
from headwater.public.files import need, whole_number
from headwater.public.laws import Cost, DiscreteGaussian, IntegerLaplace, JointLaplace, fits
from headwater.public.marginals.codes import FINEST, NULL, Codes, Coding, Measured, NoisyTable, codings, encode
from headwater.public.marginals.plan import Plan, Stage, plan, stage_at
from headwater.public.marginals.predict import Outlook
from headwater.public.marginals.questions import joined
from headwater.public.marginals.tree import Pair
from headwater.public.partition import Integers, Points
from headwater.public.protocol import AnySchema, Arrays, Header, Options, Rows, State
from headwater.secret.bucket import FAST, SLOW, Bucket, SlowBucket
from headwater.secret.held import CountedBucket, CountedBuckets, parts_by_bucket
from headwater.secret.noise import Noise

NONE = -(1 << 62)
"""Stands for a number of records that was not asked for."""


def pack(t: int, tables: Sequence[NoisyTable], outlook: Outlook, codes: Codes) -> State:
    """The time, everything published, what it says of the stage to come, and the codes of the open slow bucket."""
    edges = [e for table in tables for e in table.edges]
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(table.counts.ravel() for table in tables)])
    small = np.abs(counts).max(initial=0) < 1 << 31
    arrays: Arrays = {
        "codes": np.ascontiguousarray(codes).astype("<u2").view(np.uint8).reshape(-1),
        "edges": np.concatenate([np.empty(0, dtype=np.int32), *edges]).astype(np.int32),
        "counts": counts.astype(np.int32) if small else counts,
        "scales": np.array([table.scale for table in tables], dtype=np.float64),
        "variances": np.array([table.variance for table in tables], dtype=np.float64),
        "joint": np.array([table.joint for table in tables], dtype=np.int32),
        "present": np.array([NONE if table.present is None else table.present for table in tables], dtype=np.int64),
        "moving": np.array(outlook.moving, dtype=np.float64),
    }
    layout = [[list(table.columns), table.start, table.end, list(table.counts.shape)] for table in tables]
    pairs = {"tree": [list(pair) for pair in outlook.tree], "kept": [list(pair) for pair in outlook.kept]}
    return {"t": t, "tables": layout} | pairs, arrays


def unpack(
    header: Header, arrays: Arrays, codings: Sequence[Coding], stage_at: Callable[[int], Stage], counted: int
) -> tuple[list[NoisyTable], Outlook, Codes]:
    """What `pack` packed, if that is what it is: buckets of the plan, bins of the columns, and no budget overdrawn."""
    t, layout = whole_number(header["t"], "t"), header["tables"]
    need(isinstance(layout, list) and len(layout) < 1 << 24, "tables")
    edges, counts, scales = (_flat(arrays[name]) for name in ("edges", "counts", "scales"))
    need(edges.dtype.kind == "i" and counts.dtype.kind == "i", "edges and counts")
    variances, joints, presents = (_flat(arrays[name]) for name in ("variances", "joint", "present"))
    need(scales.dtype == variances.dtype == np.float64 and len(scales) == len(variances) == len(layout), "scales")
    need(presents.dtype == np.int64 and len(presents) == len(layout), "present")
    need(joints.dtype.kind == "i" and len(joints) == len(layout) and bool((joints >= 0).all()), "joint")
    tables, spent, latest = list[NoisyTable](), defaultdict[tuple[int, int], Cost](Fraction), 0
    shared = dict[tuple[int, int, int], tuple[float, list[int]]]()  # the scale of each joint draw, and its tables
    numbers = (array.tolist() for array in (scales, variances, joints, presents))
    for entry, scale, noise, joint, number in zip(layout, *numbers, strict=True):
        need(isinstance(entry, list) and len(entry) == 4, "tables")
        columns, start, end, shape = entry
        stage = _stage(start, end, latest, t, stage_at)
        latest = end
        need(_rising(columns, len(codings)) and 1 <= len(columns) <= 3, "tables")
        need(isinstance(shape, list) and len(shape) == len(columns), "tables")
        shape = [whole_number(size, "tables") for size in shape]
        cells = math.prod(shape)
        need(sum(shape) <= len(edges) and cells <= len(counts) and min(shape) > 0, "counts")
        bins = []
        for column, size in zip(columns, shape, strict=True):
            bins.append(_edges(edges[:size].astype(np.int64), codings[column]))
            edges = edges[size:]
        need(math.isfinite(scale) and 0 < scale <= 2.0**50, "scales")
        fast = end < stage.end or start > stage.start
        gaussian = stage.accounting.gaussian
        need(not gaussian or scale <= 2.0**40, "scales")
        need(math.isfinite(noise) and noise > 0, "variances")
        present = None if number == NONE else number
        need(present is None or shape == [2], "present")
        single = shape == [2] and present is None
        spend = Spend("table", (DiscreteGaussian if gaussian else IntegerLaplace)(scale), 1 if single else 2)
        if joint:
            spend = Spend("tables", JointLaplace(scale), int((start, end, joint) not in shared))  # paid for once
            of_draw, sizes = shared.setdefault((start, end, joint), (scale, []))
            sizes += [1] * (1 if single else 2) if shape == [2] else [cells]
            need(not (gaussian or fast) and of_draw == scale and cells > 1 and fits(scale, sizes), "joint")
        spent[start, end] += spend.rho if gaussian else spend.cost
        need(spent[start, end] <= (stage.fast_budget if fast else stage.slow_budget), "scales")
        noisy = counts[:cells].astype(np.int64).reshape(shape)
        counts = counts[cells:]
        tables.append(
            NoisyTable(tuple(columns), start, end, tuple(bins), noisy, scale, noise, gaussian, joint, present)
        )
    need(not len(edges) and not len(counts), "counts")
    moving = _flat(arrays["moving"])
    need(moving.dtype == np.float64 and len(moving) == len(codings), "moving")
    weighed = (moving >= 2.0**-20) & (moving <= 1)  # a smaller part of a budget would be none
    need(bool(weighed.any() and (weighed | (moving == 0)).all()), "moving")
    codes = _codes(arrays["codes"], t - stage_at(t).start - counted, codings)
    tree, kept = (_pairs(header[name], len(codings), name) for name in ("tree", "kept"))
    return tables, Outlook(tree, kept, tuple(moving.tolist())), codes


def _stage(start: Any, end: Any, latest: int, t: int, stage_at: Callable[[int], Stage]) -> Stage:  # noqa: ANN401 - of a file
    need(whole_number(start, "tables") < whole_number(end, "tables") and latest <= end <= t, "tables")
    stage = stage_at(start)
    fast = stage.fast and (start - stage.start) % stage.fast == 0 and end == stage.fast_end(start)
    need(bool(fast) or (start, end) == (stage.start, stage.end), "tables")
    return stage


def _edges(edges: Integers, coding: Coding) -> Integers:
    need(edges[0] == 0 and bool((np.diff(edges) > 0).all()) and int(edges[-1]) < coding.size, "edges")
    need(coding.ordered or len(edges) == coding.size, "edges")
    need(not coding.missing or int(edges[-1]) == coding.values, "edges")
    return edges


def _codes(packed: NDArray[Any], records: int, codings: Sequence[Coding]) -> Codes:
    need(_flat(packed).dtype == np.uint8 and len(packed) == 2 * records * len(codings), "codes")
    codes: Codes = packed.view("<u2").astype(np.uint16).reshape(len(codings), records)
    check_codes(codes[:, (codes != NULL).any(axis=0)], codings)
    return codes


def check_codes(codes: Codes, codings: Sequence[Coding]) -> None:
    for row, coding in zip(codes, codings, strict=True):
        need(not row.size or int(row.max()) < coding.size, "codes")


def _pairs(pairs: Any, count: int, name: str) -> tuple[Pair, ...]:  # noqa: ANN401 - of a file
    need(isinstance(pairs, list) and len(pairs) < count, name)
    groups = list(range(count))
    for pair in pairs:
        need(_rising(pair, count) and len(pair) == 2 and groups[pair[0]] != groups[pair[1]], name)
        groups = joined(groups, pair)
    return tuple((a, b) for a, b in pairs)


def _rising(columns: Any, count: int) -> bool:  # noqa: ANN401 - of a file
    known = isinstance(columns, list) and all(whole_number(column, "tables") < count for column in columns)
    return bool(known and columns == sorted(set(columns)))


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    need(array.ndim == 1, "arrays")
    return array


class MarginalsMechanism:
    """The mechanism for wide tables: same promise as cascade's, made for many columns."""

    name: ClassVar[str] = "marginals"
    online: ClassVar[bool] = True
    windows: ClassVar[bool] = True
    thresholds: ClassVar[bool] = False
    partitions: ClassVar[bool] = True
    divides: ClassVar[bool] = True
    """Whether a spend of the ledger is divided among tables: then each of them has more noise than is listed."""
    deltas: ClassVar[bool] = True
    noise_name: ClassVar[str] = f"{IntegerLaplace.name}, of small tables jointly"
    """The laws of noise without a δ, on cards."""
    version: ClassVar[int] = 8
    options: ClassVar[Options] = {"expect": int}

    def __init__(self, schema: AnySchema, budget: Budget | float, noise: Noise, expect: int | None = None) -> None:
        self.schema, self.budget, self.noise, self.t = schema, Budget.of(budget), noise, 0
        self.expect = expect
        self.epsilon = self.budget.epsilon
        self.codings = codings(schema)
        self.width = len(self.codings)
        self.tables: tuple[NoisyTable, ...] = ()  # all that was ever measured, by end of bucket
        self.stage = self.stage_at(0)
        self.outlook = Outlook((), (), (1.0,) * self.width)
        self._codes = self._room(0)  # of the records in the open slow bucket, in order of arrival
        self._counted = CountedBuckets()  # those of them that were counted elsewhere

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def stage_at(self, t: int) -> Stage:
        return stage_at(t, self.budget, self.width, self.expect)

    def encode(self, points: Points) -> Codes:
        return encode(points, self.schema)

    def place_bits(self, axis: int) -> int:
        return (FINEST - 1).bit_length() + self.codings[axis].missing

    def check(self, rows: NDArray[Any]) -> Codes:
        """Codes that were found elsewhere, or an error that says what is wrong with them."""
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows must have shape (n, {self.width}), as encode() gives them, not {rows.shape}")
        if rows.dtype.kind not in "iu" and rows.size:
            raise TypeError(f"rows must be whole numbers, not {rows.dtype}")
        good = rows
        for number, coding in enumerate(self.codings):
            if _beyond(good[:, number], coding.size):
                good = good[(good != NULL).any(axis=1)]  # looked for only now: there is hardly ever a null record
            if _beyond(good[:, number], coding.size):
                raise ValueError(f"rows[:, {number}] must lie between 0 and {coding.size - 1}, as encode() gives them")
        return rows.astype(np.uint16, copy=False)

    def update(self, rows: Rows) -> None:
        """Take records in order of arrival."""
        while len(rows):
            held, end = self.t - self.stage.start - self._counted.records, self.stage.fast_end(self.t)
            take = min(end - self.t, len(rows))
            if held + take > self._codes.shape[1]:
                grown = self._room(min(max(2 * held, held + take, 1 << 12), self.stage.size))
                grown[:, :held] = self._codes[:, :held]
                self._codes = grown
            self._codes[:, held : held + take] = rows[:take].T
            self.t += take
            rows = rows[take:]
            if self.t == end:
                self._close()

    def bucket(self, number: int, until: int | None = None) -> tuple[int, int]:
        stage = self.stage
        if not stage.start <= number < stage.end:
            stage = self.stage_at(number)
        start = number - (number - stage.start) % (stage.fast or stage.size)
        return start, stage.fast_end(number)

    def coarser(self, rows: Rows, number: int) -> Rows:
        return rows

    def update_counts(self, rows: Rows, counts: Integers, until: int | None = None) -> None:
        for start, records, part, numbers in parts_by_bucket(rows, counts, self.t, self.bucket):
            found = CountedBucket.of(start, records, part, numbers)
            self._counted = self._counted.plus(found)
            self.t += records
            if self.t == self.bucket(start)[1]:
                self._close()
                self._counted = self._counted.merged(self.stage.start)  # the fast bucket was measured

    def _room(self, records: int) -> Codes:
        return np.empty((self.width, records), dtype=np.uint16)

    def _bucket(self, timescale: int, start: int) -> Bucket:
        counted, opened = self._counted, self.stage.start
        codes = self._codes[:, start - opened - counted.before(start) : self.t - opened - counted.records]
        within, accounting = counted.within(start, self.t), self.stage.accounting
        return Bucket(codes, self.codings, self.noise, timescale, start, self.t, accounting, within)

    def _close(self) -> None:
        """Measure the buckets that end now."""
        stage, known = self.stage, list(self.tables)
        if stage.fast:
            fast = self._bucket(FAST, self.t - 1 - (self.t - 1 - stage.start) % stage.fast)
            known += fast.one_way(stage.fast_budget, self.outlook.moving, known)
        if self.t == stage.end:
            following = self.stage_at(self.t)
            slow = SlowBucket(self._bucket(SLOW, stage.start), stage, known, self.outlook, self.epsilon)
            slow.measure()
            known, self.outlook, self.stage = slow.known, slow.ahead(following), following
            self._codes, self._counted = self._room(0), CountedBuckets()
        self.tables = tuple(known)

    def window(self, since: int) -> int:
        return max((table.start for table in self.tables if table.start <= since), default=0) if since else 0

    def measured(self, start: int, seed: int) -> Measured:
        return Measured(self.t, start, self.epsilon, self.codings, self.tables, self.schema)

    def status(self) -> str:
        fast = f", in buckets of {self.stage.fast:,}" if self.stage.fast else ""
        return f"records {self.stage.start:,} to {self.stage.end:,}{fast}"

    def ledger(self, t: int | None = None) -> Ledger:
        stage = self.stage if t is None else self.stage_at(t)
        return stage.ledger()

    def bucket_end(self, t: int) -> int:
        return self.stage_at(t).end

    def plan(self, until: int) -> Plan:
        return plan(self.width, self.budget, until, self.expect)

    def state(self) -> State:
        codes = self._codes[:, : self.t - self.stage.start - self._counted.records]
        header, arrays = pack(self.t, self.tables, self.outlook, codes)
        return header | {"version": self.version}, arrays | self._counted.state()

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from a `state`, if it is one."""
        need(header.get("version") == self.version, "version")
        t = whole_number(header["t"], "t")
        self.stage = self.stage_at(t)
        counted = CountedBuckets.restore(arrays, self.stage.start, t, self.width, np.uint16, self.bucket)
        for one in counted.buckets:
            check_codes(one.rows.T, self.codings)
        tables, outlook, codes = unpack(header, arrays, self.codings, self.stage_at, counted.records)
        self.t, self.tables, self.outlook, self._codes = t, tuple(tables), outlook, codes
        self._counted = counted


def _beyond(codes: NDArray[Any], size: int) -> bool:
    signed = codes.dtype.kind == "i"
    return bool(len(codes)) and bool(int(codes.max()) >= size or (signed and codes.min() < 0))


MECHANISM = MarginalsMechanism
