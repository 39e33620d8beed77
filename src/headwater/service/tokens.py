"""Who may do what: tokens, of which only hashes are kept, and the checks that every request passes first."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from headwater.public.files import FileRefusedError, write_whole
from headwater.service.answers import ProblemError
from headwater.service.settings import ServiceConfig, is_loopback

if TYPE_CHECKING:
    from headwater.service.hosted import HostedRun, Service

ROLES = ("write", "read", "admin")
RELOAD = 0.25  # seconds between looks at the file
_TOKEN = re.compile(r"hw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_NOBODY = hashlib.sha256(secrets.token_bytes(32)).hexdigest()  # compared with where no token has this id
_ONCE = (b"host", b"content-length", b"content-type", b"content-encoding", b"authorization", b"idempotency-key")
_CLOSE = {"Connection": "close"}
_ASK = {"WWW-Authenticate": 'Basic realm="headwater", charset="UTF-8"'}


class Token(msgspec.Struct, frozen=True):
    """What is kept of a token: its public ``id``, its role, the run that it is for (``"*"`` for all), and its hash."""

    id: str
    role: str
    run: str
    sha256: str

    def allows(self, role: str, run: str) -> bool:
        return (self.role == role or (self.role, role) == ("admin", "read")) and self.run in ("*", run)


def create(path: Path, role: str, run: str = "*") -> str:
    """Make a token, add its hash to a file for its owner only, and return the token: it is shown this once."""
    if role not in ROLES:
        raise ValueError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
    identifier = secrets.token_hex(6)
    text = f"hw_{identifier}_{secrets.token_urlsafe(32)}"
    _write(path, [*(read(path) if path.exists() else []), Token(identifier, role, run, _hash(text))])
    return text


def revoke(path: Path, identifier: str) -> None:
    match = _TOKEN.fullmatch(identifier)
    before = read(path)
    after = [token for token in before if token.id != (match[1] if match else identifier)]
    if len(after) == len(before):
        raise ValueError(f"{path}: there is no token with this id")
    _write(path, after)


def read(path: Path) -> list[Token]:
    if os.stat(path).st_mode & 0o022:
        raise FileRefusedError(f"{path}: other users may write this file, and so make tokens; chmod 600 it")
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, list[Token]])["tokens"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
        raise FileRefusedError(f"{path}: this is not a file that `headwater token` wrote") from error
    if any(token.role not in ROLES or not re.fullmatch(r"[0-9a-f]{64}", token.sha256) for token in found):
        raise FileRefusedError(f"{path}: a token in this file is damaged")
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _write(path: Path, tokens: list[Token]) -> None:
    """Replace the file in one step, so that a service never reads half of it."""
    text = json.dumps({"tokens": msgspec.to_builtins(tokens)}, indent=2) + "\n"
    write_whole(path, [text.encode()], mode=0o600)


class Tokens:
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

    def holds(self, token: Token) -> bool:
        self._follow()
        return self._found.get(token.id) == token

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


def _version(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


# ---- checks of requests


def check_headers(config: ServiceConfig, method: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse requests under a foreign name (DNS rebinding), from other sites, and with two lengths."""
    found = dict(headers)
    if b"transfer-encoding" in found and b"content-length" in found:
        raise ProblemError(400, "a request has either a Content-Length or a Transfer-Encoding", _CLOSE)
    names = [name for name, _ in headers] if len(found) < len(headers) else []
    if any(names.count(name) > 1 for name in _ONCE):
        raise ProblemError(400, "a header is there twice that can be there once", _CLOSE)
    host = found.get(b"host", b"").decode("latin-1").lower()
    match = _HOST.fullmatch(host)
    name = match[1].strip("[]") if match else ""
    if not (is_loopback(name) or name in {config.host.lower(), *map(str.lower, config.hosts)}):
        raise ProblemError(421, "this service is not known under this name; list it in hosts", _CLOSE)
    if method in ("GET", "HEAD"):
        return
    origin = found.get(b"origin")
    foreign = origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host
    if foreign or found.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
        raise ProblemError(403, "requests from other sites are refused")


def token_of(service: Service, request: Request) -> Token | None:
    """The token of a request, a bearer token or the password of a login; a 401 if it is a wrong one."""
    header = request.headers.get("authorization")
    if header is None or service.tokens is None:
        return None
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            value = base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            value = ""
    token = service.tokens.find(value.strip())
    if token is None:
        raise ProblemError(401, "this token is not known", _ASK)
    request.state.token = token.id
    return token


def run_for(service: Service, request: Request, role: str) -> HostedRun:
    """The run of a request, if it may act in this role; otherwise a 401, 403 or 404."""
    name = request.path_params["name"]
    run = service.runs.get(name)
    token = token_of(service, request)
    if service.tokens is not None and not (role == "read" and run is not None and run.settings.public):
        if token is None:
            raise ProblemError(401, f"this needs a token with the role {role}", _ASK)
        if token.run not in ("*", name):
            run = None
        elif not token.allows(role, name):
            raise ProblemError(403, f"this token has the role {token.role}; this needs {role}")
    if run is None:
        raise ProblemError(404, "there is no such run, or this token is not for it")
    request.state.run = name
    return run


def readable(service: Service, request: Request) -> dict[str, HostedRun]:
    token = token_of(service, request)
    if service.tokens is None:
        return dict(service.runs)
    return {
        name: run
        for name, run in service.runs.items()
        if run.settings.public or (token is not None and token.allows("read", name))
    }


def client_of(request: Request) -> str:
    """Who is given a share: the token of a request, or its address, of which IPv6 gives everybody 64 bits."""
    if token := getattr(request.state, "token", None):
        return str(token)
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))
