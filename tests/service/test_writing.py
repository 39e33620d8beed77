"""Posting records: formats, order, retries, refusals."""

import gzip
import io
import json
import re
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

from headwater.public.categories import Boolean, Category
from headwater.public.moments import Datetime, TimeOfDay
from headwater.public.numbers import Integer, Number
from headwater.public.person import Person
from headwater.public.schema import Schema
from headwater.run.lock import StateDamagedError, StoreError
from headwater.run.state import _readable
from headwater.secret.batch import Batch
from headwater.service import Limits, ServiceConfig
from headwater.service.answers import ProblemError
from headwater.service.write import Accepted, Form, Post
from tests.service.conftest import SCHEMA, Open, records
from tests.support.kept_runs import failing

JSON = {"Content-Type": "application/json"}
ADDRESS = "/runs/trips/records"


def arrow_stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


def csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


def all_formats(count: int) -> dict[str, bytes]:
    rows = records(count)
    table = pa.Table.from_pylist(rows)
    return {
        "application/json": json.dumps(rows, indent=1).encode(),
        "application/x-ndjson": "\n".join(map(json.dumps, rows)).encode() + b"\n",
        "text/csv": csv(table),
        "application/vnd.apache.arrow.stream": arrow_stream(table),
        "application/vnd.apache.parquet": parquet(table),
    }


def test_every_format_is_taken_and_counts_the_same_rows(opened: Open) -> None:
    client = opened()
    run = client.service.runs["trips"].run  # type: ignore[attr-defined]
    rows = list[bytes]()
    take = run.take

    def remember(found: Batch, **more: object) -> int:
        rows.append(found.rows.tobytes())
        return int(take(found, **more))

    run.take = remember
    for number, (kind, body) in enumerate(all_formats(30).items(), 1):
        answer = client.post(ADDRESS, content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()) == (200, {"accepted": 30, "t": 30 * number}), kind
    assert len(set(rows)) == 1


def test_one_object_is_one_record_and_an_empty_array_is_none(opened: Open) -> None:
    client = opened()
    assert client.post(ADDRESS, json={"x": 0.5, "kind": "a"}).json() == {"accepted": 1, "t": 1}
    assert client.post(ADDRESS, json=[]).json() == {"accepted": 0, "t": 1}
    assert client.post(ADDRESS, content=b"", headers={"Content-Type": "application/x-ndjson"}).json()["t"] == 1


def test_whether_a_post_is_refused_does_not_depend_on_posts_that_are_read_with_it(opened: Open) -> None:
    writer, line = opened().service.runs["trips"].writer, b'{"x": 0.5, "kind": "a"}'  # type: ignore[attr-defined]
    for body in (
        line,
        line + b"\n",
        line + b"\r\n",
        line + b"\n\n",
        b"\n" + line,
        line + b"\n\n" + line,
        line + b"\n\r\n",
    ):
        posts = [Post(text, Form("jsonl"), None, b"") for text in (body, body, line)]
        writer._read_all(posts[:1])
        writer._read_all(posts[1:])
        assert (posts[0].batch is None) == (posts[1].batch is None), body
        assert posts[2].batch is not None


def test_a_compressed_body_is_taken(opened: Open) -> None:
    body = gzip.compress(json.dumps(records(500)).encode())
    answer = opened().post(ADDRESS, content=body, headers={**JSON, "Content-Encoding": "gzip"})
    assert answer.json() == {"accepted": 500, "t": 500}


def test_the_same_key_counts_once_also_after_a_restart(opened: Open, tmp_path: Path) -> None:
    client = opened()
    keyed = {"Idempotency-Key": "delivery-7"}
    first = client.post(ADDRESS, json=records(3), headers=keyed)
    again = client.post(ADDRESS, json=records(3), headers=keyed)
    assert first.json() == again.json() == {"accepted": 3, "t": 3}
    assert again.headers["Idempotency-Replayed"] == "true"
    assert client.post(ADDRESS, json=records(4), headers=keyed).status_code == 409
    client.post(ADDRESS, json=records(5))
    client.service.close()  # type: ignore[attr-defined]
    client = opened()
    later = client.post(ADDRESS, json=records(3), headers=keyed)
    assert later.json() == {"accepted": 3, "t": 3}
    assert client.get("/runs/trips").json()["t"] == 8


