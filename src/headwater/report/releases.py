"""Releases read back from their folders: cards checked, data turned into points of the cube."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwater.public.files import FileRefusedError
from headwater.public.folder import folders, has_table, read_card
from headwater.public.schema import CHANGING

MOST = 60
"""Releases on one page."""

MOST_RECORDS = 2**63
"""Of a stream; more than that cannot be drawn."""

_ONE_RUN = ("schema", "epsilon", "delta", "mechanism", "neighbours")


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


def find(place: str | os.PathLike[str]) -> list[Published]:
    """All releases of a folder that still have a table, by time. They must be of one run."""
    place = Path(place)
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: there is no such folder of releases")
    if (place / "card.json").exists():
        raise FileRefusedError(
            f"{place}: this is one release; give the folder that it is in: {place.absolute().parent}"
        )
    found = [Published(folder, read_card(folder)) for folder in folders(place) if has_table(folder)]
    if not found:
        raise FileRefusedError(f"{place}: there are no releases in this folder: nothing in it is called release-…")
    found.sort(key=lambda release: (release.card["t"], release.span))
    if found[-1].card["t"] > MOST_RECORDS:
        raise FileRefusedError(f"{found[-1].folder / 'card.json'}: no stream has so many records")
    for release in found[1:]:
        for key in _ONE_RUN:
            if _of_run(release.card, key) != _of_run(found[0].card, key):
                raise FileRefusedError(
                    f"{release.folder / 'card.json'}: its {key} differs from that of "
                    f"{found[0].folder / 'card.json'}: keep the releases of different runs in different folders"
                )
    return found


def _of_run(card: dict[str, Any], key: str) -> Any:  # noqa: ANN401 - any entry of a card
    """What a card says that no release of a run changes: how files are read may change during a run."""
    value = card.get(key)
    return {name: one for name, one in value.items() if name not in CHANGING} if key == "schema" and value else value


def thin(releases: Sequence[Published]) -> list[Published]:
    """At most `MOST` releases, evenly spread, the first and the last among them."""
    if len(releases) <= MOST:
        return list(releases)
    return [releases[i] for i in np.unique(np.linspace(0, len(releases) - 1, MOST).round().astype(int))]
