"""Releases read back from their folders: cards checked, data turned into points of the cube."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwater.evaluate.axes import Floats, SchemaLike
from headwater.files import FileRefusedError
from headwater.release.folder import folders, read_card
from headwater.table.arrow import pyarrow

MOST = 60
"""Releases on one page."""

MOST_RECORDS = 2**63
"""Of a stream; more than that cannot be drawn."""

_ONE_RUN = ("schema", "epsilon", "mechanism", "neighbours")


@dataclass(frozen=True)
class Published:
    """One release as it lies in its folder."""

    folder: Path
    card: dict[str, Any]

    @property
    def span(self) -> tuple[int, int]:
        """Which records it is about: after the first number, up to the second."""
        start, end = self.card["span"]
        return start, end

    def points(self, schema: SchemaLike) -> Floats:
        """Its rows in the unit cube. The file must be the one that the card describes."""
        path = self.folder / self.card["data"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FileRefusedError(f"{path}: the data of this release cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != self.card["sha256"]:
            raise FileRefusedError(
                f"{path}: the checksum on the card does not match: the file was cut short or altered"
            )
        table = _table(path, data)
        try:
            points = schema.encode(table)
        except (ValueError, TypeError) as error:
            raise FileRefusedError(f"{path}: the data do not fit the schema on the card: {error}") from error
        if len(points) != self.card["rows"]:
            raise FileRefusedError(f"{path}: {len(points):,} rows, but the card says {self.card['rows']:,}")
        return points


def find(place: str | os.PathLike[str]) -> list[Published]:
    """All releases of a folder, by time. They must be of one run. Half-written ones are left out."""
    place = Path(place)
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: there is no such folder of releases")
    found = [Published(folder, read_card(folder)) for folder in folders(place)]
    if not found:
        raise FileRefusedError(f"{place}: there are no releases in this folder: nothing in it is called release-…")
    found.sort(key=lambda release: (release.card["t"], release.span))
    if found[-1].card["t"] > MOST_RECORDS:
        raise FileRefusedError(f"{found[-1].folder / 'card.json'}: no stream has so many records")
    for release in found[1:]:
        for key in _ONE_RUN:
            if release.card[key] != found[0].card[key]:
                raise FileRefusedError(
                    f"{release.folder / 'card.json'}: its {key} differs from that of "
                    f"{found[0].folder / 'card.json'}: keep the releases of different runs in different folders"
                )
    return found


def thin(releases: Sequence[Published], most: int = MOST) -> list[Published]:
    """At most so many releases, evenly spread, the first and the last among them."""
    if len(releases) <= most:
        return list(releases)
    return [releases[i] for i in np.unique(np.linspace(0, len(releases) - 1, most).round().astype(int))]


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
