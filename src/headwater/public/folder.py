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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater import __version__
from headwater.public import measurements
from headwater.public import protocol as registry
from headwater.public.budget import Guarantee
from headwater.public.build import in_text
from headwater.public.cube import UnitCube
from headwater.public.errors import is_unicode
from headwater.public.files import FileRefusedError, sync
from headwater.public.partition import Points
from headwater.public.protocol import AnySchema, Measured
from headwater.public.tables import pyarrow

if TYPE_CHECKING:
    from headwater.public.release import Release

_HIDDEN = ".release-"
SAMPLED = "The table is a random sample of the release's rows; the expected error is that of the whole release."
MEASURED = "The noisy counts that it was made from are beside it: they are as public as the table is."


def name_of(release: Release) -> str:
    return f"release-{release.t:012d}" + (f"-since-{release.start:012d}" if release.start else "")


def publish(
    release: Release,
    out: str | os.PathLike[str],
    *,
    run: str = "",
    format: str = "parquet",  # noqa: A002 - as everybody calls it
    rows: int | None = None,
) -> Path:
    """Write a release into its folder in ``out``, and say where. If it is there already, it stays as it is.

    Parameters
    ----------
    release
        What is published.
    out
        The folder that releases are in.
    run
        The public name of the run, the same on all its cards.
    format
        ``"parquet"`` or ``"csv"``.
    rows
        If the release has more rows than this, the table is ``release.sample(rows)``, and the card says so.
    """
    check_format(format)
    out = Path(out)
    place = out / name_of(release)
    out.mkdir(parents=True, exist_ok=True)
    hidden = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=out))
    try:
        data = hidden / f"data.{format}"
        there = place / data.name
        if there.exists():
            rows = _rows_of(there, rows)  # it may have been published under another limit
        rows = None if rows is None or rows >= len(release) else rows
        write_table(release.tables("arrow", n=rows), data, format, release.schema)
        measured = hidden / measurements.NAME if measurements.can_tell(release) else None
        if place.exists():
            _refuse_other_content(there, data, release)
            return place
        data.chmod(0o644)
        if measured is not None:
            measurements.write(release, measured)
            measured.chmod(0o644)
            sync(measured)
        with ThreadPoolExecutor(1, "headwater-sync") as thread:
            synced = thread.submit(sync, data)  # while its digest is computed, which takes as long
            text = json.dumps(card_of(release, data, run, rows, measured), indent=2, ensure_ascii=False) + "\n"
            card = hidden / "card.json"
            card.write_text(text, encoding="utf-8")
            card.chmod(0o644)
            sync(card)
            synced.result()
        hidden.chmod(0o755)
        sync(hidden)
        os.rename(hidden, place)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    sync(out)
    return place


def _rows_of(there: Path, otherwise: int | None) -> int | None:
    """How many rows a table that was published has; ``otherwise`` if it cannot be read."""
    try:
        if there.suffix == ".parquet":
            return int(pyarrow("parquet").read_metadata(there).num_rows)
        csv = pyarrow("csv")
        parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        return sum(int(batch.num_rows) for batch in csv.open_csv(there, parse_options=parse))
    except pyarrow().ArrowException:
        return otherwise


def _refuse_other_content(there: Path, data: Path, release: Release) -> None:
    if there.exists() and _digest(there) != _digest(data) and not _same_table(there, data, release):
        raise FileRefusedError(
            f"{there.parent}: this release was published before with other content, so this run has counted other "
            "records than the one that published it. Do not go on with it: start a new run, in a new folder, with a "
            "new state"
        )


def _same_table(one: Path, other: Path, release: Release) -> bool:
    """Another version may have written the same records in other bytes, or with more digits."""
    try:
        before, now = (read_table(path, path.read_bytes(), release.schema) for path in (one, other))
    except FileRefusedError:
        return False
    if isinstance(release.schema, UnitCube):
        return bool(np.array_equal(before, now))
    first, second = (release.schema.decode(points, "arrow") for points in (before, now))
    return bool(first.equals(second))


