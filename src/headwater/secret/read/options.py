"""How files are to be read."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.public.schema import check_delimiter, check_input_format, encoding_of
from headwater.public.tally import check_policy


@dataclass(frozen=True)
class Options:
    """How files are to be read."""

    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    multiline: bool = False
    ignore_extra: bool = False
    batch_rows: int = 65536
    block_bytes: int = 1 << 22
    line_bytes: int = 1 << 26
    follow: bool = False
    poll_seconds: float = 1.0
    stdin_continues: bool = False
    bad_rows: str = "stop"

    def __post_init__(self) -> None:
        check_policy(self.bad_rows)
        if self.format is not None:
            check_input_format(self.format)
        if self.delimiter is not None:
            check_delimiter(self.delimiter)
        encoding_of(self.encoding)
        for name in ("batch_rows", "block_bytes", "line_bytes", "poll_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
