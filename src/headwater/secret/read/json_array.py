"""A JSON array of objects as JSON lines: one element, one line."""

from __future__ import annotations

import re

import numpy as np

_SPACE = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"
_ESCAPE = re.compile(rb"\\.", re.DOTALL)


class ArrayLines:
    r"""Turns one array of objects into lines. Text that is no array is left as it is (`transparent`).

    An element ends with a comma outside of strings and brackets. So an element that is JSON ends where it ends,
    whatever is in it, and another one in its place moves no other. What is not JSON becomes a line that is not, and may
    take others along: so it stops the run, whatever happens to other bad rows.

    >>> ArrayLines().convert(b'[{"a": "1,\\"2"}, {"a": [3,\n4]}]', final=True)
    b'{"a": "1,\\"2"}\n{"a": [3, 4]}\n'
    """

    def __init__(self) -> None:
        self.transparent = False
        """Whether this is no array."""
        self._held = b""  # what cannot be judged yet
        self._state = "start"
        self._depth, self._inside, self._filled = 1, False, False

    def convert(self, data: bytes, *, final: bool) -> bytes:
        """The next piece of text as lines."""
        data, self._held = self._held + data, b""
        if self._state == "start":
            text = data.removeprefix(_MARK).lstrip(_SPACE)
            if not final and (not text or _MARK.startswith(data)):
                self._held = data
                return b""
            self.transparent = not text.startswith(b"[")
            self._state = "lines" if self.transparent else "array"
            data = data if self.transparent else text[1:]
        if self._state == "array":
            return self._lines(data, final)
        return data if self._state == "lines" else self._rest(data)

    def _rest(self, data: bytes) -> bytes:
        """What stands behind the array: nothing, or a line that is no JSON."""
        return b"]" + data if data.strip(_SPACE) else b""

    def _lines(self, data: bytes, final: bool) -> bytes:
        if not final and (len(data) - len(data.rstrip(b"\\"))) % 2:
            data, self._held = data[:-1], data[-1:]  # what is escaped comes later
        text = np.frombuffer(data, dtype=np.uint8).copy()
        quotes = text == 0x22
        if b"\\" in data:
            quotes[[match.end() - 1 for match in _ESCAPE.finditer(data)]] = False
        passed = np.cumsum(quotes) + self._inside
        outside = ((passed - quotes) % 2 == 0) & ~quotes
        nests = ((text == 0x7B) | (text == 0x5B)) & outside
        closes = ((text == 0x7D) | (text == 0x5D)) & outside
        depth = self._depth + np.cumsum(nests.astype(np.int64) - closes)
        last = np.flatnonzero((text == 0x5D) & outside & (depth == 0))
        end = int(last[0]) if last.size else len(text)
        breaks = (text == 0x0A) | (text == 0x0D)
        text[breaks & outside] = 0x20
        text[breaks & ~outside] = 0x01  # a line end in a string is no JSON, and no end of a record
        level = outside & (depth == 1)
        text[level & (text == 0x2C)] = 0x0A
        kept: bytes = text[:end][~(level & ((text == 0x20) | (text == 0x09)))[:end]].tobytes()
        self._filled = self._filled or bool(kept)
        if last.size:
            self._state = "after"
            return kept + (b"\n" if self._filled else b"") + self._rest(data[end + 1 :])
        if text.size:
            self._depth, self._inside = int(depth[-1]), bool(passed[-1] % 2)
        return kept + b"[" if final else kept  # an array that is not closed ends in a line that is no JSON
