"""The pages: small HTML that loads its own script and style, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from headwater.public.budget import Guarantee

HTML = "text/html; charset=utf-8"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What browsers may load: only what this service sends itself."""

_SHARED, _OWN = "headwater.evaluate.report", "headwater.service"
_PARTS = {
    "live.js": [(_SHARED, "draw.js"), (_SHARED, "charts.js"), (_OWN, "live.js")],
    "live.css": [(_SHARED, "page.css"), (_OWN, "live.css")],
    "icon.svg": [(_OWN, "icon.svg")],
}
_LINKED = ("parquet", "csv", "json")
_TYPES = {
    "icon.svg": "image/svg+xml",
    "live.js": "text/javascript; charset=utf-8",
    "live.css": "text/css; charset=utf-8",
}


@cache
def static(name: str) -> tuple[bytes, str] | None:
    """A script or a style and its type; the drawing is that of the report."""
    if name not in _PARTS:
        return None
    texts = [(files(package) / "page" / part).read_text(encoding="utf-8") for package, part in _PARTS[name]]
    return "\n".join(texts).encode(), _TYPES[name]


@cache
def _address(name: str) -> str:
    found = static(name)
    assert found is not None  # noqa: S101 - for the type checker: only names of _PARTS
    return f"/static/{name}?v={hashlib.sha256(found[0]).hexdigest()[:12]}"


def home(runs: list[dict[str, Any]]) -> bytes:
    """The list of runs."""
    rows = "".join(
        f'<tr><td><a href="/runs/{escape(run["name"])}">{escape(run["name"])}</a></td><td>{run["t"]:,}</td>'
        f"<td>{run['releases']:,}</td><td>{escape(Guarantee.as_stated(run).promise)}</td><td>{escape(run['mechanism'])}</td></tr>"
        for run in runs
    )
    head = "<tr><th>Run</th><th>Records</th><th>Releases</th><th>Privacy</th><th>Mechanism</th></tr>"
    body = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if runs else "<p>There is no run to read.</p>"
    return _page("Runs", f"<header><p class=overline>Headwater</p><h1>Runs</h1></header>{body}")


def releases(name: str, listed: list[dict[str, Any]]) -> bytes:
    """The list of releases of a run."""
    base = f"/runs/{escape(name)}"
    rows = "".join(
        f'<tr><td><a href="{base}/releases/{one["t"]}/card">{one["t"]:,}</a></td><td>{escape(one["time"])}</td><td>'
        + " ".join(f'<a href="{base}/releases/{one["t"]}/data.{form}">{form}</a>' for form in _LINKED)
        + "</td></tr>"
        for one in reversed(listed)
    )
    head = "<tr><th>Records, t</th><th>Published</th><th>Table</th></tr>"
    title = f'<header><p class=overline><a href="{base}">{escape(name)}</a></p><h1>Releases</h1></header>'
    return _page(f"Releases of {name}", f"{title}<table><thead>{head}</thead><tbody>{rows}</tbody></table>")


def live(run: dict[str, Any]) -> bytes:
    """The live page of a run; its script draws everything else."""
    text = (files(_OWN) / "page" / "live.html").read_text(encoding="utf-8")
    promised = Guarantee.as_stated(run)
    facts = {name: getattr(promised, name) for name in ("promise", "loss", "whom", "meaning", "limits")}
    for key, value in (facts | {"name": run["name"], "t": f"{run['t']:,}"}).items():
        text = text.replace("{{" + key + "}}", escape(value))
    return _page(f"{run['name']}, live", text, script=True)


def _page(title: str, body: str, *, script: bool = False) -> bytes:
    code = f'<script src="{_address("live.js")}" defer></script>' if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f'<link rel="icon" href="{_address("icon.svg")}">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="{_address("live.css")}">{code}</head>'
        f"<body><main>{body}</main></body></html>\n"
    ).encode()
