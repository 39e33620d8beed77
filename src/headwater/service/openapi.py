"""The description of the service for programs, with examples."""

from __future__ import annotations

from typing import Any


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return {"openapi": "3.1.0", "info": {"title": "Headwater", "version": "1"}, "paths": {}}
