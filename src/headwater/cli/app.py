"""The commands, put together."""

from __future__ import annotations

from headwater.cli.commands import COMMANDS, build

app = build(COMMANDS)
