"""What all kinds of columns have in common: values in, coordinates out, and back.

Formal guarantees
-----------------
There is one grammar of text, `Column.read_text`, and one reading of every other value, `Column.parse`. What Arrow or
NumPy reads at once is a part of that, so a value means the same whatever stands beside it and whichever way it came. A
block that a library refuses is halved until what it refuses is alone (`proofs/tables.md`, step 1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Number as AnyNumber
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import SchemaError, TableError, failures, is_unicode, listed, need, quoted, refusal
from headwater.public.partition import Axis, Flags, Integers, Points
from headwater.public.tables import (
    Values,
    coded,
    from_arrow,
    halves_of,
    is_missing,
    kept,
    pyarrow,
    rows_of,
    texts_of,
    texts_to_arrow,
    to_arrow,
    values_of,
    without,
)

Array = NDArray[Any]

_FEW = 32  # texts that are read one by one where Arrow refuses one of them
_HEAD, _ALIKE = 2000, 4  # texts that are looked at, and how often each comes there where all are read only once
_WORDS: list[tuple[Any, str]] = [
    (bool | np.bool_, "a boolean"),
    (str, "text"),
    (bytes | bytearray, "bytes"),
    (datetime | np.datetime64, "a date and time"),
    (date, "a date"),
    (time, "a time of day"),
    (timedelta | np.timedelta64, "a time span"),
    (complex, "a complex number"),
    (AnyNumber | np.number | Decimal, "a number"),
    (list | tuple | np.ndarray, "a list"),
    (dict, "a record"),
]
_OF_ARRAYS = {"b": "a boolean", "f": "a number", "i": "a number", "u": "a number", "M": "a date", "m": "a time span"}
_MISSING = TableError("the value is missing", "fill it in before, or declare missing=True for this column")


class Read(NamedTuple):
    """Values of a column as numbers, which are missing, what is wrong with the bad ones, and which each row has."""

    numbers: Array
    missing: Flags | None = None
    bad: Mapping[int, TableError] = {}
    codes: Integers | None = None

    def rows(self) -> Read:
        """The same with one value for each row."""
        if self.codes is None:
            return self
        gone = None if self.missing is None else self.missing[self.codes]
        return Read(self.numbers[self.codes], gone, _rows_of(self.bad, self.codes))

    def coded(self, codes: Integers) -> Read:
        """These values for rows that name them; −1 is a missing value."""
        few = self.rows()
        if not len(codes) or codes.min() >= 0:
            return few._replace(codes=codes)
        gone = np.zeros(len(few.numbers), dtype=np.bool_) if few.missing is None else few.missing
        codes = np.where(codes < 0, len(few.numbers), codes)
        return Read(np.append(few.numbers, few.numbers.dtype.type(0)), np.append(gone, True), few.bad, codes)


@dataclass(frozen=True, repr=False)
class Column(ABC):
    """One column of a table: which values it may have, declared and never learned.

    Parameters
    ----------
    missing
        Whether values may be missing. If so, a missing value is a value like any other, and comes out as well.
    weight
        How finely the column is resolved, relative to the others: weight 2 gets two cuts for one cut of weight 1.
        Marginals do not use it.
    null_values
        Texts that mean "missing", such as ``["NA", "?"]``; blank text does in any case.
    """

    missing: bool = field(default=False, kw_only=True)
    weight: float = field(default=1.0, kw_only=True)
    null_values: Sequence[str] = field(default=(), kw_only=True)

    kind: ClassVar[str]
    """The name of this kind of column in schema files."""
    wants: ClassVar[str]
    """What a value has to be, in words."""
    dtype: ClassVar[type[np.generic]] = np.int64
    """The type of numbers: declared, for one that followed from the values would let one change the others."""
    required: ClassVar[Mapping[str, str]] = {}
    """What has to be declared, and a line of a schema file that does it, by example."""
    cut: ClassVar[str] = "clipped"
    """What happens to values that are not declared, in a word of `headwater.public.tally.KINDS`."""

    def __post_init__(self) -> None:
        need(isinstance(self.missing, bool), "missing must be true or false", "write missing = true or leave it out")
        weight, texts = finite(self.weight), self.null_values
        remedy = "write for example weight = 2.0 or leave it out"
        need(weight is not None and weight > 0, "weight must be a positive number", remedy)
        listed = isinstance(texts, list | tuple) and all(isinstance(text, str) and is_unicode(text) for text in texts)
        need(listed, "null_values must be a list of texts", 'write for example null_values = ["NA", "-999"]')
        self.set(weight=weight, null_values=tuple(dict.fromkeys(text.strip() for text in texts)))

    # ---- what a kind of column says

    @property
    @abstractmethod
    def limits(self) -> tuple[Any, Any]:
        """The lowest and the highest number of a declared value."""

    @property
    def stride(self) -> int:
        """Numbers count in multiples of this from the lowest on; those in between as the one before."""
        return 1

    @property
    def size(self) -> Any:  # noqa: ANN401 - an int, or None
        """How many values there are; None for a continuum."""
        low, high = self.limits
        return int(high - low) // self.stride + 1

    @property
    def clips(self) -> bool:
        """Whether another value stands for one that is not declared."""
        return True

    def text(self, text: str) -> Any:  # noqa: ANN401 - an int or a float, None if it is missing
        """Trimmed text that is not blank and none of `null_values` as a number, None if it is missing too."""
        return self.parse(text)

    @abstractmethod
    def parse(self, value: Any) -> Any:  # noqa: ANN401 - a value of any type; an int or a float
        """One object that is neither text nor missing as a number."""

    @abstractmethod
    def typed(self, values: Values) -> Read:
        """An array of one type."""

    def at_once(self, text: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
        """Trimmed text of Arrow as numbers; null where `read_text` has to look. None: it has to look everywhere."""
        return None

    def repeats(self, text: Any) -> bool:  # noqa: ANN401 - an array of pyarrow
        """Whether each text is looked at once for all of its rows. It decides the speed alone."""
        return True

    def beyond(self, numbers: Array) -> Flags | None:
        """Which numbers are none of the declared values, None if all are."""
        low, high = self.limits
        if not len(numbers) or (numbers.min() >= low and numbers.max() <= high):
            return None
        return np.asarray((numbers < low) | (numbers > high))

    def off(self, numbers: Array, fitted: Array) -> Flags | None:
        """Which numbers count as another one because of a declared step, or are clipped; None if there is no step."""
        return None if self.stride == 1 else np.asarray(fitted * self.stride + self.limits[0] != numbers)

    def fit(self, numbers: Array) -> Array:
        """Numbers as `Axis.place` takes them; those that are `beyond` as the value that stands for them."""
        low, high = self.limits
        found: Array = np.clip(numbers, low, high) - low
        return found if self.stride == 1 else found // self.stride

    def raw(self, numbers: Array) -> Array:
        """What `Axis.value` gives, as an array that data frames can hold: `fit` backwards."""
        found: Array = numbers * self.stride + self.limits[0]
        return found

    def label(self, raw: Array) -> Array:
        """What `raw` gives, as values of the column."""
        return raw

    def to_arrow(self, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - an array of pyarrow
        """What `raw` gives, as Arrow has it."""
        return to_arrow(raw, missing)

    # ---- values in

    def read_text(self, text: str) -> Any:  # noqa: ANN401 - an int or a float
        """Text as a number, or None if it says that the value is missing: the grammar of the column."""
        plain = text.strip()
        return None if not plain or plain in self.null_values else self.text(plain)

    def read(self, series: Any) -> Read:  # noqa: ANN401 - a column of any library
        """Values of any library: as numbers, which of them are missing, and what is wrong with those that are bad."""
        try:
            values = values_of(series)
            if isinstance(values.data, list):
                found = self._each(values.data)
            else:
                found = self.typed(values) if isinstance(values.data, np.ndarray) else self._texts(values.data)
            return found if values.codes is None else found.coded(values.codes)
        except failures() as error:  # of any library, or of an object in a row
            wrong, size = refusal(error), len(series if hasattr(series, "__len__") else list(series))
            if isinstance(error, TableError) or size == 0:  # about the column as a whole
                raise
        if size == 1:
            return Read(np.zeros(1, dtype=self.dtype), None, {0: wrong})
        parts = [self.read(rows_of(series, *lot)).rows() for lot in halves_of(size)]
        gone = [np.zeros(len(one.numbers), np.bool_) if one.missing is None else one.missing for one in parts]
        bad = {**parts[0].bad, **{row + size // 2: error for row, error in parts[1].bad.items()}}
        return Read(np.concatenate([one.numbers for one in parts]), np.concatenate(gone), bad)

    def _each(self, items: Sequence[Any]) -> Read:
        """Objects of any types, one by one."""
        numbers, gone, bad = np.zeros(len(items), self.dtype), np.zeros(len(items), np.bool_), dict[int, TableError]()
        for row, item in enumerate(items):
            number: Any = None
            try:
                if isinstance(item, str):
                    number = self.read_text(item)
                elif type(item) is int or not is_missing(item):
                    number = self.parse(item)
                if number is None:
                    gone[row] = True
                else:
                    numbers[row] = number
            except failures() as error:  # ours, of a library, or of the value itself
                bad[row] = refusal(error)
        return Read(numbers, gone if gone.any() else None, bad)

    def _texts(self, text: Any) -> Read:  # noqa: ANN401 - an array of pyarrow
        """Text of Arrow: at once what `at_once` reads, and by `read_text` what is left."""
        pc, codes = pyarrow("compute"), None
        if self.repeats(text):
            text, codes = coded(text)
        trimmed = pc.ascii_trim_whitespace(text)
        nothing = pc.is_in(trimmed, texts_to_arrow(["", *self.null_values]).cast(text.type))
        nothing = pc.or_(nothing, text.is_null()) if text.null_count else nothing
        found = self.at_once(without(trimmed, nothing))
        if found is None:
            few = self._each(texts_of(text))
            return few if codes is None else few.coded(codes)
        missing = from_arrow(nothing)[0]
        numbers, unread = from_arrow(found)
        bad = dict[int, TableError]()
        rest = np.empty(0, dtype=np.int64) if unread is None else np.flatnonzero(unread & ~missing)
        if len(rest):
            numbers, missing = np.array(numbers, dtype=self.dtype), missing.copy()
            others, rows = coded(text.take(to_arrow(rest, None)))
            few = self._each(texts_of(others)).coded(rows).rows()
            numbers[rest], bad = few.numbers, {int(rest[row]): error for row, error in few.bad.items()}
            missing[rest] = False if few.missing is None else few.missing
        if self._null_numbers:
            missing = missing | np.isin(numbers, self._null_numbers)
        read = Read(numbers, missing if missing.any() else None, bad)
        return read if codes is None else read.coded(codes)

    @cached_property
    def _null_numbers(self) -> list[Any]:
        """The numbers among the texts that mean "missing": in text, however such a number is written, it does."""
        return []

    # ---- coordinates

    def placed(self, read: Read) -> tuple[Points, dict[str, int], dict[int, TableError]]:
        """The coordinates of values, how many of them count as what (`Tally`), and what is wrong with bad ones, whose
        coordinates say nothing.
        """
        numbers, gone, bad, codes = read
        flags, wrong = dict[str, Flags](), dict(bad)
        if gone is not None:
            numbers = np.where(gone, self.limits[0], numbers)
            if self.missing:
                flags["missing"] = gone
            else:
                wrong |= dict.fromkeys(np.flatnonzero(gone).tolist(), _MISSING)
        cut = self.beyond(numbers)
        if cut is not None:
            cut[list(wrong)] = False
            if self.clips:
                flags[self.cut] = cut
            else:
                wrong |= {row: _outside(numbers[row] < self.limits[0]) for row in np.flatnonzero(cut).tolist()}
        found = self.fit(numbers)
        if (off := self.off(numbers, found)) is not None:
            off[list(wrong)] = False
            flags["rounded"] = off if cut is None else off & ~cut
        points = self.axis.place(found, gone)
        if codes is not None:
            points, flags = points.take(codes), {kind: found[codes] for kind, found in flags.items()}
            wrong = _rows_of(wrong, codes)
        return points, {kind: int(np.count_nonzero(found)) for kind, found in flags.items() if found.any()}, wrong

    def encode(self, series: object) -> Points:
        """The coordinates of values, or an error that names the first row that is wrong."""
        self.check()
        points, _, wrong = self.placed(self.read(series))
        for row in sorted(wrong)[:1]:
            raise wrong[row].at(row=row)
        return points

    def decode(self, coordinates: Points) -> tuple[Array, Flags | None]:
        """The values at coordinates, and which of them are missing (None if none can be): `encode` backwards."""
        numbers, gone = self.axis.value(np.asarray(coordinates, dtype=np.float64))
        return self.label(self.raw(numbers)), gone

    @cached_property
    def axis(self) -> Axis:
        """The coordinate of this column."""
        self.check()
        return Axis(self.size, self.missing, self.weight)

    # ---- what is declared

    @property
    def open(self) -> list[str]:
        """What is still to be declared before the column can be used."""
        return [name for name in self.required if getattr(self, name) in (None, ())]

    def check(self) -> None:
        """Raise an error if something is still to be declared."""
        if self.open:
            arguments = ", ".join("*values" if name == "values" else f"{name}=…" for name in self.required)
            lines = " and ".join(f"`{self.required[name]}`" for name in self.open)
            raise SchemaError(
                f"{' and '.join(self.open)} of {type(self).__name__} must be declared: "
                "they come from what you know, never from the data, for what is taken from the data reveals a record",
                f"in a schema file write {lines} with your own values, in Python {type(self).__name__}({arguments})",
            )

    def wrong(self, what: object) -> TableError:
        """The error for a value of another kind; of an array its type is enough."""
        return TableError(
            f"{describe(what)}, not {self.wants}", f"give {self.wants}, or declare another kind of column"
        )

    def all_wrong(self, values: Values) -> Read:
        """An array of another kind: every value that is there is bad. The type of nothing says nothing."""
        every = np.ones(len(values.data), dtype=np.bool_)
        return read_with(np.zeros(len(every), dtype=self.dtype), values.missing, every, self.wrong(values.data))

    def to_dict(self) -> dict[str, Any]:
        """What is declared, as plain values: a table of a schema file."""
        return {"kind": self.kind} | {name: value for name, value in self._declared().items() if value is not None}

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Self:
        """A column as `to_dict` describes it, without its kind."""
        names = [item.name for item in _ordered(cls)]
        unknown = [name for name in declared if name not in names]
        problem = f"unknown key {listed(unknown)} in a column of kind {quoted(cls.kind)}"
        need(not unknown, problem, f"known keys are kind, {', '.join(names)}")
        return cls(**declared)

    def set(self, **values: object) -> None:
        """Put arguments in their one form while the column is being made; nothing changes later."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _declared(self) -> dict[str, Any]:
        """Arguments that are not the usual ones, as schema files have them."""
        found = {item.name: (getattr(self, item.name), item.default) for item in _ordered(type(self))}
        return {name: _plain(value) for name, (value, usual) in found.items() if value != usual}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._declared().items())})"


