"""Columns of a few values that are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.column import Column
from headwater.public.errors import SchemaError, TableError, is_unicode
from headwater.public.partition import Flags
from headwater.public.series import Values
from headwater.public.values import describe, is_missing

TEXTS = {"true": True, "yes": True, "t": True, "1": True, "false": False, "no": False, "f": False, "0": False}
"""Truth as text has it, in any case of letters."""

INT64_END = 1 << 63


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

    def _read_text(self, text: str) -> int | None:
        """One of `TEXTS` in any case of letters; blank text is missing."""
        return self._parse(text) if text.strip() else None

    def _parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        truth = _truth(value)
        if truth is None:
            raise TableError(
                f"{describe(value)} that is neither yes nor no",
                "write true or false, yes or no, t or f, 1 or 0, or declare another kind of column",
                sender="write true or false, yes or no, t or f, 1 or 0",
            )
        return int(truth)

    def _cast(self, values: Values) -> NDArray[Any]:
        data = np.asarray(values.data)
        if data.dtype.kind not in "biuf":
            raise self.wrong(data)
        bad = (data != 0) & (data != 1)
        if values.missing is not None:
            bad &= ~values.missing
        if bad.any():
            index = int(np.argmax(bad))
            remedy, sender = "declare Integer or Number for this column", "write 0 or 1, true or false"
            raise TableError("a number that is neither 0 nor 1", remedy, sender=sender, row=index)
        numbers: NDArray[np.int64] = (data == 1).astype(np.int64)
        return numbers

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """0 is False."""
        return numbers.astype(np.bool_)


@dataclass(frozen=True, repr=False, init=False)
class Category(Column):
    """A column of values that are listed: texts, whole numbers or booleans.

    Parameters
    ----------
    values
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

    def __init__(
        self,
        *values: str | int | bool | Iterable[str | int | bool],
        other: str | int | bool | None = None,
        missing: bool = False,
        weight: float = 1.0,
        null_values: Sequence[str] = (),
    ) -> None:
        self.set(missing=missing, weight=weight, null_values=null_values)
        super().__post_init__()
        self.set(values=tuple(map(_label, _listed(values))), other=None if other is None else _label(other))
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

    def _read_text(self, text: str) -> int | None:
        """Exactly one of the values; blank text is missing unless it is one of them."""
        return None if not text.strip() and text not in self._index else self._parse(text)

    def _parse(self, value: Any) -> int:  # noqa: ANN401 - a value of any type
        if isinstance(value, np.generic):
            value = value.item()
        value = value + 0.0 if isinstance(value, float) else value  # −0.0 is 0.0
        for reading in self._readings(value):
            if reading in self._index:
                return self._index[reading]
        if self.other is None:
            raise self._unknown(describe(value), 0)
        return self._index[self.other]

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

    def _unknown(self, what: str, index: int) -> TableError:
        remedy = "add it to the values, or declare as other= the value that takes all that are not listed"
        sender = "send one of the values that are declared"
        return TableError(f"{what} that is none of the listed values", remedy, sender=sender, row=index)

    def _outside(self, values: Values, numbers: NDArray[Any]) -> Flags | None:
        """Values that are taken for `other` and are not it."""
        if self.other is None:
            return None
        taken: Flags = numbers == self._index[self.other]
        if not taken.any():
            return None
        items = values.data if isinstance(values.data, list) else values.data.tolist()
        listed: dict[Any, bool] = {}
        for place in np.flatnonzero(taken).tolist():
            item = items[place]
            key = (type(item), item) if isinstance(item, str | int | float) else None
            if key not in listed or key is None:
                listed[key] = any(reading in self._index for reading in self._readings(item))
            taken[place] = not listed[key]
        return taken

    outside_kind: ClassVar[str] = "unlisted"

    def _cast(self, values: Values) -> NDArray[Any]:
        data = np.asarray(values.data)
        if self.type is int and data.dtype.kind in "iu":
            return self._find(data, values)
        if data.dtype.kind not in "biuf":
            raise self.wrong(data)
        few = values.distinct()
        try:
            numbers, _ = self.read_values(list(few.data))
        except TableError as error:
            raise error.at(row=few.row(error.row or 0)) from None
        return numbers[few.codes]

    def _find(self, data: NDArray[Any], values: Values) -> NDArray[Any]:
        """Whole numbers among whole numbers, all at once."""
        listed = np.array(self.values, dtype=np.int64)
        if data.dtype.kind == "u":
            data = np.minimum(data, np.uint64(INT64_END - 1)).astype(np.int64)  # no listed value is that large
        order = np.argsort(listed)
        places = np.minimum(np.searchsorted(listed, data, sorter=order), len(listed) - 1)
        numbers = order[places]
        unknown = listed[numbers] != data
        if values.missing is not None:
            unknown &= ~values.missing
        if unknown.any():
            if self.other is None:
                raise self._unknown("a number", int(np.argmax(unknown)))
            numbers[unknown] = self._index[self.other]
        return numbers

    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The numbers as they are: places in the list."""
        return numbers

    def label(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The values themselves."""
        values: NDArray[Any] = np.array(self.values, dtype=object if self.type is str else self.type)[raw]
        return values

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Self:
        """A column as `to_dict` describes it, without its kind."""
        rest = dict(declared)
        values = rest.pop("values", [])
        if not isinstance(values, list | tuple):
            raise SchemaError("values must be a list", f"write for example {cls.required['values']}")
        cls._known(rest)
        return cls(*values, **rest)

    def __repr__(self) -> str:
        listed = [repr(value) for value in self.values]
        options = [f"{item.name}={getattr(self, item.name)!r}" for item in self._declared() if item.name != "values"]
        return f"Category({', '.join(listed + options)})"


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
    if not isinstance(value, str | int) or (isinstance(value, int) and not -INT64_END <= value < INT64_END - 1):
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
        return TEXTS.get(value.strip().lower())
    if isinstance(value, bool | int | float | np.generic) and value in (0, 1):
        return bool(value)
    return None