def sweep(out: str | os.PathLike[str]) -> None:
    for path in Path(out).glob(f"{_HIDDEN}*"):
        shutil.rmtree(path, ignore_errors=True)


def prune(out: str | os.PathLike[str], keep: int) -> None:
    for folder in folders(out)[:-keep]:
        if folder.is_symlink():  # what it leads to was not published here
            continue
        for format_ in RELEASE_FORMATS:
            (folder / f"data.{format_}").unlink(missing_ok=True)
        (folder / measurements.NAME).unlink(missing_ok=True)


def card_of(
    release: Release, data: Path, run: str = "", rows: int | None = None, measured: Path | None = None
) -> dict[str, Any]:
    facts = facts_of(release, run, rows)
    note = facts.pop("note")
    card = {**facts, "data": data.name, "sha256": _digest(data)}
    if measured is None:
        return {**card, "note": note}
    counts = {"measured": measured.name, "measured_sha256": _digest(measured)}
    return {**card, **counts, "note": f"{note} {MEASURED}"}


def facts_of(release: Release, run: str = "", rows: int | None = None) -> dict[str, Any]:
    """What anyone may know of a release, wherever its table is; the table has ``rows`` rows if it is a sample."""
    return {
        "headwater": __version__,
        "card": VERSION,
        "run": run,
        "time": _now().isoformat(),
        "t": release.t,
        "span": list(release.span),
        "rows": len(release) if rows is None else rows,
        "sample_of": None if rows is None else len(release),
        **release.guarantee.to_dict(),
        "guarantee": str(release.guarantee),
        "noise": release.facts.noise,
        "mechanism": release.mechanism,
        "mechanism_reason": registry.reason(release.mechanism, release.schema),
        "expected_error": release.expected_error().to_dict(),
        "schema": release.schema.to_dict(),
        "note": _note(release.guarantee) if rows is None else f"{_note(release.guarantee)} {SAMPLED}",
    }


def _note(guarantee: Guarantee) -> str:
    private, grows = ("(ε, δ)", "ε and δ do not grow") if guarantee.delta else ("ε", "ε does not grow")
    return (
        f"Synthetic data. All releases of this run together are {private}-differentially private for replacing "
        f"{guarantee.neighbours.removeprefix('replace ')}; {grows} with the number of releases.{guarantee.of_nobody}"
    )


def refuse_others(out: str | os.PathLike[str], run: str) -> None:
    for folder in folders(out):
        if read_card(folder).get("run", run) != run:
            raise FileRefusedError(
                f"{folder}: this release is of another run; give each run a folder of its own "
                "(--out), or go on with the state that this one was made with (--state)"
            )


def folders(out: str | os.PathLike[str]) -> list[Path]:
    """The releases in a folder, oldest first. Half-written ones are not among them.

    Parameters
    ----------
    out
        The folder that a run publishes into.
    """
    return sorted(path for path in Path(out).glob("release-*") if path.is_dir())


def _now() -> datetime:
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(fixed), UTC) if fixed else datetime.now(UTC).replace(microsecond=0)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    optional = {key: fits for key, fits in _OPTIONAL.items() if "measured" in card}
    for key, fits in (_ENTRIES | optional).items():
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
_OPTIONAL: dict[str, Callable[[Any], bool]] = {"measured": _file, "measured_sha256": _text}


RELEASE_FORMATS = ("parquet", "csv")
_LOOKED_AT = 1 << 12  # values of each column: their order is random


def check_format(format: str) -> None:  # noqa: A002 - as in `publish`
    if format not in RELEASE_FORMATS:
        raise ValueError(f"format must be one of {', '.join(RELEASE_FORMATS)}, not {format!r}")


