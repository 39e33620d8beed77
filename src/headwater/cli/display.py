"""What a person sees while a run goes on."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType

from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from headwater.cli.outcome import interactive, out, say
from headwater.pipeline import Progress, Run
from headwater.release.release import Release


class Display:
    """A live panel on a terminal; a line for each release anywhere else."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._began, self._from, self._t = time.monotonic(), 0, 0
        self._releases, self._where = 0, Path()
        self._last: Release | None = None
        self._live = Live(console=out, refresh_per_second=8, get_renderable=self._panel) if interactive() else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def begun(self, run: Run) -> None:
        """The run is ready: say whether it goes on from somewhere."""
        self._run, self._from, self._t = run, run.synth.t, run.synth.t
        if run.synth.t:
            say(f"going on from record {run.synth.t:,}")

    def show(self, progress: Progress) -> None:
        """Something happened."""
        self._t = progress.t
        if progress.release is not None and progress.published is not None:
            self._releases, self._last, self._where = self._releases + 1, progress.release, progress.published
            if not self._live:
                error = progress.release.expected_error()
                say(f"{progress.published}  t = {progress.t:,}  {error}")

    def rate(self) -> float:
        """Records a second since the start."""
        return (self._t - self._from) / max(time.monotonic() - self._began, 1e-9)

    def _panel(self) -> Panel:
        table = Table.grid(padding=(0, 2))
        table.add_row("records in", f"[bold]{self._t:,}[/]   {self.rate():,.0f} a second")
        if self._run:
            synth = self._run.synth
            table.add_row("level", synth.status)
            table.add_row("ε", f"{synth.epsilon:g} in all, for ever: it does not grow with records or releases")
        table.add_row("releases", f"{self._releases}" + (f", the last in {self._where}" if self._releases else ""))
        if self._last:
            table.add_row("expected error", str(self._last.expected_error()))
        return Panel(table, title="headwater run", title_align="left", expand=False)

    def close(self, out_folder: Path, state: Path | None, *, stopped: bool) -> None:
        """The last words: what there is, and how to go on."""
        done, made = self._t - self._from, self._releases
        speed = f", {self.rate():,.0f} records a second" if done else ""
        say(f"{done:,} new records, {made} new release{'' if made == 1 else 's'} in {out_folder}{speed}")
        if state is None:
            say("nothing was kept: this run cannot be continued, and reading these records again costs ε again")
        elif stopped:
            say(f"stopped. To go on, give the same command again: {state} holds everything, and is secret")
        else:
            say(f"when there is more, give the same command again: {state} holds everything, and is secret")
