"""Columns of a few values: yes and no, and those that are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from headwater.public.columns import Array, Column, Read, describe, read_with
from headwater.public.errors import SchemaError, TableError, is_unicode
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
    def size(self) -> int:
        """Two."""
        return 2

    def text(self, text: str) -> int | None:
        """Truth in words, in any case of letters; blank text is missing."""
        return self.parse(text) if text.strip() else None

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        """0 or 1."""
        truth = _truth(value)
        if truth is None:
            raise TableError(
                f"{describe(value)} that is neither yes nor no",
                "write true or false, yes or no, t or f, 1 or 0, or declare another kind of column",
            )
        return int(truth)

    def typed(self, values: Values) -> Read:
        """Truth values, or numbers that are 0 or 1."""
        data = values.data
        if data.dtype.kind not in "biuf":
            return self.all_wrong(values)
        error = TableError("a number that is neither 0 nor 1", "declare Integer or Number for this column")
        return read_with((data == 1).astype(np.int64), values.missing, (data != 0) & (data != 1), error)

    def raw(self, numbers: Array) -> Array:
        """0 is False."""
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
        if args and values != ():
            raise SchemaError("the values of a Category are given twice", "give them one by one, or as values=")
        given = _listed(args if values == () else (values,))
        self.set(missing=missing, weight=weight, null_values=null_values)
        super().__post_init__()
        self.set(values=tuple(map(_label, given)), other=None if other is None else _label(other))
        if len({type(value) for value in self.values}) > 1:
            remedy = "write all of them as texts, or all as whole numbers"
            raise SchemaError("the values of a Category must be of one type", remedy)
        if len(set(self.values)) < len(self.values):
            raise SchemaError("a value of a Category is listed twice", "list every value once")
        if any(str(value).strip() in self.null_values for value in self.values):
            raise SchemaError("a listed value is also one of null_values", "take it out of one of the two lists")
        if other is not None and (type(self.other) is not self.type or self.other not in self.values):
            raise SchemaError("other must be one of the listed values", "add it to the values")

    @cached_property
    def type(self) -> type[Any]:
        """The type of the values: str, int or bool."""
        return type(self.values[0]) if self.values else str

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {value: index for index, value in enumerate(self.values)}

    @property
    def size(self) -> int:
        """How many values are listed."""
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        """As the arguments are; the number 1 is not True."""
        return isinstance(other, Category) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def text(self, text: str) -> int | None:
        """Exactly one of the values; blank text is missing unless it is one of them."""
        return None if not text.strip() and text not in self._index else self.parse(text)

    def parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        """The place of a value in the list; `size` for one that is not in it and that `other` stands for."""
        if isinstance(value, np.generic):
            value = value.item()
        value = value + 0.0 if isinstance(value, float) else value  # −0.0 is 0.0
        for reading in self._readings(value):
            if reading in self._index:
                return self._index[reading]
        if self.other is None:
            raise self._unknown(describe(value))
        return self.size

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
        return Read(np.where(unknown, self.size, numbers), values.missing, {})

    def beyond(self, numbers: Array) -> Flags | None:
        """Values that are taken for `other` and are not it."""
        return None if self.other is None else numbers == self.size

    def fit(self, numbers: Array, missing: Flags | None) -> Array:
        """Places in the list."""
        return numbers if self.other is None else np.where(numbers == self.size, self._index[self.other], numbers)

    def raw(self, numbers: Array) -> Array:
        """The numbers as they are: places in the list."""
        return numbers

    def label(self, raw: Array) -> Array:
        """The values themselves."""
        values: Array = np.array(self.values, dtype=object if self.type is str else self.type)[raw]
        return values

    def to_arrow(self, raw: Array, missing: Flags | None) -> Any:  # noqa: ANN401 - an array of pyarrow
        """The values, of their own type."""
        few = texts_to_arrow(self.values) if self.type is str else to_arrow(np.array(self.values), None)
        return few.take(to_arrow(raw, missing))

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Self:
        """A column as `to_dict` describes it, without its kind."""
        if not isinstance(declared.get("values", []), list | tuple):
            raise SchemaError("values must be a list", f"write for example {cls.required['values']}")
        return super().from_dict(declared)

    def __repr__(self) -> str:
        values = [repr(value) for value in self.values]
        options = [f"{item.name}={getattr(self, item.name)!r}" for item in self._declared() if item.name != "values"]
        return f"Category({', '.join(values + options)})"


def _listed(values: tuple[Any, ...]) -> Iterable[Any]:
    """The values of ``Category("a", "b")``, and of ``Category(["a", "b"])``: a list, a series, anything in order."""
    if len(values) != 1:
        return values
    (given,) = values
    if isinstance(given, set | frozenset):
        problem = "a set has no order, and the values of a Category have one: neighbours are split last"
        raise SchemaError(problem, "write Category(sorted(values)), or list them with alike values side by side")
    if isinstance(given, str | bytes | Mapping) or hasattr(given, "columns") or not isinstance(given, Iterable):
        return values
    for name in ("tolist", "to_list", "to_pylist"):  # of NumPy and pandas, of Polars, of Arrow
        if hasattr(given, name):
            return list(getattr(given, name)())
    return list(given)


def _label(value: object) -> str | int | bool:
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        raise SchemaError(
            "a missing value is among the values of a Category", "take it out, and declare missing = true"
        )
    if not isinstance(value, str | int) or (isinstance(value, int) and not -_INT64_END <= value < _INT64_END - 1):
        raise SchemaError(
            "the values of a Category must be texts, whole numbers (of 64 bits) or booleans",
            f"write for example {Category.required['values']}",
        )
    if isinstance(value, str) and not is_unicode(value):
        raise SchemaError("a value of a Category holds half a character", "write it in Unicode")
    return value


def _truth(value: Any) -> bool | None:  # noqa: ANN401 - a value of any type
    """What a value says, if it is yes or no."""
    if isinstance(value, str):
        return _TRUTHS.get(value.strip().lower())
    if isinstance(value, bool | int | float | np.generic) and value in (0, 1):
        return bool(value)
    return None