def test_a_refused_body_does_not_use_up_its_key(opened: Open) -> None:
    client = opened()
    keyed = {"Idempotency-Key": "delivery-7"}
    assert client.post(ADDRESS, json={"x": 7, "kind": "q"}, headers=keyed).status_code == 422
    assert client.post(ADDRESS, json=records(2), headers=keyed).json() == {"accepted": 2, "t": 2}


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson", "text/csv"])
def test_a_bad_record_is_named_by_row_and_column_and_nothing_is_taken(opened: Open, kind: str) -> None:
    client = opened()
    rows = [*records(5), {"x": 0.5, "kind": "SECRET-VALUE"}, *records(5)]
    bodies = {
        "application/json": json.dumps(rows),
        "application/x-ndjson": "\n".join(map(json.dumps, rows)),
        "text/csv": "x,kind\n" + "\n".join(f"{row['x']},{row['kind']}" for row in rows),
    }
    answer = client.post(ADDRESS, content=bodies[kind], headers={"Content-Type": kind})
    assert answer.status_code == 422
    assert (answer.json()["row"], answer.json()["column"]) == (5, "kind")
    assert "SECRET-VALUE" not in answer.text
    assert client.get("/runs/trips").json()["t"] == 0


COLUMNS = Schema(
    x=Number(0, 1, outside="error"),
    n=Integer(0, 9),
    kind=Category("a", "b"),
    good=Boolean(),
    when=Datetime("2024-01-01", "2024-12-31"),
    day=Datetime("2024-01-01", "2024-12-31", step="1d", format="%d.%m.%Y"),
    count=Datetime("2024-01-01", "2024-12-31", format="epoch-s"),
    at=TimeOfDay(),
)
GOOD: dict[str, object] = {
    "x": 0.5,
    "n": 3,
    "kind": "a",
    "good": True,
    "when": "2024-03-04",
    "day": "04.03.2024",
    "count": 1709510400,
}
GOOD |= {"at": "13:45"}
HEADER = ",".join(GOOD)
ODD: list[object] = ["odd", None, 7.5, [], {}, True, "\ud800", "13:45+01:00"]
WRONG: list[Any] = [
    *([{**GOOD, name: value}] for name in GOOD for value in ODD),
    [{**GOOD, "more": 1}],
    [{"x": 0.5}],
    [{name.upper(): value for name, value in GOOD.items()}],
    HEADER.replace(",", ";") + "\n",
    HEADER.replace("day,", "") + "\n",
    HEADER.title() + "\n",
    HEADER + ",more\n",
    '"x";"n"\n',
    HEADER + "\n" + ",".join(map(str, GOOD.values())) + ",\n",
    HEADER + "\n\0\n",
    HEADER + '\n"\n',
    HEADER + "\n",
]


def test_what_to_do_about_a_refused_post_is_something_that_its_sender_can_do(opened: Open) -> None:
    """Options of commands, arguments and schemas are the operator's."""
    client, said = opened(schema=COLUMNS), set[str]()
    csv_bodies = [body.encode() for body in WRONG if isinstance(body, str)]
    csv_bodies += [csv_bodies[-1].strip() + b"\n\xff\n", "\ufeffx".encode("utf-16")]
    for body in (*csv_bodies, *(json.dumps(body).encode() for body in WRONG if not isinstance(body, str))):
        kind = "application/json" if body.startswith(b"[") else "text/csv"
        answer = client.post(ADDRESS, content=body, headers={"Content-Type": kind})
        said |= {answer.json()["detail"]} if answer.status_code == 422 else set()
    assert len({detail.partition(": ")[2].partition(";")[0] for detail in said}) > 20
    for detail in said:
        assert not re.search("--(?!data)|=|declare |bad_rows|schema file|widen|out of the schema|encoding", detail), (
            detail
        )


