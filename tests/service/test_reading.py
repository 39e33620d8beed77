"""Reading releases: formats, windows, conditions, validators; the same answer whenever it is asked for."""

import csv as plain_csv
import gzip
import io
import json
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

from headwater import Datetime, Schema, TimeOfDay
from headwater.public.schema import schema_from_dict
from headwater.run import Schedule
from tests.service.conftest import SCHEMA, Open, records

BASE = "/runs/trips/releases"


def write(client: TestClient, count: int, start: int = 0) -> None:
    assert client.post("/runs/trips/records", json=records(count, start)).status_code == 200


def published(client: TestClient, count: int) -> list[int]:
    """The times of the releases, as soon as there are so many."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        times = [one["t"] for one in client.get(BASE).json()["releases"]]
        if len(times) >= count:
            return times
        time.sleep(0.02)
    raise AssertionError(f"only {times}")


def table(content: bytes, form: str) -> pa.Table:
    if form == "parquet":
        return pyarrow.parquet.read_table(io.BytesIO(content))
    if form == "arrow":
        return pa.ipc.open_stream(content).read_all()
    rows = json.loads(content) if form == "json" else list(plain_csv.DictReader(io.StringIO(content.decode())))
    return pa.Table.from_pylist([{"x": float(row["x"]), "kind": row["kind"]} for row in rows])


def test_all_formats_hold_the_same_table(opened: Open) -> None:
    client = opened()
    write(client, 250)
    assert published(client, 2) == [100, 200]
    for t in ("200", "now"):
        found = {form: table(client.get(f"{BASE}/{t}/data.{form}").content, form) for form in ("parquet", "arrow")}
        found |= {form: table(client.get(f"{BASE}/{t}/data.{form}").content, form) for form in ("csv", "json")}
        rows = {form: [list(row.values()) for row in one.to_pylist()] for form, one in found.items()}
        assert len(rows["parquet"]) == (200 if t == "200" else 250)
        assert all(other == rows["parquet"] for other in rows.values()), t


def test_the_release_of_this_moment_is_the_one_that_is_published(opened: Open) -> None:
    client = opened(schedule=Schedule(records=300))
    write(client, 150)
    early = client.get(f"{BASE}/now/data.parquet")
    assert (early.headers["Headwater-T"], client.get(f"{BASE}/150/card").status_code) == ("150", 404)
    assert client.get(f"{BASE}/now/data.parquet").content == early.content
    write(client, 150, 150)
    published(client, 1)
    kept, now = client.get(f"{BASE}/300/data.parquet"), client.get(f"{BASE}/now/data.parquet")
    while now.headers["Headwater-T"] != "300":
        now = client.get(f"{BASE}/now/data.parquet")
    assert kept.content == now.content


def test_what_was_served_is_the_same_after_a_restart(opened: Open) -> None:
    client = opened()
    write(client, 250)
    published(client, 2)
    addresses = [f"{BASE}/{t}/data.{form}" for t in (100, 200, "now") for form in ("parquet", "csv", "json")]
    addresses += [f"{BASE}/now/data.csv?last=50", f"{BASE}/now/data.csv?rows=7", f"{BASE}/100/card"]
    before = {address: client.get(address).content for address in addresses}
    client.service.close()  # type: ignore[attr-defined]
    client = opened()
    assert {address: client.get(address).content for address in addresses} == before


def test_windows_samples_and_conditions(opened: Open) -> None:
    client = opened()
    write(client, 250)
    published(client, 2)
    card = client.get(f"{BASE}/now/card?last=50").json()
    start, end = card["span"]
    assert end == 250
    assert 0 < start <= 200
    assert table(client.get(f"{BASE}/now/data.arrow?last=50").content, "arrow").num_rows == 250 - start
    assert table(client.get(f"{BASE}/now/data.arrow?rows=1234").content, "arrow").num_rows == 1234
    where = {"where": json.dumps({"kind": "b", "x": [0.25, 0.5]})}
    for t, rows in (("now", 40), ("200", None)):
        asked = where | ({"rows": str(rows)} if rows else {})
        found = table(client.get(f"{BASE}/{t}/data.arrow", params=asked).content, "arrow")
        assert found.num_rows == rows or found.num_rows > 0
        assert set(found["kind"].to_pylist()) == {"b"}
        assert all(0.25 <= x <= 0.5 for x in found["x"].to_pylist())
    whole = table(client.get(f"{BASE}/200/data.arrow").content, "arrow").to_pylist()
    some = table(client.get(f"{BASE}/200/data.arrow?rows=20").content, "arrow").to_pylist()
    assert len(some) == 20
    assert all(row in whole for row in some)


@pytest.mark.parametrize(
    "address",
    [
        f"{BASE}/now/data.csv?rows=0",
        f"{BASE}/now/data.csv?rows=-1",
        f"{BASE}/now/data.csv?rows=99999999999",
        f"{BASE}/now/data.csv?rows=1&rows=2",
        f"{BASE}/now/data.csv?last=x",
        f"{BASE}/now/data.csv?where=x",
        f"{BASE}/now/data.csv?where=[1]",
        f'{BASE}/now/data.csv?where={{"nowhere":1}}',
        f'{BASE}/now/data.csv?where={{"x":0.5}}',
        f'{BASE}/now/data.csv?where={{"x":[2,3]}}',
        f"{BASE}/now/data.csv?what=1",
        f"{BASE}/100/data.csv?last=5",
        f"{BASE}/100/data.csv?rows=101",
        f"{BASE}/100/card?last=5",
        f"{BASE}?after=-1",
    ],
)
def test_questions_that_make_no_sense_are_a_400(opened: Open, address: str) -> None:
    client = opened()
    write(client, 100)
    published(client, 1)
    answer = client.get(address)
    assert answer.status_code == 400, answer.text
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "address", ["/nowhere", "/runs/other", f"{BASE}/7/card", f"{BASE}/x/card", f"{BASE}/1/data.xls"]
)
def test_what_is_not_there_is_a_404(opened: Open, address: str) -> None:
    client = opened()
    assert client.get(address).status_code == 404
    assert client.get(f"{BASE}/now/card").status_code == 404  # no record has come


def test_validators(opened: Open) -> None:
    client = opened()
    write(client, 150)
    published(client, 1)
    for address in (f"{BASE}/100/data.parquet", f"{BASE}/now/data.csv", f"{BASE}/100/data.json", f"{BASE}/100/card"):
        whole = client.get(address)
        assert client.get(address, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
        assert client.get(address, headers={"If-None-Match": '"other"'}).content == whole.content
        head = client.head(address)
        assert (head.content, head.headers["content-length"]) == (b"", str(len(whole.content)))
    assert "immutable" in client.get(f"{BASE}/100/data.csv").headers["Cache-Control"]
    assert client.get(f"{BASE}/now/data.csv").headers["Cache-Control"] == "no-cache"


def test_pages_are_compressed_for_those_who_take_it_and_tables_are_a_proxys_work(opened: Open) -> None:
    client = opened()
    write(client, 150)
    for address, encoding in (("/runs/trips/live", "gzip"), (f"{BASE}/now/data.csv", "")):
        plain = client.get(address)
        with client.stream("GET", address, headers={"Accept-Encoding": "gzip"}) as packed:
            raw = b"".join(packed.iter_raw())
        assert packed.headers.get("Content-Encoding", "") == encoding
        assert (gzip.decompress(raw) if encoding else raw) == plain.content


def test_the_list_and_the_facts_of_a_run(opened: Open) -> None:
    client = opened()
    write(client, 320)
    published(client, 3)
    assert [one["t"] for one in client.get(f"{BASE}?after=100&limit=1").json()["releases"]] == [200]
    facts = client.get("/runs/trips").json()
    assert (facts["t"], facts["releases"], facts["newest"], facts["epsilon"]) == (320, 3, 300, 1.0)
    assert schema_from_dict(facts["schema"]).to_dict() == SCHEMA.to_dict()
    assert [run["name"] for run in client.get("/runs").json()["runs"]] == ["trips"]


def test_the_paper_has_no_windows_and_says_so(opened: Open) -> None:
    client = opened(mechanism="paper", schema=SCHEMA)
    write(client, 50)
    answer = client.get(f"{BASE}/now/card?last=10")
    assert answer.status_code == 400
    assert client.get(f"{BASE}/now/card").status_code == 200
    assert client.get("/runs/trips/live").json()["window"] is None


def test_the_page_is_html_and_its_numbers_are_those_of_the_release(opened: Open) -> None:
    client = opened(schedule=Schedule(records=1000))
    assert client.get("/runs/trips/live").json() == {"name": "trips", "t": 0}
    write(client, 2500)
    page = client.get("/runs/trips", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    found = client.get("/runs/trips/live").json()
    now = table(client.get(f"{BASE}/now/data.arrow").content, "arrow")
    kinds = now["kind"].to_pylist()
    assert found["t"] == len(kinds) == 2500
    counts = dict(zip(found["columns"][1]["labels"], found["columns"][1]["counts"][0], strict=False))
    assert counts == {"a": kinds.count("a"), "b": kinds.count("b")}
    assert found["window"]["rows"] == sum(found["columns"][1]["counts"][1])


def test_reading_leaves_the_ledger_as_it_is(opened: Open, tmp_path: Path) -> None:
    client = opened()
    write(client, 120)
    run = client.service.runs["trips"].run  # type: ignore[attr-defined]
    before = str(run.synth.ledger())
    for last in (None, 10, 20, 50):
        client.get(f"{BASE}/now/data.csv", params={} if last is None else {"last": last})
    assert str(run.synth.ledger()) == before
    assert run.t == 120


def test_a_release_in_csv_is_read_in_every_format_and_a_removed_table_is_gone(opened: Open) -> None:
    client = opened(format="csv", keep=2)
    for number in range(4):
        write(client, 100, 100 * number)
        published(client, number + 1)
    tables = [
        table(client.get(f"{BASE}/400/data.{form}").content, form) for form in ("csv", "json", "parquet", "arrow")
    ]
    rows = [[(round(row["x"], 9), row["kind"]) for row in one.to_pylist()] for one in tables]
    assert len(rows[0]) == 400
    assert all(other == rows[0] for other in rows)
    assert client.get(f"{BASE}/100/data.csv").status_code == 410
    assert client.get(f"{BASE}/100/card").json()["t"] == 100


def test_days_are_dates_in_csv_and_json(opened: Open) -> None:
    client = opened(schema=Schema(day=Datetime("2024-01-01", "2024-12-31", step="1d"), at=TimeOfDay(step="1h")))
    client.post("/runs/trips/records", json=[{"day": f"2024-01-{1 + i % 9:02}", "at": "13:45"} for i in range(100)])
    for form in ("csv", "json"):
        content = client.get(f"{BASE}/now/data.{form}").content
        row = (json.loads(content) if form == "json" else list(plain_csv.DictReader(io.StringIO(content.decode()))))[0]
        assert re.fullmatch(r"2024-\d\d-\d\d", row["day"]), form
        assert re.fullmatch(r"\d\d:00:00", row["at"]), form


@pytest.mark.parametrize("put", ["link", "pipe", "folder", "junk", "nothing", "card"])
def test_what_somebody_has_put_in_place_of_a_published_table_is_not_shown_and_stops_nobody(
    opened: Open, tmp_path: Path, put: str
) -> None:
    client = opened()
    write(client, 100)
    published(client, 1)
    (tmp_path / "secret").write_bytes(b"SECRET")
    folder = tmp_path / "out" / "release-000000000100"
    file = folder / ("card.json" if put == "card" else "data.parquet")
    file.unlink()
    match put:
        case "link":
            file.symlink_to(tmp_path / "secret")
        case "pipe" | "card":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "junk":
            file.write_bytes(b"junk")
    client.service.runs["trips"].releases._cards.clear()  # type: ignore[attr-defined]
    for asked in ("data.parquet", "data.csv", "data.json?rows=5", 'data.arrow?where={"kind":"a"}'):
        answer = client.get(f"{BASE}/100/{asked}")
        assert answer.status_code == (404 if put == "card" else 200 if asked + put == "data.parquetjunk" else 410)
        assert b"SECRET" not in answer.content
