"""What a schema file may say about files of records: how text is encoded and divided, and what is left out."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from headwater.public.errors import SchemaError, is_unicode

FORMATS = ("csv", "jsonl", "json", "parquet", "arrow")
FILE_KEYS = {
    "input_format": "format",
    "delimiter": "delimiter",
    "encoding": "encoding",
    "multiline": "multiline",
    "ignore_extra": "ignore_extra",
}
"""Keys at the top of a schema file, and the fields of `headwater.secret.read.Options` that they are."""

CHANGING = ("bad_rows", *FILE_KEYS)
"""Keys of a schema that may change during a run: how files are read, and what happens to bad rows."""

_WIDE = ("utf-16", "utf-16-le", "utf-16-be")
_ESCAPES = ("unicode-escape", "raw-unicode-escape")  # several bytes may be one character, a line end among them
_BYTES = bytes(range(256)) + b"+AGE-\x1b$B~{"  # all of them, and what other encodings take for one character


def check_input_format(name: object) -> None:
    """Refuse what is none of `FORMATS`."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}")


def check_delimiter(mark: object) -> None:
    """Refuse what cannot stand between the fields of CSV."""
    if not isinstance(mark, str) or len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0':
        raise ValueError("delimiter must be one plain character, and neither a quote nor a line end")


def check_marks(decimal: object, thousands: object) -> None:
    """Refuse what numbers cannot be written with: None says nothing."""
    if decimal not in (None, ".", ","):
        raise ValueError('decimal must be "." or ","')
    if thousands is not None:
        odd = not isinstance(thousands, str) or len(thousands) != 1 or thousands.isalnum() or thousands in "+-\n\r"
        odd = odd or not is_unicode(str(thousands))
        if odd or thousands == decimal:
            raise ValueError("thousands must be one sign, another than decimal")


def encoding_of(name: object) -> str | None:
    """The name of an encoding as Python has it; None for UTF-8.

    >>> encoding_of("Latin-1"), encoding_of("utf8"), encoding_of("UTF-16")
    ('iso8859-1', None, 'utf-16')
    """
    if name is None:
        return None
    found = None
    if isinstance(name, str):
        try:
            found = codecs.lookup(name).name
            if found in ("utf-8", "utf-8-sig", "ascii"):
                return None
            one_each = found not in _ESCAPES and len(_BYTES.decode(found, "replace")) == len(_BYTES)
            if found in _WIDE or one_each:
                return found
        except (LookupError, UnicodeError, ValueError):
            pass
    raise ValueError("encoding must be utf-8, utf-16 or one with one byte a character, such as latin-1 or cp1252")


def declared_options(declared: Mapping[str, Any]) -> dict[str, Any]:
    """What is declared about files, of the keys in `FILE_KEYS`; what makes no sense is refused."""
    found = {key: declared[key] for key in FILE_KEYS if declared.get(key) is not None}
    checks = {"input_format": check_input_format, "delimiter": check_delimiter, "encoding": encoding_of}
    for key, value in found.items():
        try:
            if key in checks:
                checks[key](value)
            elif not isinstance(value, bool):
                raise ValueError(f"{key} must be true or false")
        except ValueError as error:
            raise SchemaError(str(error), f"write another {key}, or leave it out") from None
    return found


def read_as(schema: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `headwater.secret.read.Options`: what is given, else what the schema declares about files."""
    declared = getattr(schema, "reading", {})
    found = {FILE_KEYS[key]: value for key, value in declared.items()}
    return found | {key: value for key, value in given.items() if key not in found or value not in (None, False)}
