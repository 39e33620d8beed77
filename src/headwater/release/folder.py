"""Releases as folders that anyone may see: a table, and a card that says what it is.

A release is written under a hidden name, brought to the disk and renamed: a reader sees all of it or nothing. A folder
that is there is never written again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater import version
from headwater.files import FileRefusedError, sync_folder
from headwater.mechanisms import registry
from headwater.release.release import Release
from headwater.release.write_table import check_format, write_table
from headwater.table.errors import is_unicode

_CARD = 1  # the version of cards
_NEEDED = {"headwater", "time", "t", "span", "rows", "epsilon", "mechanism", "expected_error"}
_NEEDED |= {"schema", "data", "sha256"}
_HIDDEN = ".release-"
NOTE = (
    "Synthetic data. All releases of this run together are ε-differentially private for replacing one record; "
    "ε does not grow with the number of releases."
)


def name_of(release: Release) -> str:
    """The name of a release's folder: by time, and so that names sort like times.

    A window says where it begins.
    """
    return f"release-{release.t:012d}" + (f"-since-{release.start:012d}" if release.start else "")


def publish(release: Release, out: str | os.PathLike[str], *, run: str = "", format: str = "parquet") -> Path:  # noqa: A002
    """Write a release into its folder in ``out``, and say where. If it is there already, it stays as it is.

    ``run`` is the public name of the run, the same on all its cards.
    """
    check_format(format)
    out = Path(out)
    place = out / name_of(release)
    out.mkdir(parents=True, exist_ok=True)
    hidden = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=out))
    try:
        data = hidden / f"data.{format}"
        write_table(release.tables("arrow"), data, format)
        if place.exists():
            _refuse_other_content(place, data)
            return place
        text = json.dumps(card_of(release, data, run), indent=2, ensure_ascii=False) + "\n"
        (hidden / "card.json").write_text(text, encoding="utf-8")
        for path in hidden.iterdir():
            path.chmod(0o644)
            _sync_file(path)
        hidden.chmod(0o755)
        sync_folder(hidden)
        os.rename(hidden, place)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    sync_folder(out)
    return place


def _refuse_other_content(place: Path, data: Path) -> None:
    """A release that was published stays. If this run would now say something else, it is not the run that made it.

    That is so when an old state was put back and went on with other records: the same noise on different data.
    """
    there = place / data.name
    if there.exists() and _digest(there) != _digest(data) and not _same_table(there, data):
        raise FileRefusedError(
            f"{place}: this release was published before with other content, so this run has counted other records "
            "than the one that published it. Do not go on with it: start a new run, in a new folder, with a new state"
        )


def _same_table(one: Path, other: Path) -> bool:
    """Another version of a library may write the same table in other bytes."""
    from pyarrow import parquet

    return one.suffix == ".parquet" and bool(parquet.read_table(one).equals(parquet.read_table(other)))


def sweep(out: str | os.PathLike[str]) -> None:
    """Remove what a killed run left half-written. Only the owner of the run may do this."""
    for path in Path(out).glob(f"{_HIDDEN}*"):
        shutil.rmtree(path, ignore_errors=True)


def card_of(release: Release, data: Path, run: str = "") -> dict[str, Any]:
    """What anyone may know of a release."""
    return {
        "headwater": version.__version__,
        "card": _CARD,
        "run": run,
        "time": _now().isoformat(),
        "t": release.t,
        "span": list(release.span),
        "rows": release.t - release.start,
        **release.guarantee.to_dict(),
        "mechanism": release.mechanism,
        "mechanism_reason": registry.reason(release.mechanism, release.schema),
        "expected_error": release.expected_error().to_dict(),
        "schema": release.schema.to_dict(),
        "data": data.name,
        "sha256": _digest(data),
        "note": NOTE,
    }


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of a release's folder, or an error that names the file."""
    path = Path(folder) / "card.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileRefusedError(f"{path}: there is no card here, so this is not a release") from None
    except (ValueError, RecursionError):  # of JSON, of UTF-8, or of a number with thousands of digits
        raise FileRefusedError(f"{path}: the card cannot be read; Headwater did not write this file") from None
    if not isinstance(card, Mapping) or not isinstance(card.get("card"), int):
        raise FileRefusedError(f"{path}: this is not a card of a release")
    if card["card"] > _CARD:
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


def refuse_others(out: str | os.PathLike[str], run: str) -> None:
    """One folder, one run: what several runs publish costs the sum of their ε, which no card would say."""
    for folder in folders(out):
        if read_card(folder).get("run", run) != run:
            raise FileRefusedError(
                f"{folder}: this release is of another run; give each run a folder of its own "
                "(--out), or go on with the state that this one was made with (--state)"
            )


def folders(out: str | os.PathLike[str]) -> list[Path]:
    """The releases in a folder, oldest first. Half-written ones are not among them."""
    return sorted(path for path in Path(out).glob("release-*") if path.is_dir())


def _now() -> datetime:
    """The time, or the one that the environment fixes to make runs repeatable."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(fixed), UTC) if fixed else datetime.now(UTC).replace(microsecond=0)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
