"""What a person sees while a run is under way."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType

import typer

from headwater.cli.console import complain, out, say
from headwater.public import protocol as registry
from headwater.public.outlook import outlook
from headwater.public.protocol import POOR
from headwater.public.release import Release
from headwater.public.tally import Tally
from headwater.run import FolderSink, Published, Run


class Display:
    """A line for each release, and on a terminal how far it is. An ``endless`` run is warned about early."""

    def __init__(self, *, endless: bool = False) -> None:
        self._endless = endless
        self._run: Run | None = None
        self._began, self._from, self._t, self._releases = time.monotonic(), 0, 0, 0
        self._tally = Tally()
        self._quarantine: Path | None = None
        self._live = out.status("reading") if out.is_terminal else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def start(self, run: Run) -> None:
        self._run, self._from = run, run.t
        self.update()
        if run.t:
            say(f"going on from record {run.t:,}")
        else:
            say(f"mechanism: {run.synth.mechanism} ({registry.reason(run.synth.mechanism, run.synth.schema)})")

    def update(self) -> None:
        if self._run:
            self._t = self._run.t
            self._tally, self._quarantine = self._run.tally, self._run.quarantine
        if self._live:
            self._live.update(f"{self._t:,} records, {self._rate():,.0f} a second")

    def asks(self, said: str) -> bool:
        if not (out.is_terminal and sys.stdin.isatty()):
            return False
        if self._live:
            self._live.stop()
        complain(said, "yellow", "warning:")
        answer = typer.confirm("Begin all the same?")
        if self._live:
            self._live.start()
        return answer

    def show(self, published: Published) -> None:
        """Show a new release. The first one of a run warns if it says little."""
        self._releases += 1
        say(f"{published.place}  t = {published.t:,}  {published.release.expected_error()}")
        if self._releases == 1 and self._from == 0:
            _warn_of_poor(published.release)
            if self._endless:
                warn_of_loss(self._tally)

    def _rate(self) -> float:
        return (self._t - self._from) / max(time.monotonic() - self._began, 1e-9)

    def summarize(self, out_folder: Path, state: Path | None, *, stopped: bool, left: str = "") -> None:
        done, made = self._t - self._from, self._releases
        speed = f", {self._rate():,.0f} records a second" if done else ""
        say(f"{done:,} new records, {made} new release{'' if made == 1 else 's'} in {out_folder}{speed}")
        say_tally(self._tally, self._quarantine)
        if left:
            say(left)
        if state is None:
            say("nothing was kept: this run cannot be continued, and reading these records again costs ε again")
        else:
            when = "stopped. To go on" if stopped else "when there is more"
            say(f"{when}, give the same command again: {state} holds everything, and is secret")


def _warn_of_poor(release: Release) -> None:
    expected = release.expected_error()
    if not expected.typical >= POOR[expected.measure]:  # nothing is known, or it is good
        return
    likely = outlook(
        release.schema,
        epsilon=release.epsilon,
        records=len(release),
        mechanism=release.mechanism,
        delta=release.guarantee.delta,
        records_per_person=release.guarantee.records,
    )
    later = f"From about {likely.needed:,} records on releases say more" if likely.needed else "Later ones say more"
    text = f"the release of {release.t:,} records says little of the data: {expected}. {later}"
    complain(text, "yellow", "warning:")


def say_tally(tally: Tally, quarantine: Path | None) -> None:
    """Print for the operator what was clipped, unlisted, missing or bad in all of the run so far."""
    if lines := list(tally.lines()):
        say("secret, counted without noise (for you only; it is in no release):", style="bold")
        for line in lines:
            say(f"  {line}")
        if quarantine and quarantine.exists():
            say(f"  bad rows are in {quarantine}, which is as secret as the data")
    warn_of_loss(tally)


def warn_of_loss(tally: Tally) -> None:
    """Warn loudly if much of the data is lost on the way in; also where nothing else says that this is secret."""
    if found := list(tally.warnings()):
        for text in found:
            complain(text, "bold red", "WARNING:")
        complain("shares are counted without noise: they are for you only, and in no release", "bold red")
        complain("a run keeps its schema: another one needs a new run (--out), which costs its ε again", "bold red")


class ShownSink(FolderSink):
    """A folder of releases that shows each when it is published."""

    def __init__(self, display: Display, out: Path, format: str, **limits: int | None) -> None:  # noqa: A002 - as there
        super().__init__(out, format, **limits)
        self._display = display

    def publish(self, release: Release, run_id: str) -> Published:
        published = super().publish(release, run_id)
        self._display.show(published)
        return published
