"""Answers of a release with their errors: counts, shares, means, quantiles and correlations.

An answer is that of the release. Its bar is made of what the same question would have found in truths near the release,
measured again (`headwater.public.replicates`): by how far their fits missed them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, Self, cast

import numpy as np

from headwater.public.columns import Column
from headwater.public.cube import UnitCube
from headwater.public.moments import Datetime, TimeOfDay
from headwater.public.numbers import Coordinate, Integer, Number
from headwater.public.partition import Flags, Floats, Integers, Points
from headwater.public.protocol import AnySchema, Model
from headwater.public.replicates import COUNT, Replicates, replicate
from headwater.public.schema import Schema
from headwater.public.tables import pyarrow
from headwater.public.where import parts

MEASURED, MODELLED, FINER, UNKNOWN = "measured", "modelled", "finer than measured", "not known"
MOST_GROUPS = 1 << 12
"""Of a question with ``by=``."""
MOST_ROWS = 1 << 18
"""Of a release that an answer is computed from; of larger ones so many records are drawn."""
ATTENUATED = 1.35
"""Times the bars of correlations: what the model leaves out weakens all of them alike (docs/benchmarks/answers.md)."""
FEW = 2.3
"""Records of a truth that may be there where none was drawn: nine in ten times there are fewer."""
ENDS = 0.5
"""How much of what a bin holds may be on the other side of the end of a range, in deviations."""
KNOWN = 1.65
"""Deviations of the noise of a count that a group must have to be known to exist."""
BETWEEN = 0.05
"""The part of an answer that may hang on where in a bin records lie, before it is called finer than measured."""

Where = Mapping[str, Any] | None
By = str | Sequence[str] | None


class Answer(float):
    """A number that a release says, with its error bar. It computes, compares and formats as the number that it is.

    Attributes
    ----------
    low, high
        The ends of the bar.
    level
        How often bars hold what the data would have said: .9 unless asked otherwise. Measured on many tables
        (docs/benchmarks/answers.md); not a guarantee.
    how
        ``"measured"``: noisy counts of this resolution exist; ``"modelled"``: from other counts; ``"finer than
        measured"``: it hangs on where in their bins records lie, which a prior says; ``"not known"``: the bar is as
        wide as the range.
    kind
        What it is: ``"count"``, ``"share"``, ``"number"``, ``"moment"``, ``"time"`` or ``"correlation"``.

    Examples
    --------
    >>> answer = Answer(0.3121, 0.3034, 0.3208, 0.9, "measured", "share")
    >>> print(answer, round(answer * 2, 2), answer.high)
    31.2 % ± 0.9 (90 %) 0.62 0.3208
    """

    low: float
    high: float
    level: float
    how: str
    kind: str

    def __new__(
        cls, value: float, low: float, high: float, level: float = 0.9, how: str = MEASURED, kind: str = "number"
    ) -> Self:
        made = super().__new__(cls, value)
        made.low, made.high, made.level, made.how, made.kind = float(low), float(high), level, how, kind
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.low, self.high, self.level, self.how, self.kind

    @property
    def plus_minus(self) -> float:
        """Half the width of the bar, before it was cut off where the range ends."""
        return max(self.high - self, self - self.low)

    def __str__(self) -> str:
        half, level = self.plus_minus, f"({self.level * 100:.3g} %)"
        if self.how == UNKNOWN:
            return "not known"
        if self.kind in ("moment", "time"):
            return f"{_moment(self, self.kind)} ± {_span(half)} {level}"
        scale, unit = (100, " %") if self.kind == "share" else (1, "")
        digits = _digits(half * scale)
        if self.kind == "count" and self.low <= 0:
            about = f"{max(float(self), 0):,.0f}"
            return f"about {about} record{'' if about == '1' else 's'}, at most {self.high:,.0f} {level}"
        return f"{float(self) * scale:,.{digits}f}{unit} ± {half * scale:,.{digits}f} {level}"

    def __repr__(self) -> str:
        return f"<{self}, {self.how}>" if self.how != UNKNOWN else "<not known>"


def _digits(half: float) -> int:
    """After the point: one digit of the bar, two if it begins with a 1."""
    if not 0 < half < math.inf:
        return 0 if half == 0 else 1
    return min(max(-math.floor(math.log10(half)) + (f"{half:e}"[0] == "1" and half < 10), 0), 12)


def _moment(value: float, kind: str) -> str:
    found = datetime.fromtimestamp(0, UTC) + timedelta(seconds=round(value))
    return f"{found:%Y-%m-%d %H:%M}" if kind == "moment" else f"{found:%H:%M}"


def _span(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.{_digits(seconds / unit)}f} {name}"
    return f"{seconds:.3g} seconds"


@dataclass(frozen=True)
class AnswerTable:
    """Answers by group: rows in the order of the declared values.

    Attributes
    ----------
    by
        The names of the columns that make the groups.
    groups
        Of each row, the value of each of them.
    answers
        Of each row, its answer.
    """

    by: tuple[str, ...]
    groups: tuple[tuple[Any, ...], ...]
    answers: tuple[Answer, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[tuple[Any, Answer]]:
        """Pairs of a group (a value, a tuple of several) and its answer."""
        return ((group[0] if len(group) == 1 else group, answer) for group, answer in self._rows())

    def __getitem__(self, group: Any) -> Answer:  # noqa: ANN401 - a value of a column, a tuple of several
        wanted = group if isinstance(group, tuple) else (group,)
        for found, answer in self._rows():
            if found == wanted:
                return answer
        raise KeyError(group)

    def _rows(self) -> Iterator[tuple[tuple[Any, ...], Answer]]:
        return zip(self.groups, self.answers, strict=True)

    def columns(self) -> dict[str, list[Any]]:
        """The table as a dictionary of columns: the groups, then ``answer``, ``low``, ``high`` and ``how``."""
        found: dict[str, list[Any]] = {name: [group[i] for group in self.groups] for i, name in enumerate(self.by)}
        found["answer"] = [float(answer) for answer in self.answers]
        for name in ("low", "high", "how"):
            found[name] = [getattr(answer, name) for answer in self.answers]
        return found

    def to_arrow(self) -> Any:  # noqa: ANN401 - pyarrow ships no types
        """The table as an Arrow table."""
        return pyarrow().table(self.columns())

    def to_pandas(self) -> Any:  # noqa: ANN401 - the core does not import it
        """The table as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        rows = [(*self.by, "answer", ""), *((*map(str, g), str(a), a.how) for g, a in self._rows())]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(f"{text:<{width}}" for text, width in zip(row, wide, strict=True)).rstrip() for row in rows
        )

    __repr__ = __str__


