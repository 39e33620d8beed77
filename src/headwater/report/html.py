"""The page itself: a template, its style, its script and the data, in one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

_DATA = "{{data}}"


def render(contents: dict[str, Any]) -> str:
    """The whole page. Nothing in ``contents`` can end the script element that it is put into, or be run."""
    style, script = _read("page.css"), "\n".join(map(_read, ("draw.js", "charts.js", "quality.js", "page.js")))
    # The policy lets the browser load nothing and run this script and no other.
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    page = _read("page.html")
    for name, text in (("policy", policy), ("style", style), ("script", script)):
        page = page.replace("{{" + name + "}}", text)
    before, _, after = page.partition(_DATA)
    return before + _json(contents) + after


def _json(contents: dict[str, Any]) -> str:
    """JSON without any character that HTML could take for the end of a script, a comment or an entity."""
    text = json.dumps(contents, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _read(name: str) -> str:
    return (files("headwater.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
