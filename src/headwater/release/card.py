"""The card of a release: what anyone may know of it, checked when it is read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headwater.files import FileRefusedError
from headwater.table.errors import is_unicode

VERSION = 1
"""Of cards."""

_NEEDED = {"headwater", "time", "t", "span", "rows", "epsilon", "mechanism", "expected_error"}
_NEEDED |= {"schema", "data", "sha256"}


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of a release's folder, or an error that names the file.

    Parameters
    ----------
    folder
        The folder of one release.
    """
    path = Path(folder) / "card.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        inside = sorted(one.parent.name for one in Path(folder).glob("release-*/card.json"))
        hint = f"; this is a folder of releases, of which {inside[-1]} is the last: name one of them" if inside else ""
        raise FileRefusedError(f"{path}: there is no card here, so this is not a release{hint}") from None
    except (ValueError, RecursionError):  # of JSON, of UTF-8, or of a number with thousands of digits
        raise FileRefusedError(f"{path}: the card cannot be read; Headwater did not write this file") from None
    if not isinstance(card, Mapping) or not isinstance(card.get("card"), int):
        raise FileRefusedError(f"{path}: this is not a card of a release")
    if card["card"] > VERSION:
        raise FileRefusedError(f"{path}: this card was written by a newer version of Headwater; upgrade to read it")
    if lacking := _NEEDED - card.keys():
        raise FileRefusedError(f"{path}: the card lacks {', '.join(sorted(lacking))}; it was altered")
    for key, fits in _ENTRIES.items():
        if key not in card or not fits(card[key]):
            raise FileRefusedError(f"{path}: the card is damaged: {key!r} is not what it should be")
    return dict(card)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000  # others are no floats


def _span(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_count, value)) and value[0] <= value[1]


def _error(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(_number(value.get(key)) for key in ("typical", "upper")))


def _file(value: object) -> bool:
    """The name of a file in the card's own folder: a card cannot point out of it."""
    return isinstance(value, str) and Path(value).name == value and is_unicode(value) and "\0" not in value


_ENTRIES: dict[str, Callable[[Any], bool]] = {
    "headwater": _text,
    "time": _text,
    "t": _count,
    "span": _span,
    "rows": _count,
    "epsilon": _number,
    "neighbours": _text,
    "mechanism": _text,
    "expected_error": _error,
    "schema": lambda value: isinstance(value, dict),
    "data": _file,
    "sha256": _text,
}
