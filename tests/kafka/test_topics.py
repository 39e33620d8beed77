"""Topics, on the mock cluster that librdkafka has built in: the real protocol on loopback."""

import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import numpy as np
import pytest
from confluent_kafka import Consumer, Producer

from headwater.kafka import POSITION, Offsets, Topic, TopicBatch, TopicError, feed, take
from headwater.public.categories import Category
from headwater.public.errors import TableError
from headwater.public.numbers import Number
from headwater.public.schema import Schema
from headwater.run import FolderSink, Run, RunConfig, Schedule
from headwater.run.state import State
from tests.support.kept_runs import kill

pytestmark = pytest.mark.slow  # processes, browsers and brokers

SCHEMA = Schema(x=Number(0, 1), kind=Category("a", "b"))


class Cluster:
    """A cluster of brokers in this process, and who writes to it."""

    def __init__(self, brokers: int = 1, partitions: int = 2) -> None:
        options = {"bootstrap.servers": "mock", "test.mock.num.brokers": brokers, "log_level": 0}
        self.producer = Producer(options)
        found = self.producer.list_topics(timeout=10)
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in found.brokers.values())
        self.partitions = partitions

    def write(self, first: int, count: int, topic: str = "trips") -> list[dict[str, object]]:
        """Write numbered records, in turn to the partitions."""
        rows: list[dict[str, object]] = [{"x": i / 10_000, "kind": "ab"[i % 2]} for i in range(first, first + count)]
        for number, row in enumerate(rows, first):
            self.producer.produce(topic, value=json.dumps(row).encode(), partition=number % self.partitions)
        assert self.producer.flush(20) == 0
        return rows


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    yield found
    found.producer.flush(5)


def open_run(folder: Path, every: int = 1000) -> Run:
    config = RunConfig(SCHEMA, 1.0)
    return Run.open(config, FolderSink(folder / "out"), state=folder / "state", schedule=Schedule(records=every))