@dataclass(frozen=True, repr=False)
class Bounded(Column):
    """A column with bounds that are declared."""

    outside: str = field(default="clip", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        problem = 'outside must be "clip" or "error"'
        need(self.outside in ("clip", "error"), problem, 'write outside = "error" or leave it out')

    @property
    def clips(self) -> bool:
        return self.outside == "clip"

    @cached_property
    def limits(self) -> tuple[Any, Any]:
        self.check()
        low, high = (getattr(self, name) for name in self.required)
        return low, high


def _rows_of(bad: Mapping[int, TableError], codes: Integers) -> dict[int, TableError]:
    """What is wrong with rows that hold bad values."""
    rows = np.flatnonzero(np.isin(codes, list(bad))).tolist() if bad else []
    return {row: bad[int(codes[row])] for row in rows}


def _outside(below: bool) -> TableError:
    remedy = 'declare wider bounds, or outside="clip" to take the bound instead'
    return TableError(f"the value is {'below the lower' if below else 'above the upper'} bound", remedy)


def alike(text: Any) -> bool:  # noqa: ANN401 - an array of pyarrow
    """Whether the first texts come several times each."""
    return len(text) > _HEAD and len(text[:_HEAD].unique()) * _ALIKE < _HEAD


def read_with(numbers: Array, missing: Flags | None, wrong: Flags, error: TableError) -> Read:
    """Numbers of an array, of which those that are flagged and not missing are bad."""
    wrong = wrong if missing is None else wrong & ~missing
    gone = None if missing is None or not missing.any() else missing
    return Read(numbers, gone, dict.fromkeys(np.flatnonzero(wrong).tolist(), error) if wrong.any() else {})


def halved(kernel: Callable[[Any], Any], text: Any, plain: str | None = None) -> Any:  # noqa: ANN401 - arrays of pyarrow
    """What a kernel makes of text, null for texts that it refuses and for a few beside them."""
    pa, pc = pyarrow(), pyarrow("compute")
    try:
        return kernel(text)
    except pa.ArrowInvalid:  # whose message may hold a value
        if plain is None and len(text) <= _FEW:
            return pa.nulls(len(text), kernel(text[:0]).type)
    if plain is not None:
        return halved(kernel, kept(text, pc.match_substring_regex(text, plain)))
    middle = len(text) // 2
    return pa.concat_arrays([halved(kernel, text[:middle]), halved(kernel, text[middle:])])


def _ordered(kind: type[Column]) -> list[Field[Any]]:
    return sorted(fields(kind), key=lambda item: item.kw_only is True)


def finite(value: Any) -> float | None:  # noqa: ANN401 - an argument of any type
    """An argument as a float; None if it is no number, or none that a float can be."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:  # a whole number that no float is near to
        return None
    return number if math.isfinite(number) else None


def describe(value: object) -> str:
    """What kind of value this is, in words that say nothing about the value; of an array, what kind it holds."""
    if isinstance(value, np.ndarray):
        return _OF_ARRAYS.get(value.dtype.kind, "an object")
    return next((name for kind, name in _WORDS if isinstance(value, kind)), f"an object of type {type(value).__name__}")


def _plain(value: Any) -> Any:  # noqa: ANN401 - an argument of any column
    """An argument as schema files have it."""
    if isinstance(value, tuple):
        return list(value)
    return value.isoformat() if isinstance(value, date) else value
