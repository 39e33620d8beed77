"""Tests of Spark share one cluster and one session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.spark.stream import missing, session
from tests.spark.cluster import Cluster

WANTED = os.environ.get("HEADWATER_SPARK", "")
"""``required``: without Java or pyspark the tests fail. ``yes``: they run if they can. Empty: they are left out."""


def need_cluster() -> None:
    """Skip a test, with the reason, where no cluster can run or none is asked for."""
    reason = missing() if WANTED else "a cluster takes minutes: make test-spark runs these"
    if reason and WANTED != "required":
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_cluster()
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
