"""Where a run publishes: a sink takes a release and makes it visible, whole or not at all."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headwater.public.files import FileRefusedError
from headwater.public.folder import check_format, folders, name_of, prune, publish, read_card, refuse_others, sweep
from headwater.public.release import Release

_NAME = re.compile(r"release-(\d+)")


@dataclass(frozen=True)
class Published:
    """A release that can be seen now. Public.

    Parameters
    ----------
    t
        The number of records at its time.
    place
        Where it is.
    sha256
        The digest of its data.
    release
        The release itself.
    """

    t: int
    place: str
    sha256: str
    release: Release

    def __str__(self) -> str:
        first, end = self.release.span
        return f"{self.place}: records {first + 1:,} to {end:,}, {self.release.expected_error()}"


class Sink(Protocol):
    """Takes releases. Every method may be called again after a kill, with the same arguments."""

    @property
    def location(self) -> str:
        """Where releases go, as the state remembers it: an absolute path or an address."""

    def begin(self, run_id: str) -> None:
        """Refuse a location that holds releases of another run, and remove what a killed run left half-written.

        Parameters
        ----------
        run_id
            The public name of the run.
        """

    def publish(self, release: Release, run_id: str) -> Published:
        """Make a release visible. One that is there already stays as it is, and other content for it is refused.

        Parameters
        ----------
        release
            What to publish.
        run_id
            The public name of the run.
        """

    def there(self, release: Release, run_id: str) -> Published | None:
        """What was published before of the same measurements, perhaps with other rounding; None if nothing was."""

    def newest(self, run_id: str) -> int:
        """The largest ``t`` of this run's releases here; 0 if there is none.

        Parameters
        ----------
        run_id
            The public name of the run.
        """


class FolderSink:
    """Releases as folders with a table and a card (`headwater.public.folder`).

    Parameters
    ----------
    out
        The folder that holds them.
    format
        Of the tables: ``"parquet"`` or ``"csv"``.
    rows
        A release of more rows is published as a sample of so many. All rows unless given.
    keep
        How many releases keep their table: those of older ones are removed, their cards stay. All unless given.
    """

    def __init__(
        self,
        out: Path,
        format: str = "parquet",  # noqa: A002 - as in `publish`
        *,
        rows: int | None = None,
        keep: int | None = None,
    ) -> None:
        check_format(format)
        for name, value in (("rows", rows), ("keep", keep)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self.out, self.format, self.rows, self.keep = out, format, rows, keep

    @property
    def location(self) -> str:
        return str(self.out.resolve())

    def begin(self, run_id: str) -> None:
        refuse_others(self.out, run_id)
        sweep(self.out)

    def publish(self, release: Release, run_id: str) -> Published:
        """Write the folder of a release, if it is not there; then remove tables that are too old to be kept."""
        place = publish(release, self.out, run=run_id, format=self.format, rows=self.rows)
        if self.keep is not None:
            prune(self.out, self.keep)
        return Published(release.t, str(place), read_card(place)["sha256"], release)

    def there(self, release: Release, run_id: str) -> Published | None:
        place = self.out / name_of(release)
        with suppress(FileRefusedError, OSError):
            card = read_card(place)
            if card.get("run") == run_id:
                return Published(release.t, str(place), card["sha256"], release)
        return None

    def newest(self, run_id: str) -> int:
        return newest(self.location, run_id)


def newest(location: str, run_id: str) -> int:
    found = [(int(match[1]), folder) for folder in folders(location) if (match := _NAME.match(folder.name))]
    for t, folder in sorted(found, reverse=True):
        with suppress(FileRefusedError, OSError):  # no release of ours
            if read_card(folder).get("run") == run_id:
                return t
    return 0
