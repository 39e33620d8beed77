"""What may be raised over one value of a record."""

from __future__ import annotations

import sys


def failures() -> tuple[type[BaseException], ...]:
    """What a library or an object in a record may raise: a panic of Polars is no `Exception`.

    >>> issubclass(ValueError, failures()), issubclass(KeyboardInterrupt, failures())
    (True, False)
    """
    panic = getattr(getattr(sys.modules.get("polars"), "exceptions", None), "PanicException", None)
    return (Exception,) if panic is None else (Exception, panic)
