"""Who may do what: every request passes here before anything is looked at."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request

from headwater.service.config import ServiceConfig, is_loopback
from headwater.service.problems import ProblemError
from headwater.service.tokens import Token

if TYPE_CHECKING:
    from headwater.service.hosted import HostedRun
    from headwater.service.service import Service

_ONCE = (b"host", b"content-length", b"content-type", b"content-encoding", b"authorization", b"idempotency-key")
_ASK = {"WWW-Authenticate": 'Basic realm="headwater", charset="UTF-8"'}


def check_headers(config: ServiceConfig, method: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse requests under a foreign name (DNS rebinding), from other sites, and with two lengths.

    Header names are in lower case.
    """
    found = dict(headers)
    if b"transfer-encoding" in found and b"content-length" in found:
        raise ProblemError(400, "a request has either a Content-Length or a Transfer-Encoding", {"Connection": "close"})
    names = [name for name, _ in headers] if len(found) < len(headers) else []
    if any(names.count(name) > 1 for name in _ONCE):
        raise ProblemError(400, "a header is there twice that can be there once", {"Connection": "close"})
    host = found.get(b"host", b"").decode("latin-1")
    if not _is_ours(config, host):
        raise ProblemError(421, "this service is not known under this name; list it in hosts", {"Connection": "close"})
    if method in ("GET", "HEAD"):
        return
    origin = found.get(b"origin")
    foreign = origin is not None and _place(origin.decode("latin-1")) != host.lower()
    if foreign or found.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
        raise ProblemError(403, "requests from other sites are refused")


def _place(origin: str) -> str | None:
    """Host and port of an origin; None if it has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _is_ours(config: ServiceConfig, host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name in {config.host, *config.hosts}


def token_of(service: Service, request: Request) -> Token | None:
    """The token of a request; None if it has none, a 401 if it has a wrong one.

    The token is a bearer token, or the password of a browser's login.
    """
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
    """The run of a request, if it may act in this role; otherwise a 401, 403 or 404.

    Whoever may not read a run does not learn that there is one.

    The role is ``"write"``, ``"read"`` or ``"admin"``.
    """
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
    """The runs that a request may read."""
    token = token_of(service, request)
    if service.tokens is None:
        return dict(service.runs)
    return {
        name: run
        for name, run in service.runs.items()
        if run.settings.public or (token is not None and token.allows("read", name))
    }