def read(topic: Topic, run: Run, until: int, form: str = "json", seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    feed(run, topic, form, stop=lambda: run.t >= until or time.monotonic() > end)
    assert run.t == until


def kept_rows(folder: Path) -> np.ndarray:
    with State.open(folder / "state", observe=True) as store:
        return np.concatenate([batch.rows for _, batch in store.load()[-1]])


def test_a_run_goes_on_where_its_state_says_whatever_was_read_before(cluster: Cluster, tmp_path: Path) -> None:
    cluster.write(0, 40)
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
        batch = next(found for found in topic if found is not None)  # read, and the process ends before it is kept
        assert len(batch.values) > 0
        assert run.t == 0
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic:
        read(topic, run, 40)
    cluster.write(40, 10)
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic:
        read(topic, run, 50)
        assert next(iter(topic)) is None


def test_a_killed_consumer_neither_loses_nor_repeats(cluster: Cluster, tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "trips.toml")
    command = [sys.executable, "-m", "headwater.cli", "run", "--kafka", cluster.servers, "--topic", "trips"]
    command += ["--schema", str(tmp_path / "trips.toml"), "--epsilon", "1", "--out", str(tmp_path / "out")]
    command += ["--state", str(tmp_path / "state"), "--every", "100"]
    rows = cluster.write(0, 200)
    for pause in (0.5, 1.0, 0.2):
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while not (tmp_path / "state").exists() and time.monotonic() < end:
            time.sleep(0.05)
        for _ in range(5):
            rows += cluster.write(len(rows), 20)
            time.sleep(pause / 5)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with open_run(tmp_path, every=100) as run:
        with Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic:
            if run.t < len(rows):
                read(topic, run, len(rows))
            assert next(iter(topic)) is None
        expected = run.synth.encode(rows).rows
        kill(run)
    assert np.array_equal(np.sort(kept_rows(tmp_path), axis=0), np.sort(expected, axis=0))


def test_csv_values_are_lines_in_the_order_of_the_schema(cluster: Cluster, tmp_path: Path) -> None:
    for value in (b"0.25,a", b"0.5,b\n", b'0.75,"b"'):
        cluster.producer.produce("lines", value=value, partition=0)
    cluster.producer.flush(10)
    with open_run(tmp_path) as run, Topic(cluster.servers, "lines", poll_seconds=0.1) as topic:
        read(topic, run, 3, "csv")


def test_an_empty_value_is_a_missing_one_wherever_its_batch_ends() -> None:
    schema = Schema(x=Number(0, 1, missing=True))
    for values in ([b"", b"0.5"], [b"0.5", b""], [b""], [b"", b""]):
        batch = TopicBatch(values, [(0, offset) for offset in range(len(values))], {})
        found = [value for part in batch.read(schema, "csv") for value in part.table["x"].to_pylist()]
        assert found == [value.decode() or None for value in values]


def test_a_message_is_a_record_whatever_is_declared_of_files_with_several_lines() -> None:
    """An open quote makes its own message invalid, and does not stop a run that lets invalid rows pass."""
    schema = Schema(x=Number(0, 1)).with_reading(multiline=True)
    batch = TopicBatch([b"0.25", b'"0.5', b"0.75"], [(0, offset) for offset in range(3)], {})
    (part,) = batch.read(schema, "csv", "null")
    assert (part.records, [bad.row for bad in part.bad]) == (3, [1])


def test_fields_that_the_schema_does_not_name_are_refused_or_left_out() -> None:
    batch = TopicBatch([b'{"x": 0.5, "more": [1]}'], [(0, 7)], {})
    schema = Schema(x=Number(0, 1))
    with pytest.raises(TableError, match=r"partition 0, offset 7: 1 key\(s\) .*ignore_extra = true") as caught:
        list(batch.read(schema, "json"))
    assert "more" not in str(caught.value)  # a name that a sender chose
    (part,) = batch.read(schema, "json", ignore_extra=True)
    assert part.table["x"].to_pylist() == [0.5]


@pytest.mark.parametrize(
    ("form", "bad"),
    [
        ("json", b'{"x": 7, "kind": "SECRET"}'),
        ("json", b"SECRET"),
        ("json", b""),
        ("csv", b"SECRET,a"),
        ("csv", b"1,a\n2,b"),
    ],
)
def test_a_bad_message_is_named_by_partition_and_offset_and_its_batch_is_refused(
    cluster: Cluster, tmp_path: Path, form: str, bad: bytes
) -> None:
    good = b'{"x": 0.5, "kind": "a"}' if form == "json" else b"0.5,a"
    for value in (good, good, bad, good):
        cluster.producer.produce("mixed", value=value, partition=1)
    cluster.producer.flush(10)
    # so long that all of them are in one batch, however busy the machine is
    with open_run(tmp_path) as run, Topic(cluster.servers, "mixed", poll_seconds=2.0) as topic:
        with pytest.raises(TableError, match="partition 1, offset 2") as caught:
            read(topic, run, 4, form)
        assert run.t == 0
        assert run.position(POSITION) is None
    assert "SECRET" not in str(caught.value)


def test_offsets_that_have_expired_are_a_clear_refusal(cluster: Cluster, tmp_path: Path) -> None:
    """The mock keeps the last five megabytes of a partition."""
    for _ in range(4):
        cluster.producer.produce("trips", value=b'{"x": 0.5, "kind": "a"}', partition=0)
    cluster.producer.flush(20)
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
        read(topic, run, 4)
    for _ in range(12):
        cluster.producer.produce("trips", value=b"x" * 900_000, partition=0)
        cluster.producer.flush(20)
    with open_run(tmp_path) as run:
        assert run.position(POSITION)["offsets"]["0"] == 4
        with (
            Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic,
            pytest.raises(TopicError, match="no offset 4 any more"),
        ):
            read(topic, run, 5, seconds=20)
        assert run.t == 4


def test_another_consumer_of_the_same_group_takes_nothing_away(cluster: Cluster, tmp_path: Path) -> None:
    """Partitions are assigned, not subscribed to: when somebody joins the group there is no rebalance for us."""
    cluster.write(0, 20)
    other = Consumer({"bootstrap.servers": cluster.servers, "group.id": "headwater", "log_level": 0})
    other.subscribe(["trips"])
    end = time.monotonic() + 30
    while not other.assignment() and time.monotonic() < end:
        other.poll(0.1)
    assert other.assignment()
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
        read(topic, run, 20)
        cluster.write(20, 20)
        read(topic, run, 40)
        assert run.position(POSITION)["offsets"]["1"] == 20
    other.close()


_BROKER = """
import json, sys
from confluent_kafka import Producer
writer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
brokers = writer.list_topics(timeout=10).brokers.values()
print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
for line in sys.stdin:
    for number in range(int(line)):
        value = json.dumps({"x": number / 100, "kind": "b"}).encode()
        writer.produce("trips", value=value, partition=number % 2)
    print(writer.flush(20), flush=True)
"""


def test_a_broker_that_goes_away_and_comes_back_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """A broker in a process of its own, which is stopped until the connection is given up, then continued."""
    options = {"socket.timeout.ms": 1000, "log_level": 0, "reconnect.backoff.max.ms": 500}
    with (
        subprocess.Popen(
            [sys.executable, "-c", _BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as broker,
        open_run(tmp_path) as run,
    ):
        assert broker.stdin is not None
        assert broker.stdout is not None
        servers = broker.stdout.readline().strip()

        def write(count: int) -> None:
            assert broker.stdin is not None
            assert broker.stdout is not None
            broker.stdin.write(f"{count}\n")
            broker.stdin.flush()
            assert broker.stdout.readline() == "0\n"

        try:
            write(20)
            with Topic(servers, "trips", poll_seconds=0.1, options=options) as topic:
                read(topic, run, 20)
                broker.send_signal(signal.SIGSTOP)
                end = time.monotonic() + 30
                while not topic.trouble and time.monotonic() < end:
                    assert topic.next() is None
                assert topic.trouble
                broker.send_signal(signal.SIGCONT)
                write(20)
                read(topic, run, 40)
                assert topic.next() is None
                assert run.position(POSITION)["offsets"] == {"0": 20, "1": 20, "2": 0, "3": 0}
                assert topic.trouble == ""
        finally:
            broker.send_signal(signal.SIGCONT)
            broker.kill()


def test_a_gap_in_the_offsets_or_a_step_back_is_a_clear_refusal_unless_the_topic_is_known_to_keep_all() -> None:
    for compacted in (False, True):
        offsets = Offsets("trips", {"topic": "trips", "offsets": {"0": 5}}, partial(bool, compacted))
        offsets.advance(0, 5)
        with pytest.raises(TopicError, match="compacted") if compacted else nullcontext():
            offsets.advance(0, 8)
        with pytest.raises(TopicError, match="was to come"):
            offsets.advance(0, 4)  # back


def test_a_broker_that_does_not_say_what_it_keeps_counts_as_one_that_compacts(cluster: Cluster, tmp_path: Path) -> None:
    """The mock does not know this question."""
    assert list(in_transaction(cluster, 2)) == [0, 1]
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", poll_seconds=0.1, timeout=0.3) as topic:
        assert topic.ask_compacted() is None
        with pytest.raises(TopicError, match="compacted"):
            read(topic, run, 20)


def in_transaction(cluster: Cluster, times: int) -> Iterator[int]:
    """Write ten messages in each of some transactions; the end of one takes an offset that no message has."""
    writer = Producer({"bootstrap.servers": cluster.servers, "transactional.id": "w", "log_level": 0})
    writer.init_transactions(20)
    for number in range(times):
        writer.begin_transaction()
        for value in range(10):
            writer.produce("trips", value=json.dumps({"x": value / 10, "kind": "a"}).encode(), partition=0)
        writer.commit_transaction(20)
        yield number


def test_a_topic_that_is_written_in_transactions_is_read_whole_and_goes_on_after_each(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is opened again behind each transaction."""
    monkeypatch.setattr(Topic, "ask_compacted", lambda self: False)
    for number in in_transaction(cluster, 3):
        with open_run(tmp_path) as run:
            with Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic:
                read(topic, run, 10 * (number + 1))
            assert run.position(POSITION)["offsets"]["0"] == 11 * number + 10


def test_another_topic_than_before_is_refused(cluster: Cluster) -> None:
    with pytest.raises(TopicError, match="another topic"):
        Topic(cluster.servers, "trips", {"topic": "other", "offsets": {}})


def test_a_topic_of_another_cluster_is_refused_though_it_has_the_same_name_and_offsets(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.write(0, 20)
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
        read(topic, run, 20)
    other = Cluster()
    other.write(20, 60)
    with (
        open_run(tmp_path) as run,
        Topic(other.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic,
        pytest.raises(TopicError, match="another cluster"),
    ):
        read(topic, run, 60)


class Named(Topic):
    """A topic whose brokers say which one it is; the mock cannot."""

    id = "first"

    def ask_id(self) -> Future[Any]:
        found = Future[Any]()
        found.set_result(SimpleNamespace(topic_id=self.id))
        return found


def test_a_topic_that_was_made_anew_under_the_same_name_is_refused_on_resumption_and_at_every_look(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Also one whose position is older than the question which topic it is: the first answer is kept."""
    cluster.write(0, 20)
    with open_run(tmp_path) as run, Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
        read(topic, run, 20)
        assert "topic_id" not in run.position(POSITION)
    cluster.write(20, 20)
    how: dict[str, Any] = {"poll_seconds": 0.1, "look_seconds": 0}
    with open_run(tmp_path) as run, Named(cluster.servers, "trips", run.position(POSITION), **how) as named:
        read(named, run, 40)
        assert run.position(POSITION)["topic_id"] == "first"
        cluster.write(40, 20)
        named.id = "second"
        with pytest.raises(TopicError, match="made anew"):
            read(named, run, 60)
        named = Named(cluster.servers, "trips", run.position(POSITION), **how)
        named.id = "second"
        with named, pytest.raises(TopicError, match="made anew"):
            read(named, run, 60)
        assert run.t == 40


@pytest.mark.parametrize("kept", [True, False])
def test_a_topic_goes_on_from_what_was_kept_and_never_behind_a_batch_that_was_refused(
    cluster: Cluster, tmp_path: Path, kept: bool
) -> None:
    bad = b'{"x": 0.5, "kind": "c"}'
    state = tmp_path / "state" if kept else None
    with Run.open(RunConfig(SCHEMA, 1.0), FolderSink(tmp_path / "out"), state=state) as run:
        with Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
            cluster.write(0, 10)
            read(topic, run, 10)
            cluster.producer.produce("trips", value=bad, partition=0)
            cluster.producer.flush(10)
            with pytest.raises(TableError):
                read(topic, run, 20)
            cluster.write(10, 10)
            with pytest.raises(TopicError, match="open the topic again"):
                read(topic, run, 20)
            assert run.t == 10
        with Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic:
            end = time.monotonic() + 60
            feed(run, topic, "json", bad_rows="null", stop=lambda: run.t >= 21 or time.monotonic() > end)
        assert (run.t, run.tally.bad) == (21, 1)


def test_an_error_among_messages_that_were_read_skips_none_of_them(cluster: Cluster, tmp_path: Path) -> None:
    cluster.write(0, 20)
    with open_run(tmp_path) as run:
        with Topic(cluster.servers, "trips", poll_seconds=0.1) as topic:
            advance, left = topic._offsets.advance, [5]

            def interrupted(partition: int, offset: int) -> None:
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
                advance(partition, offset)

            topic._offsets.advance = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                read(topic, run, 20)
            with pytest.raises(TopicError, match="open the topic again"):
                read(topic, run, 20)
        with Topic(cluster.servers, "trips", run.position(POSITION), poll_seconds=0.1) as topic:
            read(topic, run, 20)


def test_partitions_that_appear_later_are_read_from_their_beginning(cluster: Cluster, tmp_path: Path) -> None:
    """The mock cannot add partitions, so the first looks are made to see one of them only."""
    cluster.write(0, 20)

    class Growing(Topic):
        seen = 1

        def partitions(self) -> list[int] | None:
            found = super().partitions()
            return found and found[: self.seen]

    with open_run(tmp_path) as run, Growing(cluster.servers, "trips", poll_seconds=0.1, look_seconds=0) as topic:
        read(topic, run, 10)
        topic.seen = 2
        read(topic, run, 20)
        assert run.position(POSITION)["offsets"]["1"] == 10


def test_a_broker_that_is_away_is_no_end() -> None:
    """Nobody listens at first; the consumer stays idle and says why."""
    with Topic("127.0.0.1:1", "trips", poll_seconds=0.05, timeout=0.3, options={"log_level": 0}) as topic:
        assert topic.next() is None
        assert topic.trouble


def test_bad_messages_follow_the_policy(tmp_path: Path) -> None:
    values = [b'{"x":0.5,"kind":"a"}', b'{"x":7,"kind":"SECRET"}', b"", b'{"x":0.7,"kind":"b"}']
    batch = TopicBatch(values, [(0, number) for number in range(4)], {"topic": "t", "offsets": {"0": 4}})
    with open_run(tmp_path) as run:
        take(run, batch, "json", "null")
        assert (run.t, run.tally.bad) == (4, 2)
        assert run.position(POSITION)["offsets"] == {"0": 4}


@pytest.mark.parametrize("code", [6, 56])
def test_a_partition_whose_leader_has_just_changed_is_read_from_its_beginning(tmp_path: Path, code: int) -> None:
    """Where the library asks a second time for the offsets of a partition, it may take the last one for the first."""
    inside = list((Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*"))
    if not inside:
        pytest.skip("the library is not in the package")
    library = ctypes.CDLL(str(inside[0]))
    for name in ("conf_new", "new", "mock_cluster_new", "mock_cluster_bootstraps"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    handle = ctypes.c_void_p(library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), None, 0))
    brokers = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(handle, 2))
    address = ctypes.string_at(library.rd_kafka_mock_cluster_bootstraps(brokers)).decode()
    library.rd_kafka_mock_topic_create(brokers, b"trips", 2, 1)
    writer = Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(20):
        writer.produce("trips", value=b'{"x": 0.5, "kind": "a"}', partition=number % 2)
    assert writer.flush(20) == 0
    list_offsets = ctypes.c_int16(2)
    library.rd_kafka_mock_push_request_errors_array(brokers, list_offsets, ctypes.c_size_t(1), (ctypes.c_int * 1)(code))
    with open_run(tmp_path) as run, Topic(address, "trips", poll_seconds=0.1, options={"log_level": 0}) as topic:
        read(topic, run, 20)
    del writer
    library.rd_kafka_mock_cluster_destroy(brokers)
    library.rd_kafka_destroy(handle)
