"""Valid inputs, made a little wrong: bytes, text and plain values."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

DIGEST = 32

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 60, 61, 64, 1.5, 0.0, -0.0, 1e308, 5e-324, math.inf, -math.inf, math.nan,
    2**31, 2**53, 2**62, 2**63, 2**64, -(2**63), 10**30, 10**400, -(10**400), "", "x", "0", "1", "NaN", "\0", "\ud800",
    "é", "\u2028", "a" * 1000, "1e999", "9" * 5000, "2024-02-30", "25:00", [], {}, [[]], [0], [None], {"a": {}},
    {"": 0},
    [1, 2, 3], "cascade", "paper", "number", "integer", "category", "datetime", "time-of-day", "unit_cube", "pandas",
]  # fmt: skip

TOKENS = [
    b"\0", b"\n", b"\r", b"\r\n", b'"', b'""', b"'", b",", b";", b"\t", b"{", b"}", b"[", b"]", b":", b"=", b"#", b"\\",
    b"-", b"+", b".", b"e", b"E9", b"1e999", b"NaN", b"nan", b"Infinity", b"-inf", b"null", b"true", b"\xff",
    b"\xfe\xff",
    b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"\xe2\x80\xa8", b"9" * 20, b"9" * 5000,
    b"[[" * 40, b'{"a":' * 40, b"0x10", b"1_000", b"007", b" ", b"\xc2\xa0", b"2024-02-30", b"24:00", b"[columns.x]\n",
    b'kind = "number"\n', b"headwater", b"\x1a", b"\x80", b"%00", b"../", b"-9223372036854775809",
]  # fmt: skip


def mutate_bytes(data: bytes, rng: Random, others: Sequence[bytes] = ()) -> bytes:
    """One to four small wounds."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        place = rng.randint(0, len(found))
        match rng.randrange(9):
            case 0 if found:
                found[place % len(found)] ^= 1 << rng.randrange(8)
            case 1 if found:
                found[place % len(found)] = rng.randrange(256)
            case 2:
                found[place:place] = rng.choice(TOKENS)
            case 3:
                token = rng.choice(TOKENS)
                found[place : place + len(token)] = token
            case 4:
                del found[place : place + rng.choice((1, 1, 2, 5, 20))]
            case 5:
                del found[place:]
            case 6:
                piece = found[place : place + rng.choice((1, 4, 16, 64))]
                found[place:place] = piece * rng.choice((1, 1, 2, 10))
            case 7 if others:
                other = rng.choice(others)
                cut = rng.randint(0, len(other))
                found[place:] = other[cut:]
            case _:
                start = rng.randint(0, len(found))
                found[place:place] = found[start : start + rng.choice((2, 8, 32))]
    return bytes(found)


def mutate_value(value: Any, rng: Random) -> Any:  # noqa: ANN401 - whatever JSON holds, and a little more
    """A deep copy of plain values with one to three of them replaced, removed, doubled or swapped."""
    found = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(found)
        if not places:
            return rng.choice(ODD)
        holder, key = rng.choice(places)
        match rng.randrange(8):
            case 0:
                del holder[key]
            case 1:
                other, there = rng.choice(places)
                holder[key] = copy.deepcopy(other[there])
            case 2:
                holder[key] = [holder[key]] if rng.random() < 0.5 else {"a": holder[key]}
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(rng.choice(holder)))
            case 3:
                holder[rng.choice(("x", "", "t", "kind", "missing"))] = holder[key]
            case 4 if isinstance(holder[key], int | float) and abs(holder[key]) < 2**62:
                holder[key] += rng.choice((-1, 1, -0.5, 2**32))
            case 5 if isinstance(holder[key], str):
                text = mutate_bytes(holder[key].encode("utf-8", "surrogatepass"), rng)
                holder[key] = text.decode("utf-8", "replace")
            case _:
                holder[key] = copy.deepcopy(rng.choice(ODD))
    return found


def _places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - plain values
    """Every place inside of a value, as its holder and its key there."""
    found, todo = [], [value]
    while todo:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            todo.append(holder[key])
    return found


def mutate_file(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A state or a release with a wrong header or wrong arrays; nearly always under a checksum that matches."""
    if rng.random() < 0.05:
        return mutate_bytes(data, rng, others)
    banner, line, content = data[:-DIGEST].split(b"\n", 2)
    which = rng.random()
    if which < 0.7:
        header = mutate_value(json.loads(line), rng)
        line = json.dumps(header).encode()
    elif which < 0.8:
        line = mutate_bytes(line, rng).replace(b"\n", b" ")
    if which > 0.7 or rng.random() < 0.1:
        content = mutate_bytes(content, rng, others)
    body = banner + b"\n" + line + b"\n" + content
    return body + hashlib.sha256(body).digest()
