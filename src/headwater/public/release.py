"""The immutable result: what may be published."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public import files, measurements
from headwater.public import protocol as registry
from headwater.public.answers import Answers, AnswerTable, By, Where
from headwater.public.budget import Guarantee
from headwater.public.chunks import in_parallel
from headwater.public.cube import UnitCube
from headwater.public.folder import facts_of, read_card, read_measured, read_rows, write_table
from headwater.public.laws import IntegerLaplace
from headwater.public.partition import Points
from headwater.public.protocol import (
    AnySchema,
    Arrays,
    Conditions,
    ErrorBound,
    ExpectedError,
    Facts,
    Header,
    Measured,
    Model,
    State,
)
from headwater.public.replicates import expected_error
from headwater.public.schema import schema_from_dict
from headwater.public.tables import TABLE_KINDS
from headwater.public.where import sample_where

_NO_MODEL = "a release that was read from its folder has rows and no model; copy the folder instead"


def release_seed(public: bytes, t: int, start: int) -> int:
    text = b"".join(number.to_bytes(16, "little") for number in (t, start))
    return int.from_bytes(hashlib.sha256(public + text).digest()[:16], "little")


def run_id(public: bytes) -> str:
    return hashlib.sha256(b"run" + public).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class TableModel:
    """The rows of a table that was published."""

    rows: Points
    expected: ExpectedError

    @classmethod
    def fit(cls, measured: object, schema: AnySchema, seed: int) -> Self:
        raise NotImplementedError(_NO_MODEL)

    @property
    def records(self) -> int:
        return len(self.rows)

    def points(self, seed: int) -> Points:
        return self.rows.copy()

    def sample(self, n: int, seed: int, where: Conditions | None = None) -> Points:
        """Rows of the table, perhaps of those only that fulfil conditions: none twice unless there are too few."""
        fits = np.ones(len(self.rows), dtype=bool)
        for axis, (low, high) in (where or {}).items():
            fits &= (self.rows[:, axis] >= low) & (self.rows[:, axis] <= high)
        found = np.flatnonzero(fits)
        if n and not len(self.rows):
            raise ValueError("this release is about no records: its table has no rows to draw from")
        if n and not len(found):
            raise ValueError("the release holds no record that fulfils these conditions; ask for less")
        chosen = np.random.default_rng([seed, n]).choice(found, n, replace=n > len(found)) if n else found[:0]
        return self.rows.take(chosen, axis=0)

    def expected_error(self) -> ExpectedError:
        return self.expected

    @staticmethod
    def error_bound(facts: Facts, start: int) -> ErrorBound:
        return registry.model(facts.mechanism).error_bound(facts, start)

    def near(self, points: Points) -> dict[str, float]:
        raise NotImplementedError(_NO_MODEL)

    def state(self) -> State:
        raise ValueError(_NO_MODEL)

    @classmethod
    def restore(cls, header: Header, arrays: Arrays, schema: AnySchema, records: int) -> Self:
        raise NotImplementedError(_NO_MODEL)


def expected_of(card: dict[str, Any]) -> ExpectedError:
    known = card["expected_error"]
    if known is None:
        return ExpectedError(float("nan"), float("nan"))
    parts = {name: (part["typical"], part["upper"]) for name, part in (known.get("parts") or {}).items()}
    return ExpectedError(known["typical"], known["upper"], known.get("measure", "W1"), parts)


_BANNER = "headwater release 2: may be published"
_SEED = (1 << 128) - 1  # the largest there is


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A synthetic data set of ``t`` points. Private from here on: share it, keep it, ask it as often as you like.

    Formal guarantees
    -----------------
    A release is computed from noisy counts and public randomness. All releases of one run together, of which there
    may be infinitely many, keep `guarantee`: (ε, δ)-differential privacy for its unit, pure ε if there is no δ.

    Attributes
    ----------
    facts
        ``t``, the guarantee, the schema and the mechanism.
    start
        The release is about the records after the first ``start`` ones: 0 unless a window was asked for.
    model
        The distribution of records that was fitted to the noisy counts.
    seed
        Of the records that are drawn from the model. Public.
    kind
        Of tables that came in last, such as ``"pandas"``: what `sample` gives back.
    published
        What its card says, of a release that was read from its folder.
    measured
        The noisy counts that it is made from: all that its answers and their errors come from.
    """

    facts: Facts
    start: int
    model: Model
    seed: int
    kind: str | None = None
    published: Mapping[str, Any] | None = None
    measured: Measured | None = None

    @property
    def t(self) -> int:
        """How many records had arrived."""
        return self.facts.t

    @property
    def span(self) -> tuple[int, int]:
        """Which records this is about: from the first number, which is excluded, to the second, which is included."""
        return self.start, self.t

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all releases of the run, taken together."""
        return self.facts.guarantee

    @property
    def epsilon(self) -> float:
        """The privacy budget of the whole run, this release included."""
        return self.facts.epsilon

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that measured."""
        return self.facts.mechanism

    @property
    def schema(self) -> AnySchema:
        """What a record is."""
        return self.facts.schema

    @cached_property
    def error_bound(self) -> ErrorBound:
        """What the theorem behind the mechanism says of this release's expected W1."""
        return self.model.error_bound(self.facts, self.start)

    @property
    def card(self) -> Mapping[str, Any]:
        """What anyone may know of it: of a release of a folder, its card; of others, what that would say of it."""
        return facts_of(self) if self.published is None else self.published

    def expected_error(self) -> ExpectedError:
        """How far this release is likely to be from the data, as a whole and column by column, from public numbers."""
        return self._expected

    @cached_property
    def _expected(self) -> ExpectedError:
        if self.published is not None:
            return expected_of(dict(self.published))
        return expected_error(self.model, self.measured, self.schema)

    def points(self) -> Points:
        """The synthetic data set, a new array of shape ``(t, d)``; the same numbers every time.

        Points come cell by cell. A window holds as many points as records arrived in it.
        """
        return self.model.points(self.seed)

    def sample(
        self,
        n: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        invent: bool = False,
        kind: str | None = None,
    ) -> Any:  # noqa: ANN401 - which kind is known only when it runs
        """Synthetic records as a table; the same every time. Ask as often as you like: it costs no further ε.

        Records come in a random order that means nothing.

        Parameters
        ----------
        n
            How many; as many as records arrived unless given.
        where
            What some columns shall be, such as ``{"origin": ["JFK", "LGA"], "delay": (None, 30)}``: a value, None for a
            missing one; a tuple of two for a range, both ends included, None for an open end; or a list of values. What
            the schema does not declare, no record is, so it is refused. Texts are read as those of a file are: a date
            as the column's ``format`` says, else in ISO 8601. Without ``n`` there are as many records as the release
            has of them.
        invent
            Draw records too that are not known to exist: of which the release says about 0. Refused otherwise.
        kind
            ``"pandas"``, ``"polars"``, ``"arrow"``, ``"columns"``, ``"records"`` or ``"numpy"``; the kind that came in
            unless given.
        """
        if isinstance(n, bool) or not (n is None or hasattr(n, "__index__")):
            raise TypeError(f"n must be a whole number, not {type(n).__name__}; a kind of table goes in kind=")
        if kind is not None and not isinstance(kind, str):
            raise TypeError(f"kind must be the name of a kind of table, such as 'pandas', not {type(kind).__name__}")
        if n is None and not where:
            points, order = self._shuffled()
            return self.schema.decode(_rows(points, order), kind or self.kind)
        if n is None and where:
            n = self._answers.records(where, invent=invent)
        elif where and not invent:
            self._answers.records(where, invent=False)
        n = len(self) if n is None else int(n.__index__())
        if n < 0:
            raise ValueError(f"n must not be negative, but is {n}")
        if where:
            points = sample_where(self.model, self.schema, n, self.seed, where)
        else:
            points = self.model.sample(n, self.seed)
        return self.schema.decode(points, kind or self.kind)

    # ---- answers

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.model, self.points, self.measured, self.schema, self.seed)

    def count(self, where: Where = None, *, by: By = None, level: float = 0.9) -> Any:  # noqa: ANN401 - an Answer, with by= an AnswerTable
        """How many records there are, with an error bar; by group as a table of answers.

        Parameters
        ----------
        where
            As for `sample`; all records unless given.
        by
            A column of listed or whole values, or several: one answer for each of their values.
        level
            How often the bar is to hold what the data would have said.
        """
        return self._answers.count(where, by, level)

    def share(self, where: Where = None, *, of: Where = None, by: By = None, level: float = 0.9) -> Any:  # noqa: ANN401 - an Answer, with by= an AnswerTable
        """The share of records that fulfil ``where``; with ``by`` alone, the share of each group.

        Parameters
        ----------
        where
            As for `sample`.
        of
            Among which records, by conditions of the same kind; among all of them unless given.
        by, level
            As for `count`: with ``where``, the share in each group.
        """
        return self._answers.share(where, of, by, level)

    def mean(self, column: str, *, where: Where = None, by: By = None, level: float = 0.9) -> Any:  # noqa: ANN401 - an Answer, with by= an AnswerTable
        """The mean of a column of numbers, missing values left out; moments count in seconds since 1970.

        Parameters
        ----------
        column
            Its name.
        where, by, level
            As for `count`.
        """
        return self._answers.mean(column, where, by, level)

    def quantile(self, column: str, p: float = 0.5, *, where: Where = None, by: By = None, level: float = 0.9) -> Any:  # noqa: ANN401 - an Answer, with by= an AnswerTable
        """The value that a share ``p`` of records reach at most: the median unless given.

        Parameters
        ----------
        column
            As for `mean`.
        p
            From 0 to 1.
        where, by, level
            As for `count`.
        """
        return self._answers.quantile(column, p, where, by, level)

    def crosstab(self, rows: str, columns: str, *, where: Where = None, level: float = 0.9) -> AnswerTable:
        """How many records have each pair of values of two columns.

        Parameters
        ----------
        rows, columns
            Names of columns of listed or whole values.
        where, level
            As for `count`.
        """
        found: AnswerTable = self._answers.count(where, (rows, columns), level)
        return found

    def correlation(self, one: str, other: str, *, where: Where = None, by: By = None, level: float = 0.9) -> Any:  # noqa: ANN401 - an Answer, with by= an AnswerTable
        """Pearson's correlation of two columns of numbers.

        Parameters
        ----------
        one, other
            Their names.
        where, by, level
            As for `count`.
        """
        return self._answers.correlation(one, other, where, by, level)

    def to_pandas(self) -> Any:  # noqa: ANN401 - the core does not import it
        """The synthetic data set as a pandas data frame."""
        return self.sample(kind="pandas")

    def to_polars(self) -> Any:  # noqa: ANN401 - the core does not import it
        """The synthetic data set as a polars data frame."""
        return self.sample(kind="polars")

    def to_arrow(self) -> Any:  # noqa: ANN401 - the core does not import it
        """The synthetic data set as an Arrow table."""
        return self.sample(kind="arrow")

    def to_spark(self, session: Any) -> Any:  # noqa: ANN401 - the core does not import it
        """All records as a Spark data frame.

        Parameters
        ----------
        session
            A Spark session (`pyspark.sql.SparkSession`).
        """
        return session.createDataFrame(self.sample(kind="arrow"))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the synthetic data set to a CSV file.

        Parameters
        ----------
        path
            The file to write.
        """
        write_table(self.tables("arrow"), path, "csv", self.schema)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the synthetic data set to a Parquet file.

        Parameters
        ----------
        path
            The file to write.
        """
        write_table(self.tables("arrow"), path, "parquet", self.schema)

    def __len__(self) -> int:
        return self.model.records

    def tables(self, kind: str | None = None, rows: int = 1 << 17, n: int | None = None) -> Iterator[Any]:
        """The rows of `sample`, in the same order, so many at a time: for writing without holding all of them.

        Parameters
        ----------
        kind
            As for `sample`.
        rows
            How many rows at a time.
        n
            As for `sample`: with it, neither time nor memory grows with the number of records.
        """
        points, order = self._shuffled() if n is None else (self.model.sample(n, self.seed), np.arange(n))
        for start in range(0, max(len(order), 1), rows):
            yield self.schema.decode(_rows(points, order[start : start + rows]), kind or self.kind)

    def _shuffled(self) -> tuple[Points, NDArray[np.int64]]:
        if isinstance(self.model, TableModel):  # a table that was shuffled when it was published
            return self.points(), np.arange(len(self))
        return in_parallel(len(self), self.points, lambda: np.random.default_rng([self.seed, 2]).permutation(len(self)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a file that anyone may see.

        Parameters
        ----------
        path
            The file to write.
        """
        facts = self.facts
        model, arrays = self.model.state()
        measured, counts = measurements.to_state(self.measured, facts.noise)
        header = {
            "t": facts.t,
            **facts.guarantee.to_dict(),
            **({"noise": facts.noise} if facts.noise != IntegerLaplace.name else {}),
            "schema": facts.schema.to_dict(),
            "mechanism": facts.mechanism,
            "start": self.start,
            "seed": self.seed,
            "kind": self.kind,
            **model,
            **measured,
        }
        files.write_whole(path, files.pieces(_BANNER, header, {**arrays, **counts}), mode=0o644)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Release:
        """Read a release that `save` wrote, or the folder of one that `headwater run` has published.

        A folder holds rows and no model: `sample` then draws from its rows, and `save` is refused.

        Parameters
        ----------
        path
            The file or the folder.
        """
        if os.path.isdir(path):
            return _of_folder(path)
        header, arrays = files.read(path, _BANNER)
        with files.assembling(str(path)):
            facts = _facts(header)
            start, seed, kind = (header[name] for name in ("start", "seed", "kind"))
            files.need(files.whole_number(start, "start") <= facts.t, "start")
            files.need(type(seed) is int and 0 <= seed <= _SEED, "seed")
            files.need(kind is None or (not isinstance(facts.schema, UnitCube) and kind in TABLE_KINDS), "kind")
            model = registry.model(facts.mechanism).restore(header, arrays, facts.schema, facts.t - start)
            measured = measurements.of_state(header, arrays, facts.mechanism, facts.schema)
            return Release(facts, start, model, seed, kind, measured=measured)

    def __str__(self) -> str:
        cube = isinstance(self.schema, UnitCube)
        what = f"points in [0,1]^{self.schema.dimension}" if cube else f"records of {self.schema.dimension} columns"
        window = f", records {self.start + 1:,} to {self.t:,}" if self.start else ""
        return f"release of {len(self):,} {what} ({self.guarantee.promise}, {self.mechanism}{window})"

    __repr__ = __str__


def made_of(measured: Measured, facts: Facts, seed: int, kind: str | None) -> Release:
    """The release of what was measured: from here on nothing sees data."""
    model = registry.model(facts.mechanism).fit(measured, facts.schema, seed)
    return Release(facts, measured.start, model, seed, kind, measured=measured)


def _rows(points: Points, order: NDArray[np.int64]) -> Points:
    return points.T.take(order, axis=1).T if points.flags.f_contiguous else points.take(order, axis=0)


def _of_folder(path: str | os.PathLike[str]) -> Release:
    card = read_card(path)
    with files.assembling(str(path)):
        facts = _facts(card | {"epsilon": float(card["epsilon"])})
        start, end = card["span"]
        files.need(end == facts.t, "span")
        files.need(card["rows"] <= end - start, "rows")
        expected = expected_of(card)
    kind = None if isinstance(facts.schema, UnitCube) else "arrow"
    if (found := read_measured(path, card, facts.schema)) is None:
        return Release(facts, start, TableModel(read_rows(path, card, facts.schema), expected), 0, kind, card)
    measured, seed = found
    with files.assembling(str(path)):
        model = registry.model(facts.mechanism).fit(measured, facts.schema, seed)
        files.need(measured.start == start and model.records == facts.t - start, "measured")
    return Release(facts, start, model, seed, kind, card, measured)


def _facts(header: dict[str, Any]) -> Facts:
    """Refuse a file whose numbers no release has: a checksum finds damage, not what was made up."""
    epsilon, mechanism = header["epsilon"], header["mechanism"]
    files.need(type(epsilon) is float and 0 < epsilon < math.inf, "epsilon")
    files.need(mechanism in registry.names(), "mechanism")
    delta, noise = header.get("delta", 0.0), header.get("noise", IntegerLaplace.name)
    files.need(type(delta) in (int, float) and 0 <= delta < 1, "delta")
    files.need(isinstance(noise, str), "noise")
    guarantee = Guarantee.from_dict({**header, "delta": float(delta)})
    return Facts(files.whole_number(header["t"], "t"), guarantee, schema_from_dict(header["schema"]), mechanism, noise)
