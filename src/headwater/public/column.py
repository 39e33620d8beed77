"""What all kinds of columns have in common: values in, coordinates out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headwater.public.errors import SchemaError, TableError, is_unicode, listed, quoted
from headwater.public.failures import failures
from headwater.public.narrowing import narrowed, refusal
from headwater.public.partition import Axis, Flags, Points
from headwater.public.series import Values, length, read_values, rows
from headwater.public.values import describe, finite, is_missing, plain


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
    numbers: ClassVar[type[np.generic]] = np.int64
    """What `_fit` takes: declared, for an array whose type follows from its values would let one change the others."""
    required: ClassVar[Mapping[str, str]] = {}
    """What has to be declared, and a line of a schema file that does it, by example."""

    def __post_init__(self) -> None:
        if not isinstance(self.missing, bool):
            raise SchemaError("missing must be true or false", "write missing = true or leave it out")
        weight = finite(self.weight)
        if weight is None or weight <= 0:
            raise SchemaError("weight must be a positive number", "write for example weight = 2.0 or leave it out")
        texts: Any = self.null_values
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and is_unicode(text) for text in texts):
            raise SchemaError("null_values must be a list of texts", 'write for example null_values = ["NA", "-999"]')
        self.set(weight=weight, null_values=tuple(dict.fromkeys(text.strip() for text in texts)))

    @property
    @abstractmethod
    def size(self) -> int | None:
        """How many values there are; None for a continuum."""

    def read_text(self, text: str) -> Any:  # noqa: ANN401 - an int or a float
        """Text as a number for `_fit`, or None if it says that the value is missing.

        This is the grammar of the column: whatever else reads text must read it in the same way or not at all.
        """
        return None if self.null_values and text.strip() in self.null_values else self._read_text(text)

    @abstractmethod
    def _read_text(self, text: str) -> Any:  # noqa: ANN401 - an int or a float
        """Text that is none of `null_values`."""

    @property
    def usual_text(self) -> bool:
        """Whether values are written in the usual way, and no value is also one of `null_values`.

        Then other parsers may read such text, as far as they read it in the same way.
        """
        for text in self.null_values:
            try:
                if self._read_text(text) is not None:
                    return False
            except TableError:
                continue
        return True

    @abstractmethod
    def _parse(self, value: Any) -> Any:  # noqa: ANN401 - a value of any type
        """One object that is no text as a number for `_fit`."""

    @abstractmethod
    def _cast(self, values: Values) -> NDArray[Any]:
        """An array of one type as numbers for `_fit`; what stands where a value is missing does not matter."""

    def _fit(self, numbers: NDArray[Any], missing: Flags | None) -> NDArray[Any]:
        """Numbers as `Axis.place` takes them."""
        return numbers

    @abstractmethod
    def raw(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """What `Axis.value` gives, as an array that data frames can hold: `_fit` backwards."""

    def label(self, raw: NDArray[Any]) -> NDArray[Any]:
        """What `raw` gives, as values of the column."""
        return raw

    @cached_property
    def axis(self) -> Axis:
        """The coordinate of this column."""
        self.check()
        return Axis(self.size, self.missing, self.weight)

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

    def encode(self, series: object) -> Points:
        """The coordinates of values, or an error that names the first row that is wrong."""
        points, _, wrong = self.encode_column(series, stop=True)
        for row, error in wrong.items():
            raise error.at(row=row)
        return points

    def encode_column(
        self, series: object, *, stop: bool = False
    ) -> tuple[Points, dict[str, int], dict[int, TableError]]:
        """The coordinates of a column of any library, how many of its values were clipped, unlisted or missing
        (`Tally`), and the errors of the rows that are wrong, whose coordinates say nothing; with ``stop`` of the first
        of them.
        """
        self.check()
        try:
            values = read_values(series)
        except TableError:  # about the column as a whole
            raise
        except failures() as error:
            refusal(error)
        else:
            return self._encode_each(values, stop=stop)
        points, tally, wrong = [np.empty(0)], Counter[str](), dict[int, TableError]()
        for start, end, found in narrowed(length(series), lambda first, last: read_values(rows(series, first, last))):
            if isinstance(found, TableError):
                points.append(np.zeros(1))
                wrong[start] = found
            else:
                places, counts, errors = self._encode_each(found, stop=stop)
                points.append(places if len(places) == end - start else np.zeros(end - start))
                tally.update(counts)
                wrong |= {start + row: error for row, error in errors.items()}
            if stop and wrong:
                break
        return np.concatenate(points), dict(tally), wrong

    def _encode_each(self, values: Values, *, stop: bool) -> tuple[Points, dict[str, int], dict[int, TableError]]:
        """The same for values that could be read. Of values that occur often, each is looked at once."""
        size = len(values.data)
        places, flags, wrong = np.empty(0), dict[str, Flags](), dict[int, TableError]()
        for start, end, found in narrowed(size, lambda first, last: self._places(values.part(first, last))):
            if not isinstance(found, TableError) and end - start == size:
                places, flags = found
                break
            places = places if len(places) else np.zeros(size)
            if isinstance(found, TableError):
                wrong[start] = found
                if stop:
                    break
                continue
            places[start:end] = found[0]
            for kind, of_lot in found[1].items():
                flags.setdefault(kind, np.zeros(size, dtype=np.bool_))[start:end] = of_lot
        if values.codes is None:
            return places, {kind: int(np.count_nonzero(found)) for kind, found in flags.items()}, wrong
        many = np.bincount(values.codes, minlength=size) if flags else 0
        tally = {kind: int(np.sum(many * found)) for kind, found in flags.items()}
        bad = np.flatnonzero(np.isin(values.codes, list(wrong))) if wrong else ()
        return places[values.codes], tally, {int(row): wrong[int(values.codes[row])] for row in bad}

    def _places(self, values: Values) -> tuple[Points, dict[str, Flags]]:
        """Coordinates of the values of ``data``, and which of them were clipped, unlisted or missing."""
        if isinstance(values.data, list):
            numbers, gone = self.read_values(values.data)
        elif values.missing is not None and values.missing.all():  # the type of nothing says nothing
            numbers, gone = np.zeros(len(values.data)), values.missing
        else:
            numbers, gone = self._cast(values) if len(values.data) else np.empty(0), values.missing
        if gone is not None and not self.missing:
            sender, row = "fill it in before", int(np.argmax(gone))
            remedy = f"{sender}, or declare missing=True for this column"
            raise TableError("the value is missing", remedy, sender=sender, row=row)
        flags = {} if gone is None else {"missing": gone}
        outside = self._outside(values, numbers)
        if outside is not None:
            flags[self.outside_kind] = outside if gone is None else outside & ~gone
        return self.axis.place(self._fit(numbers, gone), gone), flags

    outside_kind: ClassVar[str] = "clipped"
    """What happens to values that are not declared, in a word of `headwater.public.tally.KINDS`."""

    def _outside(self, values: Values, numbers: NDArray[Any]) -> Flags | None:
        """Which values are not declared and are taken for others, None if none is; missing ones do not matter."""
        return None

    def decode(self, coordinates: Points) -> tuple[NDArray[Any], Flags | None]:
        """The values at coordinates, and which of them are missing (None if none can be): `encode` backwards."""
        numbers, gone = self.axis.value(np.asarray(coordinates, dtype=np.float64))
        return self.label(self.raw(numbers)), gone

    def read_values(self, items: Sequence[Any]) -> tuple[NDArray[Any], Flags | None]:
        """Values of any types as numbers for `_fit`, and which of them are missing; an error has the row."""
        numbers, gone = [], np.zeros(len(items), dtype=np.bool_)
        for row, item in enumerate(items):
            try:
                if isinstance(item, str):
                    number = self.read_text(item)
                elif type(item) is int or (type(item) is float and item == item):
                    number = self._parse(item)
                else:
                    number = None if is_missing(item) else self._parse(item)
            except failures() as error:  # of a library, or of the value itself
                raise refusal(error).at(row=row) from None
            if number is None:
                gone[row] = True
            numbers.append(0 if number is None else number)
        return np.array(numbers, dtype=self.numbers), gone if gone.any() else None

    def wrong(self, what: object) -> TableError:
        """The error for a value of another kind; of an array its type is enough."""
        sender = f"give {self.wants}"
        return TableError(
            f"{describe(what)}, not {self.wants}", f"{sender}, or declare another kind of column", sender=sender
        )

    def to_dict(self) -> dict[str, Any]:
        """What is declared, as plain values: a table of a schema file."""
        named = {item.name: plain(getattr(self, item.name)) for item in self._declared()}
        return {"kind": self.kind} | {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Self:
        """A column as `to_dict` describes it, without its kind."""
        cls._known(declared)
        return cls(**declared)

    @classmethod
    def _known(cls, declared: Mapping[str, Any]) -> None:
        names = [item.name for item in _ordered(cls)]
        unknown = [name for name in declared if name not in names]
        if unknown:
            raise SchemaError(
                f"unknown key {listed(unknown)} in a column of kind {quoted(cls.kind)}",
                f"known keys are kind, {', '.join(names)}",
            )

    def set(self, **values: object) -> None:
        """Put arguments in their one form while the column is being made; nothing changes later."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _declared(self) -> list[Field[Any]]:
        return [item for item in _ordered(type(self)) if getattr(self, item.name) != item.default]

    def __repr__(self) -> str:
        arguments = [f"{item.name}={plain(getattr(self, item.name))!r}" for item in self._declared()]
        return f"{type(self).__name__}({', '.join(arguments)})"


def _ordered(kind: type[Column]) -> list[Field[Any]]:
    return sorted(fields(kind), key=lambda item: item.kw_only is True)
