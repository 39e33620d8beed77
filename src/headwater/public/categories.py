"""Columns of a few values: yes and no, and those that are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from headwater.public.columns import Array, Column, Read, describe, read_with
from headwater.public.errors import TableError, is_unicode, need
from headwater.public.partition import Flags
from headwater.public.tables import Values, is_missing, texts_to_arrow, to_arrow

_INT64_END = 1 << 63
_TRUTHS = {"true": True, "yes": True, "t": True, "1": True, "false": False, "no": False, "f": False, "0": False}


@dataclass(frozen=True, repr=False)
class Boolean(Column):
    """A column of yes and no: booleans, 0 and 1, or such texts as "yes", "F" or "true".

    Parameters
    ----------
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> Boolean().encode([True, "no", 1.0]).tolist()
    [0.5, 0.0, 0.5]
    """

    kind: ClassVar[str] = "boolean"
    wants: ClassVar[str] = "a boolean"

    @property
    def limits(self) -> tuple[int, int]:
        return 0, 1

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        truth = _truth(value)
        if truth is None:
            remedy = "write true or false, yes or no, t or f, 1 or 0, or declare another kind of column"
            raise TableError(f"{describe(value)} that is neither yes nor no", remedy)
        return int(truth)

    def typed(self, values: Values) -> Read:
        data = values.data
        if data.dtype.kind not in "biuf":
            return self.all_wrong(values)
        error = TableError("a number that is neither 0 nor 1", "declare Integer or Number for this column")
        return read_with((data == 1).astype(np.int64), values.missing, (data != 0) & (data != 1), error)

    def raw(self, numbers: Array) -> Array:
        return numbers.astype(np.bool_)


@dataclass(frozen=True, repr=False, init=False)
class Category(Column):
    """A column of values that are listed: texts, whole numbers or booleans.

    Parameters
    ----------
    args, values
        The values, all of one type, one by one or in a list, a series or an array. Neighbours in the list are split
        last, so put alike values side by side; a set has no order, and is refused.
    other
        One of the values: where all values go that are not listed. Without it such values are refused.
    missing, weight, null_values
        As for every `Column`: whether values may be missing, how finely it is resolved, texts that mean "missing".

    Examples
    --------
    >>> payment = Category("card", "cash", "other", other="other")
    >>> payment.encode(["cash", "shells", "card"]).tolist()
    [0.25, 0.5, 0.0]
    >>> payment.decode(np.array([0.25]))
    (array(['cash'], dtype=object), None)
    """

    values: tuple[Any, ...] = ()
    other: str | int | bool | None = None

    kind: ClassVar[str] = "category"
    wants: ClassVar[str] = "one of the listed values"
    required: ClassVar[Mapping[str, str]] = {"values": 'values = ["one", "another"]'}
    cut: ClassVar[str] = "unlisted"

    def __init__(
        self,
        *args: str | int | bool | Iterable[str | int | bool],
        values: Iterable[str | int | bool] = (),
        other: str | int | bool | None = None,
        missing: bool = False,
        weight: float = 1.0,
        null_values: Sequence[str] = (),
    ) -> None:
        twice = bool(args) and values != ()
        need(not twice, "the values of a Category are given twice", "give them one by one, or as values=")
        given = _listed(args if values == () else (values,))
        self.set(missing=missing, weight=weight, null_values=null_values)
        super().__post_init__()
        self.set(values=tuple(map(_label, given)), other=None if other is None else _label(other))
        kinds = {type(value) for value in self.values}
        remedy = "write all of them as texts, or all as whole numbers"
        need(len(kinds) <= 1, "the values of a Category must be of one type", remedy)
        twice = len(set(self.values)) < len(self.values)
        need(not twice, "a value of a Category is listed twice", "list every value once")
        null = any(str(value).strip() in self.null_values for value in self.values)
        need(not null, "a listed value is also one of null_values", "take it out of one of the two lists")
        known = other is None or (type(self.other) is self.type and self.other in self.values)
        need(known, "other must be one of the listed values", "add it to the values")

    @cached_property
    def type(self) -> type[Any]:
        """The type of the values: str, int or bool."""
        return type(self.values[0]) if self.values else str

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {value: index for index, value in enumerate(self.values)}

    @property
    def limits(self) -> tuple[int, int]:
        """The first and the last place in the list; the one behind it is that of a value that is not listed."""
        return 0, len(self.values) - 1

    def __eq__(self, other: object) -> bool:
        """As the arguments are; the number 1 is not True."""
        return isinstance(other, Category) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def read_text(self, text: str) -> int | None:
        """Exactly one of the values; blank text is missing unless it is one of them."""
        plain = text.strip()
        return None if plain in self.null_values or (not plain and text not in self._index) else self.parse(text)

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        if isinstance(value, np.generic):
            value = value.item()
        value = value + 0.0 if isinstance(value, float) else value  # −0.0 is 0.0
        for reading in self._readings(value):
            if reading in self._index:
                return self._index[reading]
        if self.other is None:
            raise self._unknown(describe(value))
        return len(self.values)

    def _readings(self, value: Any) -> Iterable[Any]:  # noqa: ANN401 - a value of any type
        """What a value may mean here: the value itself, or exactly the same as the type of the column writes it."""
        if self.type is bool:
            truth = _truth(value)
            return [] if truth is None else [truth]
        if isinstance(value, bool):
            return [str(value), str(value).lower()] if self.type is str else []
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if self.type is str:
            written = [value, whole] if isinstance(value, float | int) else []
            return [value] if isinstance(value, str) else map(str, written)
        if isinstance(value, str):  # a code such as 007 is not the number 7
            text = value.strip()
            whole_number = len(text) < 20 and text.removeprefix("-").isdecimal()
            return [int(text)] if whole_number and str(int(text)) == text else []
        return [whole] if isinstance(whole, int) else []

    def _unknown(self, what: str) -> TableError:
        remedy = "add it to the values, or declare as other= the value that takes all that are not listed"
        return TableError(f"{what} that is none of the listed values", remedy)

    def typed(self, values: Values) -> Read:
        """Whole numbers among whole numbers all at once; of others each that is different."""
        data = values.data
        if data.dtype.kind not in "biuf":
            return self.all_wrong(values)
        if self.type is not int or data.dtype.kind not in "iu" or not self.values:
            few, codes = values.distinct()
            return self._each(few).coded(codes)
        if data.dtype.kind == "u":
            data = np.minimum(data, np.uint64(_INT64_END - 1)).astype(np.int64)  # no listed value is that large
        listed = np.array(self.values, dtype=np.int64)
        order = np.argsort(listed)
        numbers = order[np.minimum(np.searchsorted(listed, data, sorter=order), len(listed) - 1)]
        unknown = listed[numbers] != data
        if self.other is None:
            return read_with(numbers, values.missing, unknown, self._unknown("a number"))
        return Read(np.where(unknown, len(listed), numbers), values.missing)

    def fit(self, numbers: Array) -> Array:
        if self.other is None:
            return numbers
        return np.append(np.arange(len(self.values)), self._index[self.other])[numbers]

    def raw(self, numbers: Array) -> Array:
        return numbers

    def label(self, raw: Array) -> Array:
        values: Array = np.array(self.values, dtype=object if self.type is str else self.type)[raw]
        return values

    def to_arrow(self, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - an array of pyarrow
        few = texts_to_arrow(self.values) if self.type is str else to_arrow(np.array(self.values), None)
        return few.take(to_arrow(raw, missing))

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Self:
        """A column as `to_dict` describes it, without its kind."""
        many = isinstance(declared.get("values", []), list | tuple)
        need(many, "values must be a list", f"write for example {cls.required['values']}")
        return super().from_dict(declared)

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self._declared().items() if name != "values"]
        return f"Category({', '.join([*map(repr, self.values), *options])})"


def _listed(values: tuple[Any, ...]) -> Iterable[Any]:
    """The values of ``Category("a", "b")``, and of ``Category(["a", "b"])``: a list, a series, anything in order."""
    if len(values) != 1:
        return values
    (given,) = values
    problem = "a set has no order, and the values of a Category have one: neighbours are split last"
    remedy = "write Category(sorted(values)), or list them with alike values side by side"
    need(not isinstance(given, set | frozenset), problem, remedy)
    if isinstance(given, str | bytes | Mapping) or hasattr(given, "columns") or not isinstance(given, Iterable):
        return values
    for name in ("tolist", "to_list", "to_pylist"):  # of NumPy and pandas, of Polars, of Arrow
        if hasattr(given, name):
            return list(getattr(given, name)())
    return list(given)


def _label(value: Any) -> str | int | bool:  # noqa: ANN401 - an argument of any type
    value = value.item() if isinstance(value, np.generic) else value
    problem = "a missing value is among the values of a Category"
    need(not is_missing(value), problem, "take it out, and declare missing = true")
    fits = isinstance(value, str) or (isinstance(value, int) and -_INT64_END <= value < _INT64_END - 1)
    problem = "the values of a Category must be texts, whole numbers (of 64 bits) or booleans"
    need(fits, problem, f"write for example {Category.required['values']}")
    half = isinstance(value, str) and not is_unicode(value)
    need(not half, "a value of a Category holds half a character", "write it in Unicode")
    found: str | int | bool = value
    return found


def _truth(value: Any) -> bool | None:  # noqa: ANN401 - a value of any type
    """What a value says, if it is yes or no."""
    if isinstance(value, str):
        return _TRUTHS.get(value.strip().lower())
    if isinstance(value, bool | int | float | np.generic) and value in (0, 1):
        return bool(value)
    return None
