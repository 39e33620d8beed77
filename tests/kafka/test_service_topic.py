"""A topic that feeds a run of a service, beside posts."""

import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headwater.service import RunSettings, Service, ServiceConfig
from headwater.service.app import create_app
from headwater.service.config import TopicSettings
from tests.kafka.test_topics import SCHEMA, Cluster


def eventually(client: TestClient, t: int) -> None:
    end = time.monotonic() + 30
    while client.get("/runs/trips").json()["t"] < t and time.monotonic() < end:
        time.sleep(0.05)
    assert client.get("/runs/trips").json()["t"] == t


def test_a_topic_and_posts_feed_one_run_and_a_restart_repeats_nothing(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.write(0, 60)
    topic = TopicSettings(cluster.servers, "trips", options={"log_level": 0})
    config = ServiceConfig({"trips": RunSettings(SCHEMA, 1.0, out=tmp_path / "out", topic=topic)})
    for round_ in range(2):
        with Service(config) as service:
            client = TestClient(create_app(service), base_url="http://localhost")
            eventually(client, 60 + 20 * round_)
            assert client.post("/runs/trips/records", json={"x": 0.5, "kind": "a"}).status_code == 200
            cluster.write(60 + 19 * round_, 19)
            eventually(client, 80 + 20 * round_)


def test_a_bad_message_makes_the_service_not_ready_and_posts_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    cluster.producer.produce("trips", value=b'{"x": "SECRET", "kind": "a"}', partition=0)
    cluster.producer.flush(10)
    topic = TopicSettings(cluster.servers, "trips", options={"log_level": 0})
    config = ServiceConfig({"trips": RunSettings(SCHEMA, 1.0, out=tmp_path / "out", topic=topic)})
    with Service(config) as service:
        client = TestClient(create_app(service), base_url="http://localhost")
        end = time.monotonic() + 30
        while client.get("/readyz").status_code == 200 and time.monotonic() < end:
            time.sleep(0.05)
        assert client.get("/readyz").status_code == 503
        assert client.post("/runs/trips/records", json={"x": 0.5, "kind": "a"}).json()["t"] == 1
    said = capfd.readouterr().err
    assert "partition 0, offset 0" in said
    assert "SECRET" not in said
