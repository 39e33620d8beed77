"""Column names that are not there: which of the file's names come closest, and what to do.

A file without a header has data in its first line. So what stands there is shown only if it is the name of a column but
for the case of letters and for signs, or if half of the columns were found.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import suppress

from headwater.public.errors import GIVE_PERSON, PERSON_MISSING, TableError, listed
from headwater.public.near_names import closest, plain_name

DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


def absent(
    missing: Sequence[str],
    names: Sequence[str],
    header: Sequence[str],
    delimiter: str | None,
    person: str | None = None,
) -> TableError:
    """The error for columns that a file does not have.

    Parameters
    ----------
    missing
        Names that were not found.
    names
        All names that are read.
    header
        What the file has in their place.
    delimiter
        Of a CSV file.
    person
        The one of the names that names the person, if there is one.

    Examples
    --------
    >>> print(absent(["age"], ["age", "city"], ["Age ", "city"], ","))
    missing column "age" (the file has "Age "); write the name as the file has it, or rename the column in the file
    """
    problem = f"missing column {listed(missing)}"
    other = _delimiter(names, header, delimiter)
    if other is not None:
        wrote = "\\t" if other == "\t" else other
        remedy = (
            f"its fields are divided by {DELIMITERS[other]}: give that as the delimiter (--delimiter '{wrote}'), "
            f'or declare it in the schema file (delimiter = "{wrote}")'
        )
        return TableError(problem, remedy, sender=_divide_by(delimiter))
    close = closest(missing, names, header)
    if close:
        remedy = "write the name as the file has it, or rename the column in the file"
        sender = "write the name as the schema has it"
        return TableError(problem, remedy, sender=sender, shown=f" (the file has {listed(close)})")
    if missing == [person]:
        return TableError(f"{problem}, which names the person", PERSON_MISSING, sender=GIVE_PERSON)
    if 2 * (len(names) - len(missing)) >= len(names):
        here = [name for name in header if name not in names]
        also = f" (the file has also {listed(here)})" if here else ""
        remedy = "add the column to the file, or take it out of the schema"
        return TableError(problem, remedy, sender="add the column", shown=also)
    return TableError(
        problem, "add it to the file; the first line must hold the column names, as the schema writes them"
    )


def divided_otherwise(header: str, delimiter: str) -> TableError | None:
    """The error for a line of quoted names that another delimiter divides, None if there is none such.

    Parameters
    ----------
    header
        The first line of a CSV file, in which quotes are not where they should be.
    delimiter
        By which it was to be divided.

    Examples
    --------
    >>> print(divided_otherwise('"age";"city"', ","))
    fields that are divided by a semicolon; give that as the delimiter (--delimiter ';')
    """
    for other, name in DELIMITERS.items():
        if other != delimiter and other in header:
            with suppress(csv.Error):
                next(csv.reader([header], delimiter=other, strict=True))
                wrote = "\\t" if other == "\t" else other
                return TableError(
                    f"fields that are divided by {name}",
                    f"give that as the delimiter (--delimiter '{wrote}')",
                    sender=_divide_by(delimiter),
                )
    return None


def _divide_by(delimiter: str | None) -> str:
    """What the sender of fields that are divided otherwise can do."""
    return f"divide fields by {DELIMITERS.get(delimiter or ',', delimiter)}"


def twice(header: Sequence[str]) -> TableError:
    """The error for a header that has a name twice; every name was found, so it is one."""
    repeated = {name for name in header if header.count(name) > 1}
    if not any(name.strip() for name in repeated):
        problem = "columns without a name, as a delimiter at the end of every line makes one"
        remedy = "leave them out: ignore_extra = true at the top of the schema file, or --ignore-extra"
        return TableError(problem, remedy, sender="leave them out")
    which = sorted(repeated, key=list(header).index)
    return TableError("two columns have the same name", "rename one of them", shown=f" ({listed(which)})")


def _delimiter(names: Sequence[str], header: Sequence[str], delimiter: str | None) -> str | None:
    """Another delimiter that would find more than half of the names, but for the case of letters and for signs."""
    if delimiter is None:
        return None
    line, wanted = delimiter.join(header), {plain_name(name) for name in names} - {""}
    found = {other: len(wanted & set(map(plain_name, line.split(other)))) for other in DELIMITERS if other != delimiter}
    best = max(found, key=lambda other: found[other])
    here = len(wanted & set(map(plain_name, header)))
    return best if found[best] > here and 2 * found[best] >= len(names) else None