def test_the_person_of_a_post_is_asked_of_its_sender(opened: Open) -> None:
    client = opened(person=Person("who", records=3))
    for record in ({"x": 0.5, "kind": "a"}, {"x": 0.5, "kind": "a", "who": None}):
        answer = client.post(ADDRESS, json=[record])
        assert answer.status_code == 422
        assert "--" not in answer.json()["detail"]
        assert "=" not in answer.json()["detail"]


def test_settings_may_have_a_delta_and_people(opened: Open, tmp_path: Path) -> None:
    """Both, from a file of settings: what is promised says so, and another δ does not continue the run."""
    SCHEMA.save(tmp_path / "s.toml")
    text = '[runs.trips]\nschema = "s.toml"\nepsilon = 1\ndelta = 1e-9\nout = "out"\n'
    text += 'person = { column = "who", records = 4, per_bucket = 2 }\n'
    (tmp_path / "service.toml").write_text(text)
    kept = ServiceConfig.load(tmp_path / "service.toml").runs["trips"]
    assert (kept.delta, kept.person) == (1e-9, Person("who", records=4, per_bucket=2))
    client = opened(delta=kept.delta, person=kept.person)
    rows = [{**record, "who": number % 5} for number, record in enumerate(records(120))]
    assert client.post(ADDRESS, json=rows).json() == {"accepted": 120, "t": 120}
    facts = client.get("/runs/trips").json()
    assert (facts["epsilon"], facts["delta"]) == (1, 1e-9)
    assert facts["guarantee"].startswith("ε = 1, δ = 1e-09 for one person, of whom at most 4 records count")
    assert client.get("/runs/trips/releases/now/card").json()["delta"] == 1e-9
    assert re.search(r"delta\S* 1e-09", client.get("/metrics").text)
    client.service.close()  # type: ignore[attr-defined]
    for other in ({"delta": 1e-8, "person": kept.person}, {"delta": 1e-9}):
        with pytest.raises(StoreError, match=r"begun with another (delta|person)"):
            opened(**other)
    client = opened(delta=kept.delta, person=kept.person)
    assert client.get("/runs/trips").json()["t"] == 120
    assert client.get("/runs/trips/status").json()["tally"]["capped"] >= 100


def test_rows_are_counted_through_a_long_body(opened: Open) -> None:
    """Whatever is wrong: a value, or text that is no record."""
    client, good = opened(), '{"x": 0.5, "kind": "a"}'
    for bad in ('{"x": 0.5, "kind": "zebra"}', "zebra", "{}"):
        answer = client.post(
            ADDRESS, content="\n".join([good] * 70_000 + [bad]), headers={"Content-Type": "application/x-ndjson"}
        )
        assert (answer.status_code, answer.json()["row"], answer.json()["line"]) == (422, 70_000, 70_001)
        assert answer.json()["detail"].startswith("line 70001")
    for bad in ("0.5,zebra", "0.5,a,zebra"):
        lines = ["x,kind", *["0.5,a"] * 70_000, bad]
        answer = client.post(ADDRESS, content="\n".join(lines), headers={"Content-Type": "text/csv"})
        assert (answer.status_code, answer.json()["line"]) == (422, 70_002)
        assert answer.json().get("row", 70_000) == 70_000
    table = pa.table({"x": [0.5] * 70_001, "kind": ["a"] * 70_000 + ["zebra"]})
    kind = "application/vnd.apache.arrow.stream"
    answer = client.post(ADDRESS, content=arrow_stream(table), headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["row"]) == (422, 70_000)
    assert answer.json()["detail"].startswith("row 70000")


