"""A Spark session of this process, or a sentence that says what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK = "pyspark is not installed: pip install 'headwater[spark]'"
JAVA = (
    "no Java was found, which Spark needs: install a Java 17 runtime (Debian: apt install openjdk-17-jre-headless), "
    "or set JAVA_HOME to where one is"
)


def missing() -> str:
    """What Spark needs and this machine does not have, in a sentence; empty if there is all of it."""
    try:
        import pyspark  # noqa: F401 - asked for by name only
    except ImportError:
        return PYSPARK
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
    return "" if found else JAVA


def session(master: str = "local[*]", **settings: str) -> SparkSession:
    """A Spark session whose workers run the same Python as this process.

    Any session does; this one is for a first try and for tests.

    Parameters
    ----------
    master
        Where the cluster is, as Spark names it.
    settings
        Settings of Spark, with ``__`` for dots: ``spark__executor__memory="1g"``.
    """
    if problem := missing():
        raise ImportError(problem)
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("headwater")
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    return builder.getOrCreate()


@contextmanager
def with_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Other settings of a session for a while.

    Parameters
    ----------
    session
        Whose they are.
    settings
        By Spark's name.
    """
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, kept in before.items():
            session.conf.unset(name) if kept is None else session.conf.set(name, kept)
