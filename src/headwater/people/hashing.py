"""Who a record belongs to, as a keyed hash: the only trace of a person that a run keeps.

Formal guarantees
-----------------
The hash of a record is a function of that record and of a secret key, which owes nothing to the data. Two people have
the same 128 bits with probability ``2^−128``; `proofs/people.md` says what that would cost.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.table.errors import TableError
from headwater.table.failures import failures
from headwater.table.narrowing import refusal
from headwater.table.series import Values, read_values
from headwater.table.values import describe, is_missing

Hashes = NDArray[np.uint64]
"""An array of shape ``(n, 2)``: 128 bits for each record."""

HASH_BYTES = 16
_TOP = np.uint64(2**64 - 1)
NOBODY = np.array([_TOP, _TOP])
"""The hash of a record that names nobody and is nowhere."""
SOMEBODY = np.array([_TOP, _TOP - np.uint64(1)])
"""The hash of a record whose person has no other."""
NAMES_VERSION = 5
"""Which names are one person: a run goes on only with the rule that it began with, or caps would be forgotten."""
_WHOLE_TEXT = re.compile(r"(-?[0-9]+)\.0*")
_SCIENTIFIC = re.compile(r"-?[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,3}")
_LONG = 10**500  # Python writes no integer of more than some thousand digits
_EXACT = 2.0**53  # from it on neighbouring whole numbers are one float

_WHOLE = TableError(
    "a number that is not whole, where a person is named", "name people by text or by whole numbers, as they are"
)


def hash_people(people: object, key: bytes) -> Hashes:
    """The hashes of the people that a column names: pure, so any process with the key gets the same. As secret as data.

    Parameters
    ----------
    people
        A column of any library: text, whole numbers or UUIDs. Nobody (None, NaN, blank text) gets `NOBODY`.
    key
        The run's own key for people, 32 bytes.

    Raises
    ------
    TableError
        It names the first row that is wrong, not the value.

    Examples
    --------
    >>> a, b, again = hash_people(["ann", "bob", "ann"], bytes(32)).tolist()
    >>> a == again, a == b
    (True, False)
    """
    hashes, wrong = hash_each(read_values(people), key)
    for row in sorted(wrong)[:1]:
        raise wrong[row].at(row=row)
    return hashes


def hash_each(values: Values, key: bytes) -> tuple[Hashes, dict[int, TableError]]:
    """The keyed hash of each row's `identity`, and the errors of rows that name no person that can be read.

    Such rows, and rows that name nobody, get `NOBODY`.
    """
    if isinstance(values.data, np.ndarray) and values.codes is None:
        values = Values(list(values.data)) if values.data.dtype.kind in "Mm" else values.distinct()
    items = list(values.data)
    start, digests, wrong = hashlib.blake2b(digest_size=HASH_BYTES, key=key), bytearray(), dict[int, TableError]()
    nobody = NOBODY.tobytes()
    for index, item in enumerate(items):
        try:
            name = identity(item)
        except failures() as error:  # ours, or of the value itself
            name, wrong[index] = None, refusal(error)
        if name is None:
            digests += nobody
            continue
        one = start.copy()
        one.update(name)
        digests += one.digest()
    hashes = np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64).reshape(-1, 2)
    if values.codes is None:
        return hashes, wrong
    rows = np.flatnonzero(np.isin(values.codes, list(wrong))) if wrong else np.empty(0, dtype=np.int64)
    return hashes[values.codes], {int(row): wrong[int(values.codes[row])] for row in rows}


def identity(item: Any) -> bytes | None:  # noqa: ANN401 - a value of any type
    """What names a person, as bytes: the number 7 and the texts "7" and "7.0" are one, the texts "7" and "007" are two.

    Libraries write whole numbers as 7.0 or 7E0 where others of the column are missing: two names would be two caps. For
    the same reason bytes are the text that they spell.
    """
    if isinstance(item, bytes | bytearray):
        try:
            item = item.decode()
        except UnicodeDecodeError:
            return b"\0bytes " + bytes(item)
    if isinstance(item, str):
        return _plainly(item).encode("utf-8", "surrogatepass") if item.strip() else None
    if is_missing(item):
        return None
    if isinstance(item, int | np.integer) and not isinstance(item, bool | np.timedelta64):
        return b"%d" % int(item) if abs(int(item)) < _LONG else f"{Decimal(int(item)):f}".encode()
    if isinstance(item, float | np.floating | Decimal):
        if abs(float(item)) >= _EXACT or item != item // 1:
            raise _WHOLE.at()  # a copy: what is raised keeps the frames that it went through
        return b"%d" % int(item)
    if isinstance(item, uuid.UUID):
        return str(item).encode()
    raise TableError(f"{describe(item)}, where a person is named", "name people by text or by whole numbers")


def _plainly(text: str) -> str:
    """Text of a whole number with a point or an exponent as whole numbers are written; all other text as it is."""
    if "." in text and (found := _WHOLE_TEXT.fullmatch(text)):
        text = found[1]
    elif ("e" in text or "E" in text) and _SCIENTIFIC.fullmatch(text):
        number = Decimal(text)
        whole = number.to_integral_value()
        text = f"{whole:f}" if number == whole else text  # of an integer Python writes some thousand digits only
    return "0" if text == "-0" else text