def test_one_bad_post_does_not_touch_those_that_are_committed_with_it(opened: Open) -> None:
    client = opened()
    gate, run = threading.Event(), client.service.runs["trips"].run  # type: ignore[attr-defined]
    take = run.take
    run.take = lambda rows, **more: (gate.wait(10), take(rows, **more))[1]
    answers = dict[int, int]()

    def post(number: int) -> None:
        row = {"x": 0.5, "kind": "a" if number % 5 else "bad"}
        answers[number] = client.post(ADDRESS, json=row).status_code

    threads = [threading.Thread(target=post, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert answers == {number: 200 if number % 5 else 422 for number in range(20)}
    assert run.t == 16


def test_any_number_of_bad_posts_under_one_key_do_not_touch_another(opened: Open) -> None:
    """They wait together with a good one while the writer is busy."""
    writer = opened().service.runs["trips"].writer  # type: ignore[attr-defined]
    bodies = [b"[{}]"] * 1500 + [json.dumps(records(1)).encode()]
    posts = [Post(body, Form("json"), b"k" * 16 if body == b"[{}]" else None, b"d" * 16) for body in bodies]
    writer.commit(posts)
    assert posts.pop().answer.result() == Accepted(1, 1)
    problems = [post.answer.exception() for post in posts]
    assert {problem.status for problem in problems if isinstance(problem, ProblemError)} == {422}
    assert all(isinstance(problem, ProblemError) for problem in problems)


def test_concurrent_writers_get_one_order(opened: Open) -> None:
    client = opened()
    ends, lock = list[tuple[int, int]](), threading.Lock()

    def post(size: int) -> None:
        for _ in range(5):
            answer = client.post(ADDRESS, json=records(size)).json()
            with lock:
                ends.append((answer["t"] - answer["accepted"], answer["t"]))

    threads = [threading.Thread(target=post, args=(size,)) for size in (1, 2, 3, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends.sort()
    assert ends[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(ends))
    assert ends[-1][1] == 5 * (1 + 2 + 3 + 50)


def test_a_full_queue_is_a_429_and_nothing_is_dropped_silently(opened: Open) -> None:
    client = opened(Limits(queued_posts=2))
    gate, run = threading.Event(), client.service.runs["trips"].run  # type: ignore[attr-defined]
    take = run.take
    run.take = lambda rows, **more: (gate.wait(20), take(rows, **more))[1]
    found = list[tuple[int, str]]()

    def post() -> None:
        answer = client.post(ADDRESS, json={"x": 0.5, "kind": "a"})
        found.append((answer.status_code, answer.headers.get("Retry-After", "")))

    threads = [threading.Thread(target=post) for _ in range(12)]
    for thread in threads:
        thread.start()
    while not any(status == 429 for status, _ in found):
        threading.Event().wait(0.01)
    gate.set()
    for thread in threads:
        thread.join()
    assert {("1" if status == 429 else "") == after for status, after in found} == {True}
    assert run.t == sum(status == 200 for status, _ in found)


def test_records_that_releases_before_them_hold_up_are_bounded(opened: Open) -> None:
    """They are kept, and not counted before a release that is due is published: beyond a limit posts are refused."""
    client = opened(Limits(queued_bytes=20_000))
    run = client.service.runs["trips"].run  # type: ignore[attr-defined]
    gate, publish = threading.Event(), run.sink.publish
    run.sink.publish = lambda *given: (gate.wait(60), publish(*given))[1]
    taken, refused = 0, None
    while refused is None:
        answer = client.post(ADDRESS, json=records(500, taken))
        if answer.status_code == 200:
            taken += 500
        else:
            refused = answer
        assert taken <= 10_000
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert "published first" in refused.json()["detail"]
    assert taken > 1000
    gate.set()
    end = time.monotonic() + 60
    while client.post(ADDRESS, json=records(500, taken)).status_code == 429:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert run.t == taken + 500


def test_a_full_disk_is_a_503_and_the_retry_counts_once(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    client = opened()
    run = client.service.runs["trips"].run  # type: ignore[attr-defined]
    keyed = {"Idempotency-Key": "k"}

    def full(*_: object, **__: object) -> None:
        raise StoreError(Path("state"), "the disk is full", "make room")

    with monkeypatch.context() as patch:
        patch.setattr(run, "take", full)
        answer = client.post(ADDRESS, json=records(3), headers=keyed)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert client.get("/readyz").status_code == 503
    assert client.post(ADDRESS, json=records(3), headers=keyed).json() == {"accepted": 3, "t": 3}
    assert client.get("/readyz").status_code == 200


def test_a_commit_that_is_kept_in_spite_of_an_error_is_known_to_the_retry(opened: Open) -> None:
    client = opened()
    run = client.service.runs["trips"].run  # type: ignore[attr-defined]
    take, keyed = run.take, {"Idempotency-Key": "k"}

    def keep_then_fail(rows: object, **more: object) -> int:
        take(rows, **more)
        raise RuntimeError("after the commit")

    run.take = keep_then_fail
    assert client.post(ADDRESS, json=records(3), headers=keyed).status_code == 503
    run.take = take
    again = client.post(ADDRESS, json=records(3), headers=keyed)
    assert again.json() == {"accepted": 3, "t": 3}
    assert run.t == 3


@pytest.mark.parametrize("lasting", [True, False])
def test_a_disk_that_fails_at_the_end_of_a_commit_lets_no_post_count_twice(opened: Open, lasting: bool) -> None:
    """A post is told that nothing was counted only if that is so; its retry finds its receipt as soon as it can."""
    client = opened()
    keyed = {"Idempotency-Key": "k"}
    with failing(lasting=lasting):
        answer = client.post(ADDRESS, json=records(3), headers=keyed)
        assert answer.status_code == 503
        assert ("may have counted" in answer.json()["detail"]) == lasting
    assert client.post(ADDRESS, json=records(3), headers=keyed).json() == {"accepted": 3, "t": 3}
    assert client.post(ADDRESS, json=records(3)).json() == {"accepted": 3, "t": 6}


def test_posted_csv_is_divided_and_encoded_as_the_schema_declares_it_for_files(opened: Open) -> None:
    """The file that a run reads can be posted as it is; a content type that says UTF-8 wins."""
    schema = Schema(x=Number(0, 1, decimal=","), town=Category("Köln", "Bonn"))
    client = opened(schema=schema.with_reading(delimiter=";", encoding="latin-1"))
    text = "x;town\n0,5;Köln\n0,25;Bonn\n"
    for kind, encoding in (("text/csv", "latin-1"), ('text/csv; charset="UTF-8"', "utf-8")):
        answer = client.post(ADDRESS, content=text.encode(encoding), headers={"Content-Type": kind})
        assert answer.json()["accepted"] == 2, answer.text
    wrong = client.post(ADDRESS, content=text.encode(), headers={"Content-Type": "text/csv"})  # Ã¶ is no town
    assert (wrong.status_code, wrong.json()["column"]) == (422, "town")
    plain = client.post(ADDRESS, json=[{"x": 0.5, "town": "Köln"}])  # JSON is UTF-8, whatever is declared
    assert plain.json() == {"accepted": 1, "t": 5}


def refused(client: TestClient, status: int, body: bytes, **headers: str) -> None:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = client.post(ADDRESS, content=body, headers=sent)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/runs/trips").json()["t"] == 0


def test_what_is_not_a_body_is_refused(opened: Open) -> None:
    client = opened(Limits(body_bytes=10_000, records=100))
    arrow = all_formats(50)["application/vnd.apache.arrow.stream"]
    refused(client, 415, b"{}", content_type="text/plain")
    refused(client, 415, b"{}", content_type="application/json; charset=latin-1")
    refused(client, 415, b"{}", content_type="application/json", content_encoding="br")
    refused(client, 400, b"{}", content_type="application/json", content_encoding="gzip")
    refused(client, 400, gzip.compress(b"[]")[:-4], content_type="application/json", content_encoding="gzip")
    refused(client, 400, b"{}", content_type="application/json", idempotency_key="x" * 300)
    refused(client, 413, b" " * 10_001, content_type="application/json")
    refused(client, 413, gzip.compress(b" " * 10_000_000), content_type="application/json", content_encoding="gzip")
    refused(client, 413, b"x,kind\n" + b"0.5,a\n" * 101, content_type="text/csv")
    refused(client, 422, b"[" * 5000, content_type="application/json")
    refused(client, 422, b'[{"x":0.5,"kind":"a"}] trailing', content_type="application/json")
    refused(client, 422, b'{"x":0.5,"x":0.6,"kind":"a"}', content_type="application/json")
    refused(client, 422, b"\xff\xfe", content_type="text/csv")
    refused(client, 422, b"", content_type="text/csv")
    refused(client, 422, arrow[: len(arrow) // 2], content_type="application/vnd.apache.arrow.stream")
    refused(client, 422, parquet(pa.table({"y": [1]})), content_type="application/vnd.apache.parquet")
    whole = all_formats(50)["application/vnd.apache.parquet"]
    refused(client, 422, whole[: len(whole) // 2], content_type="application/vnd.apache.parquet")
    refused(client, 422, whole, content_type="application/vnd.apache.arrow.stream")


def test_bombs_in_columnar_formats_are_refused_without_being_unpacked(opened: Open) -> None:
    """Small files that claim very many rows, or values that are very long when they are unpacked."""
    client = opened(Limits(records=100_000))
    many = pa.table({"x": pa.array([0.5]).take(pa.array([0] * 3_000_000)), "kind": ["a"] * 3_000_000})
    body = parquet(many)
    assert len(body) < 100_000
    refused(client, 413, body, content_type="application/vnd.apache.parquet")
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, many.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(many)
    refused(client, 413, sink.getvalue(), content_type="application/vnd.apache.arrow.stream")
    long = pa.table({"x": [0.5] * 50, "kind": ["a" * 1_000_000] * 50})
    sink = io.BytesIO()
    pyarrow.parquet.write_table(long, sink, compression="zstd")
    assert len(sink.getvalue()) < 100_000
    refused(client, 422, sink.getvalue(), content_type="application/vnd.apache.parquet")


@pytest.mark.parametrize("key", ["x", "more"])
def test_a_number_of_many_digits_takes_no_other_record_of_an_array_along(opened: Open, key: str) -> None:
    client = opened(bad_rows="null", ignore_extra=True)
    odd = json.dumps({"x": 0.5, "kind": "a"} | {key: "DIGITS"}).replace('"DIGITS"', "9" * 5000)
    lines = [json.dumps(records(1)[0]), odd, json.dumps(records(1)[0])]
    for number, (kind, body) in enumerate(
        {"application/x-ndjson": "\n".join(lines), "application/json": f"[{','.join(lines)}]"}.items(), start=1
    ):
        answer = client.post(ADDRESS, content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()) == (200, {"accepted": 3, "t": 3 * number}), kind


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson", "text/csv"])
def test_bad_records_follow_the_policy_of_the_run(opened: Open, tmp_path: Path, policy: str, kind: str) -> None:
    client = opened(bad_rows=policy)
    rows = [*records(3), {"x": 0.5, "kind": "SECRET"}, *records(2), {"x": "SECRET", "kind": "a"}]
    sent = {
        "application/json": json.dumps(rows),
        "application/x-ndjson": "\n".join(map(json.dumps, rows)),
        "text/csv": "x,kind\n" + "\n".join(f"{row['x']},{row['kind']}" for row in rows),
    }
    answer = client.post(ADDRESS, content=sent[kind], headers={"Content-Type": kind})
    assert answer.json() == {"accepted": 7, "t": 7}  # a record that is bad has arrived, and is nowhere
    status = client.get("/runs/trips/status")
    assert status.json()["tally"]["bad"] == 2
    assert status.json()["losses"] == []  # of seven records
    client.post(ADDRESS, content=json.dumps(rows * 2), headers={"Content-Type": "application/json"})
    (lost,) = client.get("/runs/trips/status").json()["losses"]
    assert lost.startswith("29% of the rows are bad")
    assert "SECRET" not in status.text + lost
    quarantine = tmp_path / "out.state.bad-rows.jsonl"
    assert quarantine.exists() == (policy == "quarantine")
    if quarantine.exists():
        assert quarantine.read_text().count("SECRET") == 6
        assert quarantine.stat().st_mode & 0o077 == 0


def test_quarantine_says_which_record_of_the_run_was_bad_whatever_came_in_the_same_commit(
    opened: Open, tmp_path: Path
) -> None:
    """Posts of all kinds, small and large, taken at once: a bad row has the number that the run counts it under."""
    writer = opened(bad_rows="quarantine").service.runs["trips"].writer  # type: ignore[attr-defined]
    good, bad = '{"x": 0.5, "kind": "a"}', '{"x": 0.5, "kind": "%s"}'
    bodies = {
        "small": "\n".join([good, bad % "r2", good]),
        "csv": "x,kind\n0.5,a\n0.5,r5\n",
        "other": "\n".join([bad % "r6", bad % "r7"]),
        "large": "\n".join([*[good] * 300, bad % "r308"]),
    }
    posts = [Post(body.encode(), Form("csv" if name == "csv" else "jsonl"), None, b"") for name, body in bodies.items()]
    writer.commit(posts)
    lines = (tmp_path / "out.state.bad-rows.jsonl").read_text().splitlines()
    found = [(f"r{row['record']}", row["text"]) for row in map(json.loads, lines)]
    assert len(found) == 5
    assert all(name in text.replace('"', ",").replace("}", ",").split(",") for name, text in found), found


@pytest.mark.parametrize("ignore", [False, True])
def test_columns_that_the_schema_does_not_name_are_refused_or_left_out(opened: Open, ignore: bool) -> None:
    client = opened(ignore_extra=ignore)
    rows = [one | {"SECRET-more": "SECRET"} for one in records(3)]
    frame = pd.DataFrame(rows)
    bodies = {
        "application/json": json.dumps(rows).encode(),
        "application/x-ndjson": "\n".join(map(json.dumps, rows)).encode(),
        "text/csv": frame.to_csv(index=False).encode(),
        "application/vnd.apache.parquet": frame.to_parquet(),
    }
    for number, (kind, body) in enumerate(bodies.items()):
        answer = client.post("/runs/trips/records", content=body, headers={"Content-Type": kind})
        assert answer.status_code == (200 if ignore else 422), kind
        assert "SECRET" not in answer.text
        if ignore:
            assert answer.json()["t"] == 3 * (number + 1)
        else:
            assert re.search(r"\b1 (key|column).s. that the schema does not name", answer.json()["detail"])


def test_a_service_that_is_short_of_memory_for_a_moment_calls_nothing_damaged_and_goes_on(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, keyed = opened(), {"Idempotency-Key": "k"}
    run = client.service.runs["trips"].run  # type: ignore[attr-defined]

    def short(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("headwater.synthesizer.Synthesizer.take", short)
        assert client.post(ADDRESS, json=records(3), headers=keyed).status_code == 503
    assert client.post(ADDRESS, json=records(3), headers=keyed).json() == {"accepted": 3, "t": 3}
    assert client.post(ADDRESS, json=records(3)).json() == {"accepted": 3, "t": 6}
    with pytest.raises(StoreError, match="not enough memory") as caught, _readable(run.state):
        short()
    assert not isinstance(caught.value, StateDamagedError)
