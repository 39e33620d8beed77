"""Answers that say what is wrong: one JSON object of RFC 9457, never a value out of a record."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from headwater.public.errors import TableError

MEDIA_TYPE = "application/problem+json"


class ProblemError(Exception):
    """A request that is refused.

    ``detail`` says what is wrong and what to do, in one sentence that anyone may see. ``more`` are further members of
    the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:  # noqa: ANN401
        super().__init__(status, detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers or {}, more

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail, **self.more}


def of_table(error: TableError) -> ProblemError:
    """The answer to records that do not fit the schema: row and column, never a value."""
    place = {"line": error.line, "row": error.row, "column": error.column}
    return ProblemError(
        422, str(error.for_sender()), None, **{name: value for name, value in place.items() if value is not None}
    )
