"""The settings of a service: addresses, limits, and one table for each run."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from headwater.public.bad_rows import policy_of
from headwater.public.person import Person
from headwater.public.schema import Schema
from headwater.run import RunConfig, Schedule
from headwater.run.limits import KEEP, ROWS, limit
from headwater.run.opening import state_beside

PORT = 8640
_EVERY = Schedule(records=10_000)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Limits:
    """What one request may cost. Everything beyond is refused with a documented answer.

    Parameters
    ----------
    body_bytes
        The largest body of a request, before and after decompression.
    records
        The largest number of records in one request, and in one table that is read.
    body_seconds
        How long a body may take to arrive.
    queued_bytes
        How much may be waiting to be taken, for each run; more is answered with 429.
    queued_posts
        How many requests may be waiting to be taken, for each run.
    streams
        How many readers of events there may be at a time.
    cache_bytes
        How much room tables take that were made for readers; they are public.
    memory_bytes
        How much memory the process may use; a body that needs more is refused. 0 for no limit.
    """

    body_bytes: int = 64 << 20
    records: int = 1_000_000
    body_seconds: float = 30.0
    queued_bytes: int = 256 << 20
    queued_posts: int = 4096
    streams: int = 1000
    cache_bytes: int = 1 << 30
    memory_bytes: int = 8 << 30

    def __post_init__(self) -> None:
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or value < 0 or (value == 0 and name != "memory_bytes"):
                raise ValueError(f"limits: {name} must be a number above 0")


@dataclass(frozen=True)
class TopicSettings:
    """A topic that feeds a run.

    Parameters
    ----------
    servers
        ``host:port`` of the brokers, separated by commas.
    topic
        Its name.
    format
        Of the values: ``"json"`` or ``"csv"`` (one line without a header, columns in the order of the schema).
    options
        Further settings of librdkafka, such as those for TLS.
    """

    servers: str
    topic: str
    format: str = "json"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in ("json", "csv"):
            raise ValueError(f"the format of a topic must be json or csv, not {self.format!r}")


@dataclass(frozen=True, kw_only=True)
class RunSettings(RunConfig):
    """One run of a service: what never changes during it, and what may.

    Parameters
    ----------
    out
        The folder that releases go to.
    schedule
        When releases are published.
    state
        The file that keeps the run; the name of ``out`` plus ``.state`` unless given.
    format
        Of published tables: ``"parquet"`` or ``"csv"``.
    rows
        A release of more rows is published as a sample of so many; ``None`` for all of them.
    keep
        How many releases keep their table; of older ones only the cards stay. ``None`` for all.
    bad_rows
        What happens to rows that are no records: ``"stop"`` (the request is refused), ``"null"`` or ``"quarantine"``.
        Unless given, what the schema says; ``"stop"`` if it says nothing.
    ignore_extra
        Whether columns of posts and messages that the schema does not name are left out; else they are refused.
    public
        Whether anyone who reaches the service may read the releases.
    allow_copy
        Whether the state may be a copy or an older backup: no other run may continue from it.
    topic
        What feeds the run besides posts, if anything.
    """

    out: Path
    schedule: Schedule = _EVERY
    state: Path | None = None
    format: str = "parquet"
    rows: int | None = ROWS
    keep: int | None = KEEP
    bad_rows: str | None = None
    ignore_extra: bool = False
    public: bool = False
    allow_copy: bool = False
    topic: TopicSettings | None = None

    @property
    def policy(self) -> str:
        """What happens to rows that are no records."""
        return policy_of(self.bad_rows, self.schema)

    @property
    def state_path(self) -> Path:
        """The file that keeps the run."""
        return self.state or state_beside(self.out)


@dataclass(frozen=True)
class ServiceConfig:
    """The settings of a service.

    Parameters
    ----------
    runs
        The runs by name.
    host
        The address to listen at.
    port
        The port to listen at; 0 for any that is free.
    tokens
        The file of hashed tokens, see `headwater token`. Without one, nobody needs a token, and only loopback is
        allowed.
    hosts
        Under which names the service is reached, besides the address it listens at: that of a proxy, for instance.
    limits
        What one request may cost.
    """

    runs: Mapping[str, RunSettings]
    host: str = "127.0.0.1"
    port: int = PORT
    tokens: Path | None = None
    hosts: tuple[str, ...] = ()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
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
        for path, count in _counted(path for run in self.runs.values() for path in (run.out, run.state_path)):
            if count > 1:
                raise ValueError(f"two runs share {path}; give each run an out and a state of its own")

    @staticmethod
    def load(path: Path) -> ServiceConfig:
        """Read a ``service.toml``; paths in it start from its folder."""
        with path.open("rb") as file:
            try:
                found = tomllib.load(file)
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"{path}: this is not TOML: {error}") from None
        try:
            return _service(found, path.parent)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _counted(paths: Any) -> list[tuple[Path, int]]:  # noqa: ANN401 - an iterable
    found = [Path(os.path.realpath(path)) for path in paths]
    return [(path, found.count(path)) for path in found]


def _service(found: dict[str, Any], base: Path) -> ServiceConfig:
    _known(found, {"host", "port", "tokens", "hosts", "limits", "runs"}, "")
    options: dict[str, Any] = {name: found[name] for name in ("host", "port") if name in found}
    if "tokens" in found:
        options["tokens"] = base / found["tokens"]
    if "hosts" in found:
        options["hosts"] = tuple(found["hosts"])
    if "limits" in found:
        _known(found["limits"], {f.name for f in fields(Limits)}, "limits.")
        options["limits"] = Limits(**found["limits"])
    runs = found.get("runs", {})
    if not isinstance(runs, dict) or not all(isinstance(run, dict) for run in runs.values()):
        raise ValueError("runs must be tables: write [runs.NAME]")
    return ServiceConfig({name: _run(name, run, base) for name, run in runs.items()}, **options)


def _run(name: str, found: dict[str, Any], base: Path) -> RunSettings:
    where = f"runs.{name}."
    plain = {"epsilon", "delta", "mechanism", "expect", "format", "bad_rows", "ignore_extra", "public", "allow_copy"}
    plain |= {"seed"}
    _known(found, plain | {"schema", "out", "state", "every", "rows", "keep", "topic", "person"}, where)
    for needed in ("schema", "epsilon"):
        if needed not in found:
            raise ValueError(f"{where}{needed} is missing")
    for key in ("public", "allow_copy", "ignore_extra"):  # a text such as "no" would count as yes
        if not isinstance(found.get(key, False), bool):
            raise ValueError(f"{where}{key} must be true or false")
    options: dict[str, Any] = {key: found[key] for key in plain if key in found}
    options["schema"] = Schema.load(base / found["schema"])
    options["out"] = base / found.get("out", f"{name}/releases")
    if "state" in found:
        options["state"] = base / found["state"]
    options |= {name: limit(f"{where}{name}", found[name]) for name in ("rows", "keep") if name in found}
    if "every" in found:
        options["schedule"] = Schedule.parse(str(found["every"]))
    if "person" in found:
        _known(found["person"], {f.name for f in fields(Person)}, f"{where}person.")
        options["person"] = Person.from_dict(found["person"])
    if "topic" in found:
        _known(found["topic"], {f.name for f in fields(TopicSettings)}, f"{where}topic.")
        options["topic"] = TopicSettings(**found["topic"])
    return RunSettings(**options)


def _known(found: Mapping[str, Any], names: set[str], where: str) -> None:
    if unknown := sorted(set(found) - names):
        raise ValueError(f"{where}{unknown[0]} is not a setting; there are {', '.join(sorted(names))}")
