"""Tokens: who may write, who may read, who may see what is secret. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from headwater.public.files import FileRefusedError, write_whole

ROLES = ("write", "read", "admin")
_TOKEN = re.compile(r"hw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
RELOAD = 1.0  # seconds between looks at the file
_NOBODY = hashlib.sha256(secrets.token_bytes(32)).hexdigest()  # compared with where no token has this id


@dataclass(frozen=True)
class Token:
    """What is kept of a token.

    Parameters
    ----------
    id
        Its public part, by which it is found and revoked.
    role
        ``"write"``, ``"read"`` or ``"admin"``; an admin may also read.
    run
        The run that it is for; ``"*"`` for all of them.
    sha256
        The hash of the whole token. It has 256 random bits, so a slow hash would add nothing.
    """

    id: str
    role: str
    run: str
    sha256: str

    def allows(self, role: str, run: str | None) -> bool:
        """Whether it may act in a role on a run, or, with None, on what is about no single run."""
        return (self.role == role or (self.role, role) == ("admin", "read")) and self.run in ("*", run)


def create(path: Path, role: str, run: str = "*") -> str:
    """Make a token, add its hash to a file, and return the token: it is shown this once.

    The file is made if it is not there, for its owner only.
    """
    if role not in ROLES:
        raise ValueError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
    identifier = secrets.token_hex(6)
    text = f"hw_{identifier}_{secrets.token_urlsafe(32)}"
    kept = Token(identifier, role, run, _hash(text))
    _write(path, [*(read(path) if path.exists() else []), kept])
    return text


def revoke(path: Path, identifier: str) -> None:
    """Remove a token, named by its id or itself, from a file; a running service follows within a second."""
    match = _TOKEN.fullmatch(identifier)
    identifier = match[1] if match else identifier
    before = read(path)
    after = [token for token in before if token.id != identifier]
    if len(after) == len(before):
        raise ValueError(f"{path}: there is no token with this id")
    _write(path, after)


def read(path: Path) -> list[Token]:
    """The tokens of a file, or an error that names it."""
    if os.stat(path).st_mode & 0o022:
        raise FileRefusedError(f"{path}: other users may write this file, and so make tokens; chmod 600 it")
    try:
        found = [Token(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["tokens"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FileRefusedError(f"{path}: this is not a file that `headwater token` wrote") from error
    for token in found:
        if token.role not in ROLES or not re.fullmatch(r"[0-9a-f]{64}", str(token.sha256)):
            raise FileRefusedError(f"{path}: a token in this file is damaged")
    return found


class Tokens:
    """The tokens of a service; follows its file while it runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = {token.id: token for token in read(path)}
        self._seen, self._looked = _version(path), time.monotonic()

    def find(self, text: str) -> Token | None:
        """The token that was presented, compared in constant time; None if there is no such token."""
        self._follow()
        match = _TOKEN.fullmatch(text)
        known = self._found.get(match[1]) if match else None
        same = hmac.compare_digest(_hash(text), known.sha256 if known else _NOBODY)
        return known if same else None

    def _follow(self) -> None:
        now = time.monotonic()
        if now - self._looked < RELOAD:
            return
        self._looked = now
        try:
            version = _version(self._path)
            if version != self._seen:
                self._found, self._seen = {token.id: token for token in read(self._path)}, version
        except (OSError, FileRefusedError):
            self._found, self._seen = {}, (0, 0, 0)  # a file that is gone or damaged allows nobody


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _version(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _write(path: Path, tokens: list[Token]) -> None:
    """Replace the file in one step, so that a service never reads half of it."""
    text = json.dumps({"tokens": [vars(token) for token in tokens]}, indent=2) + "\n"
    write_whole(path, [text.encode()], mode=0o600)
