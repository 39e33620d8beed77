"""Tests of Spark share one cluster and one session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.spark.stream import missing, session
from tests.spark.cluster import Cluster

WANTED = os.environ.get("HEADWATER_SPARK", "")
"""``required``: without Java or pyspark the tests fail. ``yes``: they run if they can. Empty: they are left out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use the cluster are skipped, with the reason, where it cannot run or is not asked for."""
    reason = missing() if WANTED else "a cluster takes minutes: make test-spark runs these"
    if WANTED == "required" or not reason:
        return
    here = Path(__file__).parent
    for item in items:  # of all tests, not only of this folder
        if item.path.is_relative_to(here) and "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def spark(cluster: Cluster) -> Iterator[Any]:
    """A session of this process on the cluster."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings = cluster.settings() | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(cluster.folder),
        "spark.eventLog.compress": "false",
    }
    found = session(cluster.url, **{name.replace(".", "__"): value for name, value in settings.items()})
    yield found
    found.stop()
