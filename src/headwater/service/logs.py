"""Structured logs: one JSON object a line, on standard error. No value of any record, and no address as it was sent."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

quiet = False
"""Whether requests that went well are left out."""


def log(event: str, **facts: object) -> None:
    """Write a line. Facts are numbers and names of our own, never text of a request."""
    status = facts.get("status")
    if quiet and event == "request" and isinstance(status, int) and status < 500:
        return
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stderr.write(json.dumps({"time": time, "event": event, **facts}) + "\n")


def place_of(error: BaseException) -> str:
    """Where an error was raised, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


class ServerLog(logging.Handler):
    """Lines of the HTTP server, without exceptions and their texts."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or leave it out."""
        if record.levelno >= logging.WARNING:
            kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            log("server", level=record.levelname.lower(), message=str(record.msg).split("\n")[0][:100], error=kind)
