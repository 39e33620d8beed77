"""Schema files: TOML for people, JSON for programs, with one structure."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import tomli_w

from headwater.public.errors import SchemaError, quoted

FORMAT = 1
"""The version of the format; newer ones are refused."""


def read_schema_file(path: str | PathLike[str]) -> dict[str, Any]:
    """What is in a schema file, as plain values."""
    suffix = _suffix(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors put a mark at the start
    except UnicodeDecodeError:
        raise SchemaError("the file is not text in UTF-8", "save it as UTF-8") from None
    try:
        if suffix == ".toml":
            return tomllib.loads(text)
        found = json.loads(text, object_pairs_hook=_pairs)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"the file is not valid {suffix[1:].upper()}: {error}", "correct it at that place") from None
    except SchemaError:
        raise
    except ValueError:  # Python reads no number of more than some thousand digits
        raise SchemaError("the file holds a number that is far too long", "write bounds that can be") from None
    except RecursionError:
        raise SchemaError("the file is nested too deeply", "write it as Schema.save does") from None
    if not isinstance(found, dict):
        raise SchemaError("the file does not hold an object", 'begin with {"headwater": 1, "columns": {…}}')
    return found


def write_schema_file(schema: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Write what `Schema.to_dict` gives."""
    suffix = _suffix(path)
    text = tomli_w.dumps(schema) if suffix == ".toml" else json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def _suffix(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".toml", ".json"):
        raise SchemaError("a schema file must end in .toml or .json", "give it such a name")
    return suffix


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise SchemaError(f"{quoted(name)} is declared twice", "declare it once")
        found[name] = value
    return found