def factor_for(level: float) -> float:
    """Times the root mean square of the replicates' errors: the quantile of Student's law with as many of them."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
    z = NormalDist().inv_cdf((1 + level) / 2)
    return z + (z**3 + z) / (4 * COUNT) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * COUNT**2)


class Asked(NamedTuple):
    """A question, understood: which records, in which groups, and what of them."""

    among: dict[int, Any]
    fits: dict[int, Any]
    by: tuple[int, ...]
    statistic: Callable[[Block, Flags, Flags, Integers, int], Floats]
    """Of a block, the records that it is about, those that fulfil conditions, groups, and how many there are."""
    axes: tuple[int, ...]


class Block:
    """Coordinates of several tables of as many records: ``(tables, columns, rows)``."""

    def __init__(self, places: Points, columns: Sequence[Column]) -> None:
        self.places, self.columns, self._values = places, columns, dict[int, tuple[Floats, Flags]]()
        self._order, self._groups, self._sorted = dict[int, Integers](), dict[int, Integers](), dict[int, Floats]()

    def fits(self, conditions: Mapping[int, Any]) -> Flags:
        found = np.ones((len(self.places), self.places.shape[2]), dtype=np.bool_)
        for axis, part in conditions.items():
            places = self.places[:, axis]
            found &= (
                np.isin(places, part) if isinstance(part, np.ndarray) else (places >= part[0]) & (places <= part[1])
            )
        return found

    def values(self, axis: int) -> tuple[Floats, Flags]:
        """The numbers of a column, and which of them are there."""
        if axis not in self._values:
            places = self.places[:, axis]
            numbers, gone = self.columns[axis].axis.value(places.ravel())
            raw = self.columns[axis].raw(numbers)
            found = raw.view(np.int64) / 1e6 if raw.dtype.kind in "mM" else raw.astype(np.float64)
            there = np.ones(places.shape, np.bool_) if gone is None else ~gone.reshape(places.shape)
            self._values[axis] = found.reshape(places.shape), there
        return self._values[axis]

    def sorted(self, axis: int) -> Floats:
        if axis not in self._sorted:
            self._sorted[axis] = np.sort(self.places[0, axis])
        return self._sorted[axis]

    def order(self, axis: int) -> Integers:
        if axis not in self._order:
            self._order[axis] = np.argsort(self.values(axis)[0], axis=1, kind="stable")
        return self._order[axis]

    def groups(self, axes: Sequence[int]) -> Integers:
        found = np.zeros((len(self.places), self.places.shape[2]), dtype=np.int64)
        for axis in axes:
            if axis not in self._groups:
                size = values_of(self.columns[axis])
                numbers, gone = self.columns[axis].axis.value(self.places[:, axis])
                found_ = numbers.astype(np.int64)
                self._groups[axis] = found_ if gone is None else np.where(gone, size, found_)
            found = found * (values_of(self.columns[axis]) + self.columns[axis].missing) + self._groups[axis]
        return found


def sums(groups: Integers, many: int, weights: Floats | Flags) -> Floats:
    cells = groups + many * np.arange(len(groups))[:, None]
    found = np.bincount(cells.ravel(), weights.ravel(), minlength=len(groups) * many)
    return found.reshape(len(groups), many).astype(np.float64, copy=False)


def values_of(column: Column) -> int:
    """How many values a column has that groups are made of."""
    if column.size is None:
        raise TypeError("a continuum makes no groups")
    return int(column.size)


class Answers:
    def __init__(
        self,
        model: Model,
        points: Callable[[], Points],
        measured: Any,  # noqa: ANN401 - of the mechanism's own type
        schema: AnySchema,
        seed: int,
    ) -> None:
        self._model, self._points, self._measured, self._schema, self._seed = model, points, measured, schema, seed
        cube = isinstance(schema, UnitCube)
        self.named = (
            Schema({f"x{i}": Coordinate(0, 1) for i in range(schema.dimension)}) if cube else cast("Schema", schema)
        )
        self._columns = tuple(self.named.columns.values())

    @cached_property
    def release(self) -> Block:
        records = self._model.records
        points = self._points() if records <= MOST_ROWS else self._model.sample(MOST_ROWS, self._seed)
        return Block(np.ascontiguousarray(points.T)[None], self._columns)

    @cached_property
    def replicates(self) -> tuple[Block, Block] | None:
        found: Replicates | None = replicate(self._model, self._measured, self._schema)
        return None if found is None else (Block(found.truths, self._columns), Block(found.fits, self._columns))

    @cached_property
    def _bins(self) -> Callable[[Sequence[int]], dict[int, Floats] | None] | None:
        return None if self.replicates is None else getattr(self._measured, "bins", None)

    # ---- questions

    def count(self, where: Where, by: By, level: float) -> Any:  # noqa: ANN401 - an Answer, or a table of them
        asked = self.asked({}, parts(self.named, where or {}), by, _parts)
        return self._answer(asked, level, "count", (0.0, float(self._model.records)), self._model.records)

    def share(self, where: Where, of: Where, by: By, level: float) -> Any:  # noqa: ANN401 - an Answer, or a table of them
        among, fits = parts(self.named, of or {}), parts(self.named, where or {})
        asked = self.asked(among, fits, by, _rates if fits else _parts)
        return self._answer(asked, level, "share", (0.0, 1.0))

    def mean(self, column: str, where: Where, by: By, level: float) -> Any:  # noqa: ANN401 - an Answer, or a table of them
        axis, kind, limits = self._numeric(column)

        def statistic(block: Block, _: Flags, fits: Flags, groups: Integers, many: int) -> Floats:
            values, there = block.values(axis)
            fits = fits & there
            with np.errstate(invalid="ignore", divide="ignore"):
                found: Floats = sums(groups, many, np.where(fits, values, 0.0)) / sums(groups, many, fits)
            return found

        return self._answer(self.asked(parts(self.named, where or {}), {}, by, statistic, axis), level, kind, limits)

    def quantile(self, column: str, p: float, where: Where, by: By, level: float) -> Any:  # noqa: ANN401 - an Answer, or a table of them
        axis, kind, limits = self._numeric(column)
        if not 0 <= p <= 1:
            raise ValueError(f"p must lie between 0 and 1, not {p!r}")

        def statistic(block: Block, _: Flags, fits: Flags, groups: Integers, many: int) -> Floats:
            values, there = block.values(axis)
            order, found = block.order(axis), np.full((len(groups), many), np.nan)
            for row, (at, keep) in enumerate(zip(order, fits & there, strict=True)):
                at = at[keep[at]]
                at = at[np.argsort(groups[row, at], kind="stable")] if many > 1 else at
                held = np.bincount(groups[row, at], minlength=many)
                some = held > 0
                first = np.cumsum(held) - held
                place = first + np.clip(np.ceil(p * held).astype(np.int64) - 1, 0, None)
                found[row, some] = values[row, at[place[some]]]
            return found

        return self._answer(self.asked(parts(self.named, where or {}), {}, by, statistic, axis), level, kind, limits)

    def correlation(self, one: str, other: str, where: Where, by: By, level: float) -> Any:  # noqa: ANN401 - an Answer, or a table of them
        first, second = self._numeric(one)[0], self._numeric(other)[0]

        def statistic(block: Block, _: Flags, fits: Flags, groups: Integers, many: int) -> Floats:
            (x, there), (y, too) = block.values(first), block.values(second)
            fits = fits & there & too
            x, y = (np.where(fits, values - values[fits].mean() if fits.any() else values, 0.0) for values in (x, y))
            with np.errstate(invalid="ignore", divide="ignore"):
                n = sums(groups, many, fits)
                mx, my, xx, yy, xy = (sums(groups, many, w) / n for w in (x, y, x * x, y * y, x * y))
                found: Floats = (xy - mx * my) / np.sqrt((xx - mx**2) * (yy - my**2))
            return found

        asked = self.asked(parts(self.named, where or {}), {}, by, statistic, first, second)
        return self._answer(asked, level, "correlation", (-1.0, 1.0))

    def records(self, where: Mapping[str, Any], *, invent: bool) -> int:
        """How many records of the release fulfil conditions; refused if none is known to exist."""
        conditions = parts(self.named, where)
        fits = self.release.fits(conditions)
        found = round(float(fits.mean()) * self._model.records) if fits.size else 0
        unsure = getattr(self._measured, "unsure", lambda axes: 0.0)(tuple(conditions)) * KNOWN
        if found <= unsure and not invent:
            raise ValueError(
                f"the release says about {found:,} records, at most {found + unsure:,.0f}, so none of them is known to "
                "exist; ask for less, or give invent=True"
            )
        return found

    # ---- what they have in common

    def asked(
        self, among: dict[int, Any], fits: dict[int, Any], by: By, statistic: Callable[..., Floats], *axes: int
    ) -> Asked:
        names = (by,) if isinstance(by, str) else tuple(by or ())
        of_groups = tuple(self._axis(name) for name in names)
        many = 1
        for name, axis in zip(names, of_groups, strict=True):
            many *= (self._columns[axis].size or MOST_GROUPS + 1) + self._columns[axis].missing
            if many > MOST_GROUPS:
                raise ValueError(f"by={name!r} makes more than {MOST_GROUPS} groups; give ranges in where= instead")
        return Asked(among, fits, of_groups, statistic, (*axes, *among, *fits, *of_groups))

    def _axis(self, name: str) -> int:
        if name not in self.named.names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(self.named.names)}")
        return self.named.names.index(name)

    def _numeric(self, name: str) -> tuple[int, str, tuple[float, float]]:
        """A column's axis, what its values are, and their limits."""
        axis = self._axis(name)
        column = self._columns[axis]
        if isinstance(column, Datetime):
            return axis, "moment", (column.limits[0] / 1e6, column.limits[1] / 1e6)
        if isinstance(column, TimeOfDay):
            return axis, "time", (0.0, 86400.0)
        if isinstance(column, Number | Integer):
            return axis, "number", (float(column.limits[0]), float(column.limits[1]))
        raise ValueError(f"the column {name!r} holds no numbers: ask for shares of its values")

    def _answer(self, asked: Asked, level: float, kind: str, limits: tuple[float, float], times: float = 1.0) -> Any:  # noqa: ANN401 - an Answer, or a table of them
        factor, values = factor_for(level), self._of(self.release, asked)[0] * times
        held = self._among(self.release, asked)[0]
        if self.replicates is None:
            half = np.full(len(values), np.inf)
        else:
            truths, fits = (self._of(block, asked) * times for block in self.replicates)
            with np.errstate(invalid="ignore"):
                wrong = (fits - truths) ** 2
            known = np.isfinite(wrong).sum(0)
            half = factor * np.sqrt(np.nansum(wrong, 0) / np.maximum(known, 1))
            half[known < 2 * COUNT / 3] = np.inf
            half *= ATTENUATED if kind == "correlation" else 1.0
            rows = self.replicates[0].places.shape[2]
            if kind == "count":
                half = np.maximum(half, np.where(values < FEW * times / rows, FEW * times / rows, 0))
            else:  # of which group nobody knows that there is anybody in it, nothing is known
                present, again = (self._among(block, asked) for block in self.replicates)
                unsure = factor * np.sqrt(((again - present) ** 2).mean(0))
                half[held - unsure <= 0] = np.inf
        half[~np.isfinite(values)] = np.inf
        half = self._with_ends(asked, kind, values, half, times)
        how = self._how(asked, kind, values / times, half / times, limits)
        found = []
        for value, wide, known_as in zip(values.tolist(), half.tolist(), how, strict=True):
            if wide == math.inf or wide >= limits[1] - limits[0] > 0:
                middle = value if math.isfinite(value) else sum(limits) / 2
                found.append(Answer(middle, *limits, level, UNKNOWN, kind))
                continue
            low, high = max(value - wide, limits[0]), min(value + wide, limits[1])
            found.append(Answer(value, min(low, value), max(high, value), level, known_as, kind))
        if not asked.by:
            return found[0]
        return AnswerTable(
            tuple(self.named.names[axis] for axis in asked.by), self._group_values(asked.by), tuple(found)
        )

    def _of(self, block: Block, asked: Asked) -> Floats:
        """The statistic in every table of a block, by group."""
        among = block.fits(asked.among)
        return asked.statistic(
            block, among, among & block.fits(asked.fits), block.groups(asked.by), self._many(asked.by)
        )

    def _among(self, block: Block, asked: Asked) -> Floats:
        """The share of records that a question is about, by group."""
        groups = block.groups(asked.by)
        found: Floats = sums(groups, self._many(asked.by), block.fits(asked.among)) / groups.shape[1]
        return found

    def _many(self, by: Sequence[int]) -> int:
        return math.prod(values_of(self._columns[axis]) + self._columns[axis].missing for axis in by)

    def _group_values(self, by: Sequence[int]) -> tuple[tuple[Any, ...], ...]:
        several: list[list[Any]] = []
        for axis in by:
            column = self._columns[axis]
            values = column.label(column.raw(np.arange(values_of(column)))).tolist()
            several.append([*values, None] if column.missing else values)
        groups: list[tuple[Any, ...]] = [()]
        for values in several:
            groups = [(*group, value) for group in groups for value in values]
        return tuple(groups)

    def _how(self, asked: Asked, kind: str, values: Floats, half: Floats, limits: tuple[float, float]) -> list[str]:
        """How answers are known: whether counts of this resolution exist."""
        if self._bins is None:
            return [UNKNOWN] * len(values)
        axes = tuple(dict.fromkeys(asked.axes))
        together = self._bins(axes)
        bins = together or {axis: one[axis] for axis in axes if (one := self._bins((axis,)))}
        cut, resolved = self._cut(asked, bins), MODELLED if together is None else MEASURED

        def finer(value: float, wide: float) -> bool:
            if kind in ("count", "share"):
                return cut > BETWEEN * max(value, 1e-12) and cut > wide / 4
            return kind != "correlation" and (cut > BETWEEN or self._inside(axes[0], bins, value, wide))

        return [FINER if finer(*one) else resolved for one in zip(values.tolist(), half.tolist(), strict=True)]

    def _cut(self, asked: Asked, bins: Mapping[int, Floats]) -> float:
        """The share of records in bins that a condition cuts, as far as they may be on the wrong side."""
        total = 0.0
        for axis, part in (*asked.among.items(), *asked.fits.items()):
            if axis not in bins:
                return 1.0
            column, own = self._columns[axis], self.release.sorted(axis)
            edges, unit = _edges(column, bins[axis])
            for low, high in [(p, p) for p in part.tolist()] if isinstance(part, np.ndarray) else [part]:
                if low >= edges[-1]:  # a missing value
                    continue
                ends = np.array([low, high + unit])
                at = np.array([_bin_of(edges, end) for end in ends])
                first, last = edges[at], edges[at + 1]
                held = (np.searchsorted(own, last) - np.searchsorted(own, first)) / len(own)
                inside = np.clip((ends - first) / (last - first), 0, 1)
                within = at[0] == at[1] and inside[1] - inside[0] < 1  # then nothing else is in it
                total += float(held[0] if within else held @ np.minimum(inside, 1 - inside))
        return total

    def _with_ends(self, asked: Asked, kind: str, values: Floats, half: Floats, times: float) -> Floats:
        """Bars with what a range may gain or lose at its ends if a bin has one value that most of its records have."""
        if self._bins is None or kind not in ("count", "share"):
            return half
        conditions, block, total = asked.among | asked.fits, self.release, 0.0
        for axis, part in conditions.items():
            column, bins = self._columns[axis], self._bins((axis,))
            if isinstance(part, np.ndarray) or bins is None or (column.missing and part[0] >= 0.5):
                continue
            others = block.fits({other: one for other, one in conditions.items() if other != axis})[0]
            places = np.sort(block.places[0, axis, others])
            edges, unit = _edges(column, bins[axis])
            for end in (part[0], part[1] + unit):
                at = _bin_of(edges, end)
                inside = min(max((end - edges[at]) / (edges[at + 1] - edges[at]), 0), 1)
                held = np.diff(np.searchsorted(places, edges[at : at + 2]))[0] / block.places.shape[2]
                total += float(held**2 * inside * (1 - inside))
        among = float(block.fits(asked.among).mean())
        share = values / values.sum() if asked.by and values.sum() > 0 else 1.0
        found: Floats = np.hypot(half, times * ENDS * math.sqrt(total) / max(among, 1e-12) * share)
        return found

    def _inside(self, axis: int, bins: Mapping[int, Floats], value: float, wide: float) -> bool:
        """Whether a number with its bar is finer than the bin that it lies in."""
        if axis not in bins or not math.isfinite(value):
            return True
        column, places = self._columns[axis], self.release.sorted(axis)
        edges, _ = _edges(column, bins[axis])
        at = _bin_of(edges, float(np.interp(value, np.sort(self.release.values(axis)[0][0]), places)))
        low, high = Block(np.array([[edges[at : at + 2]]]), (column,)).values(0)[0][0]
        alone = column.size is not None and edges[at + 1] - edges[at] <= column.axis.unit
        return bool(high - low > 4 * wide and not alone)


def _edges(column: Column, starts: Floats) -> tuple[Floats, float]:
    """Where bins begin and the last one ends, and how much of a column one value takes."""
    unit = column.axis.unit
    return np.append(starts, unit * (column.size or 1)), unit if column.size is not None else 0.0


def _bin_of(edges: Floats, place: float) -> int:
    return min(max(int(np.searchsorted(edges, place, side="right")) - 1, 0), len(edges) - 2)


def _rates(_: Block, among: Flags, fits: Flags, groups: Integers, many: int) -> Floats:
    """In each group."""
    with np.errstate(invalid="ignore"):
        found: Floats = sums(groups, many, fits) / sums(groups, many, among)
    return found


def _parts(_: Block, among: Flags, fits: Flags, groups: Integers, many: int) -> Floats:
    """Of each group, among those of all groups."""
    with np.errstate(invalid="ignore"):
        found: Floats = sums(groups, many, fits) / among.sum(1, keepdims=True)
    return found