def write_table(
    tables: Iterator[Any],
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 - as above
    schema: Any,  # noqa: ANN401 - a Schema or a UnitCube
) -> None:
    """Write Arrow tables of a schema, of which there is at least one, one after the other into one file."""
    check_format(format)
    tables = in_text(tables, schema) if format == "csv" else tables
    first = next(tables)
    if format == "csv":
        writer = pyarrow("csv").CSVWriter(path, first.schema)
    else:
        few = [name for name in first.schema.names if _repeats(first.column(name))]
        writer = pyarrow("parquet").ParquetWriter(path, first.schema, compression="zstd", use_dictionary=few)
    with writer, ThreadPoolExecutor(1, "headwater-write") as thread:
        written = thread.submit(writer.write_table, first)
        for table in tables:  # made while the one before is written
            written.result()
            written = thread.submit(writer.write_table, table)
        written.result()


def _repeats(column: Any) -> bool:  # noqa: ANN401 - a pyarrow.ChunkedArray
    some = column.slice(0, _LOOKED_AT)
    return 2 * len(some.unique()) <= len(some)


def has_table(folder: str | os.PathLike[str]) -> bool:
    return any((Path(folder) / f"data.{format_}").exists() for format_ in RELEASE_FORMATS)


def read_rows(folder: str | os.PathLike[str], card: Mapping[str, Any], schema: Any) -> Points:  # noqa: ANN401
    """The rows of a release in the schema's cube, in the order of the table."""
    path = Path(folder) / card["data"]
    points = read_table(path, _checked(path, card["sha256"]), schema)
    if len(points) != card["rows"]:
        raise FileRefusedError(f"{path}: {len(points):,} rows, but the card says {card['rows']:,}")
    return points


def _checked(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        problem = "the table of this release is gone: older ones are removed (--keep), and only their cards stay"
        raise FileRefusedError(f"{path}: {problem}") from None
    except OSError as error:
        raise FileRefusedError(f"{path}: the data of this release cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise FileRefusedError(f"{path}: the checksum on the card does not match: the file was cut short or altered")
    return data


def read_measured(
    folder: str | os.PathLike[str], card: Mapping[str, Any], schema: AnySchema
) -> tuple[Measured, int] | None:
    """What a release was measured from, and its seed; None if its folder does not say."""
    if "measured" not in card:
        return None
    _checked(Path(folder) / card["data"], card["sha256"])
    path = Path(folder) / measurements.NAME
    data = _checked(path, card["measured_sha256"])
    return measurements.read(path, data, card["mechanism"], schema)


def read_table(path: Path, data: bytes, schema: Any) -> Points:  # noqa: ANN401
    table = _table(path, data)
    try:
        cube = isinstance(schema, UnitCube)
        points: Points = schema.encode(_array(table)) if cube else schema.for_releases().encode(table)
    except (ValueError, TypeError) as error:
        raise FileRefusedError(f"{path}: the data do not fit the schema on the card: {error}") from error
    return points


def _table(path: Path, data: bytes) -> Any:  # noqa: ANN401  # pyarrow ships no types
    arrow = pyarrow()
    try:
        if path.suffix == ".parquet":
            return pyarrow("parquet").read_table(arrow.BufferReader(data))
        if path.suffix == ".csv":
            return _csv(data)
    except arrow.ArrowException as error:
        raise FileRefusedError(f"{path}: the data cannot be read: the file is damaged") from error
    raise FileRefusedError(f"{path}: the data are neither Parquet nor CSV")


def _csv(data: bytes) -> Any:  # noqa: ANN401
    """All columns as text, which the schema can read: types that are guessed could differ between releases."""
    arrow, csv = pyarrow(), pyarrow("csv")
    names = csv.open_csv(arrow.BufferReader(data)).schema.names
    lines = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)  # a blank line is a missing value
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, arrow.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.read_csv(arrow.BufferReader(data), parse_options=lines, convert_options=options)


def _array(table: Any) -> Points:  # noqa: ANN401 - a pyarrow.Table
    columns = [np.array(column.to_pylist(), dtype=np.float64) for column in table.columns]
    return np.stack(columns, axis=1) if columns else np.empty((0, 0))
