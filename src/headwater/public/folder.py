"""Releases as folders that anyone may see: a table, and a card that says what it is.

A release is written under a hidden name, brought to the disk and renamed: a reader sees all of it or nothing. A folder
that is there is never written again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from headwater.public import protocol as registry
from headwater.public import version
from headwater.public.budget import Guarantee
from headwater.public.card import RELEASE_FORMATS, VERSION, check_format, has_table, read_card, read_table, write_table
from headwater.public.cube import UnitCube
from headwater.public.files import FileRefusedError, sync
from headwater.public.release import Release
from headwater.public.tables import pyarrow

__all__ = ["card_of", "folders", "has_table", "name_of", "prune", "publish", "read_card", "refuse_others", "sweep"]

_HIDDEN = ".release-"
SAMPLED = "The table is a random sample of the release's rows; the expected error is that of the whole release."


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
        if place.exists():
            _refuse_other_content(there, data, release)
            return place
        data.chmod(0o644)
        with ThreadPoolExecutor(1, "headwater-sync") as thread:
            synced = thread.submit(sync, data)  # while its digest is computed, which takes as long
            text = json.dumps(card_of(release, data, run, rows), indent=2, ensure_ascii=False) + "\n"
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


def card_of(release: Release, data: Path, run: str = "", rows: int | None = None) -> dict[str, Any]:
    facts = facts_of(release, run, rows)
    note = facts.pop("note")
    return {**facts, "data": data.name, "sha256": _digest(data), "note": note}


def facts_of(release: Release, run: str = "", rows: int | None = None) -> dict[str, Any]:
    """What anyone may know of a release, wherever its table is; the table has ``rows`` rows if it is a sample."""
    return {
        "headwater": version.__version__,
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
        f"{guarantee.neighbours.removeprefix('replace ')}; {grows} with the number of releases."
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
