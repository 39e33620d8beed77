"""The settings of a service: addresses, limits, and one table for each run."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from headwater.public.person import Person
from headwater.public.schema import Schema
from headwater.public.tally import policy_of
from headwater.run import RunConfig, Schedule
from headwater.run.config import KEEP, ROWS, limit
from headwater.run.state import state_beside

PORT = 8640
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_Above0 = Annotated[int, msgspec.Meta(gt=0)]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may cost. Everything beyond is refused with a documented answer."""

    body_bytes: _Above0 = 64 << 20  # of a request, before and after decompression
    records: _Above0 = 1_000_000  # in one request, and in one table that a reader asks for by rows
    body_seconds: Annotated[float, msgspec.Meta(gt=0)] = 30.0  # until a body has arrived
    queued_bytes: _Above0 = 256 << 20  # waiting to be taken, for each run; more is answered with 429
    queued_posts: _Above0 = 4096  # the same, in requests
    streams: _Above0 = 1000  # readers of events at a time; one client may have a quarter of them
    cache_bytes: _Above0 = 1 << 30  # of the disk, for tables that were made for readers
    free_bytes: _Above0 = 512 << 20  # of the disk, for records: where less is free, those tables go
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 8 << 30  # of the process; 0 for no limit


@dataclass(frozen=True, kw_only=True)
class RunSettings(RunConfig):
    schema: Schema = field(kw_only=False)
    out: Path  # the folder that releases go to
    schedule: Schedule = Schedule(records=10_000)  # noqa: RUF009 - frozen
    state: Path | None = None  # the file that keeps the run; unless given, out with .state behind it
    format: str = "parquet"  # of published tables, or "csv"
    rows: int | None = ROWS  # a release of more is published as a sample of so many; None for all
    keep: int | None = KEEP  # so many releases keep their table, of older ones the cards stay; None for all
    bad_rows: str | None = None  # "stop", "null" or "quarantine"; unless given, what the schema says
    ignore_extra: bool = False  # whether columns that the schema does not name are left out
    public: bool = False  # whether reading needs no token
    allow_copy: bool = False  # whether the state may be a copy that no other run continues from

    @property
    def policy(self) -> str:
        return policy_of(self.bad_rows, self.schema)

    @property
    def state_path(self) -> Path:
        return self.state or state_beside(self.out)


@dataclass(frozen=True)
class ServiceConfig:
    runs: Mapping[str, RunSettings]
    host: str = "127.0.0.1"
    port: int = PORT  # 0 for any that is free
    tokens: Path | None = None  # of hashes; without it nobody needs a token, and only loopback is allowed
    hosts: tuple[str, ...] = ()  # names of the service besides its address: that of a proxy, for instance
    proxies: tuple[str, ...] = ()  # whose X-Forwarded-For says which client asks
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        limits = self.limits
        if 0 < limits.memory_bytes < 6 * limits.queued_bytes:  # what is queued is read, kept and perhaps read again
            raise ValueError("limits.memory_bytes must be at least six times limits.queued_bytes, or 0 for no limit")
        if not self.runs:
            raise ValueError("a service needs at least one run: write a table [runs.NAME]")
        for name in self.runs:
            if not _NAME.fullmatch(name):
                raise ValueError(f"the name of a run must be letters, digits, - and _, not {name!r}")
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"a port lies between 0 and 65535, not {self.port}")
        if self.tokens is None and not is_loopback(self.host):
            raise ValueError(
                f"without tokens a service listens on loopback only, not at {self.host}; make a token with "
                "`headwater token`, and name its file with tokens = (--tokens)"
            )
        paths = [os.path.realpath(path) for run in self.runs.values() for path in (run.out, run.state_path)]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"two runs share {path}; give each run an out and a state of its own")

    @staticmethod
    def load(path: Path) -> ServiceConfig:
        """Read a ``service.toml``; paths in it start from its folder."""
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: this is not TOML: {error}") from None
        try:
            runs = _checked(found.pop("runs", {}), dict[str, dict[str, Any]], "runs", path.parent)
            made = {name: _run(name, run, path.parent) for name, run in runs.items()}
            limits = _checked(found.pop("limits", {}), Limits, "limits", path.parent)
            config: ServiceConfig = _checked(found | {"runs": made, "limits": limits}, ServiceConfig, "", path.parent)
            return config
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None


def _run(name: str, found: dict[str, Any], base: Path) -> RunSettings:
    where = f"runs.{name}"
    if "schema" not in found:
        raise ValueError(f"{where}.schema is missing")
    if "schedule" in found:
        raise ValueError(f"{where}.schedule is not a setting; write every")
    table = {"out": f"{name}/releases"} | found
    table |= {key: limit(f"{where}.{key}", found[key]) for key in ("rows", "keep") if key in found}
    if "every" in table:
        table["schedule"] = Schedule.parse(str(table.pop("every")))
    if isinstance(table.get("person"), dict):
        _refuse_unknown(table["person"], Person, f"{where}.person")
        table["person"] = Person.from_dict(table["person"])
    table["schema"] = Schema.load(base / str(table["schema"]))
    settings: RunSettings = _checked(table, RunSettings, where, base)
    return settings


def _checked(found: Mapping[str, Any], kind: Any, where: str, base: Path) -> Any:  # noqa: ANN401 - of this kind
    """A table of the file as settings, or an error that says which one is wrong, and in what."""
    if is_dataclass(kind):
        _refuse_unknown(found, kind, where)
    try:
        return msgspec.convert(found, kind, dec_hook=lambda type_, value: base / value if type_ is Path else value)
    except msgspec.ValidationError as error:
        said, _, at = str(error).partition(" - at `$")
        missing = re.fullmatch(r"Object missing required field `(\w+)`", said)
        place = ".".join(filter(None, (where, at.strip(".`"), missing[1] if missing else "")))
        raise ValueError(f"{place} is missing" if missing else f"{place}: {said}") from None


def _refuse_unknown(found: Mapping[str, Any], kind: Any, where: str) -> None:  # noqa: ANN401 - a dataclass
    names = {"every" if one.name == "schedule" else one.name for one in fields(kind)}
    if unknown := sorted(set(found) - names - {"schedule"}):
        place = f"{where}.{unknown[0]}" if where else unknown[0]
        raise ValueError(f"{place} is not a setting; there are {', '.join(sorted(names))}")


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
