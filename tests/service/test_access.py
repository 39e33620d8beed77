"""Who may do what: roles, runs, names of the service, other sites; and what nobody can fetch."""

import base64
import json
import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headwater.public.files import FileRefusedError
from headwater.service import RunSettings, Service, ServiceConfig, tokens
from headwater.service.app import create_app
from tests.service.conftest import SCHEMA, Open, records

WRITE, READ = "/runs/trips/records", "/runs/trips/releases"


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, str]:
    """A token of each role, and one for another run."""
    file = tmp_path / "service.tokens"
    found = {role: tokens.create(file, role, "trips") for role in tokens.ROLES}
    return found | {
        "other": tokens.create(file, "read", "others"),
        "all": tokens.create(file, "read"),
        "file": str(file),
    }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("POST", WRITE, {"write"}),
        ("GET", "/runs/trips", {"read", "admin", "all"}),
        ("GET", READ, {"read", "admin", "all"}),
        ("GET", "/runs/trips/live", {"read", "admin", "all"}),
        ("GET", "/runs/trips/status", {"admin"}),
    ],
)
def test_a_role_may_do_its_own_and_nothing_else(
    opened: Open, kept: dict[str, str], method: str, address: str, allowed: set[str]
) -> None:
    client = opened(tokens=Path(kept["file"]))
    for role in ("write", "read", "admin", "other", "all"):
        answer = client.request(method, address, json=records(1), headers=bearer(kept[role]))
        expected = 200 if role in allowed else 404 if role == "other" else 403
        assert answer.status_code == expected, role
    assert client.request(method, address, json=records(1)).status_code == 401
    assert client.request(method, address, json=records(1), headers=bearer("hw_nonsense")).status_code == 401


def test_a_key_of_another_token_tells_nothing_of_its_body(opened: Open, kept: dict[str, str]) -> None:
    others = [tokens.create(Path(kept["file"]), "write", "trips") for _ in range(2)]
    client, key = opened(tokens=Path(kept["file"])), {"Idempotency-Key": "1"}
    client.post(WRITE, json=records(3), headers={**bearer(kept["write"]), **key})
    for token, guess in zip(others, (records(3), records(2)), strict=True):  # the right body, and a wrong one
        answer = client.post(WRITE, json=guess, headers={**bearer(token), **key})
        assert answer.status_code == 200
        assert "Idempotency-Replayed" not in answer.headers


def test_a_public_run_is_read_without_a_token_and_written_with_one(opened: Open, kept: dict[str, str]) -> None:
    client = opened(tokens=Path(kept["file"]), public=True)
    assert client.get(READ).status_code == 200
    assert client.post(WRITE, json=records(1)).status_code == 401
    assert client.get("/runs/trips/status").status_code == 401
    assert [run["name"] for run in client.get("/runs").json()["runs"]] == ["trips"]


def test_names_of_runs_are_not_told_to_whoever_may_not_read_them(opened: Open, kept: dict[str, str]) -> None:
    client = opened(tokens=Path(kept["file"]))
    assert client.get("/runs").json()["runs"] == []
    assert client.get("/runs", headers=bearer(kept["other"])).json()["runs"] == []
    assert client.get("/runs", headers=bearer(kept["write"])).json()["runs"] == []
    there = client.get("/runs/trips", headers=bearer(kept["other"]))
    nowhere = client.get("/runs/nothing", headers=bearer(kept["other"]))
    assert (there.status_code, there.content) == (nowhere.status_code, nowhere.content)
    assert client.get("/runs/trips").content == client.get("/runs/nothing").content


def test_a_browser_logs_in_with_the_token_as_its_password(opened: Open, kept: dict[str, str]) -> None:
    client = opened(tokens=Path(kept["file"]))
    answer = client.get("/runs/trips", headers={"Accept": "text/html"})
    assert answer.headers["WWW-Authenticate"].startswith("Basic")
    login = base64.b64encode(f"me:{kept['read']}".encode()).decode()
    assert client.get("/runs/trips", headers={"Authorization": f"Basic {login}"}).status_code == 200


def test_a_token_is_kept_as_a_hash_and_revoked_while_the_service_runs(
    opened: Open, kept: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(kept["file"])
    assert all(token not in file.read_text() for token in kept.values())
    assert file.stat().st_mode & 0o077 == 0
    client = opened(tokens=file)
    assert client.get(READ, headers=bearer(kept["read"])).status_code == 200
    monkeypatch.setattr(tokens, "RELOAD", 0.0)
    tokens.revoke(file, kept["read"].split("_")[1])
    assert client.get(READ, headers=bearer(kept["read"])).status_code == 401
    assert client.get(READ, headers=bearer(kept["all"])).status_code == 200
    file.unlink()
    assert client.get(READ, headers=bearer(kept["all"])).status_code == 401


def test_half_a_token_or_another_ones_secret_is_nothing(opened: Open, kept: dict[str, str]) -> None:
    client = opened(tokens=Path(kept["file"]))
    _, mine, secret = kept["read"].split("_", 2)
    _, other, _ = kept["admin"].split("_", 2)
    for guess in (f"hw_{mine}_", f"hw_{mine}_{secret[:-1]}", f"hw_{other}_{secret}", secret, mine, "", "*"):
        assert client.get(READ, headers=bearer(guess)).status_code == 401


def test_without_tokens_only_loopback_is_served(tmp_path: Path) -> None:
    run = {"trips": RunSettings(SCHEMA, 1.0, out=tmp_path / "out")}
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):  # noqa: S104 - refused
        with pytest.raises(ValueError, match="without tokens"):
            ServiceConfig(run, host=host)
    tokens.create(tmp_path / "tokens", "write")
    assert ServiceConfig(run, host="0.0.0.0", tokens=tmp_path / "tokens").host == "0.0.0.0"  # noqa: S104


def test_a_file_of_tokens_that_others_may_write_is_refused(tmp_path: Path) -> None:
    tokens.create(tmp_path / "tokens", "write")
    os.chmod(tmp_path / "tokens", 0o666)  # noqa: S103 - that is what is refused
    with pytest.raises(FileRefusedError, match="may write"):
        Service(ServiceConfig({"trips": RunSettings(SCHEMA, 1.0, out=tmp_path / "out")}, tokens=tmp_path / "tokens"))


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "[",
        "localhost@evil.example:80",
        "[::1].evil.com",
        "[::1]x:80",
        "127.0.0.1/x",
        "127.0.0.1:80:80",
        "[::1",
        "data.example.evil.com",
        "::1",
        "",
    ],
)
def test_a_foreign_name_is_refused_so_rebinding_reads_nothing(opened: Open, host: str) -> None:
    client = opened(hosts=("data.example",))
    assert client.get("/runs", headers={"Host": host}).status_code == 421
    for ours in ("data.example", "DATA.example:443", "[::1]:8640", "localhost"):
        assert client.get("/runs", headers={"Host": ours}).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_another_site_cannot_write(opened: Open, headers: dict[str, str]) -> None:
    client = opened()
    assert client.post(WRITE, json=records(1), headers=headers).status_code == 403
    assert client.options(WRITE, headers=headers).status_code in (403, 405)
    answer = client.get("/runs", headers=headers)
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert client.post(WRITE, json=records(1), headers={"Origin": "http://127.0.0.1:8640"}).status_code == 200


def test_no_address_leads_to_raw_data_states_or_keys(opened: Open, tmp_path: Path) -> None:
    client = opened()
    client.post(WRITE, json=[{"x": 0.123456789, "kind": "a"}] * 120)
    (tmp_path / "secret.txt").write_text("SECRET")
    ways = ("..", "%2e%2e", "..%2f", "%2e%2e%2f", "....//", "%252e%252e%252f", "..\\", "..%5c", "%00")
    names = ("out.state", "secret.txt", "out.state.lock", "etc/passwd")
    places = (
        "/runs/trips/releases/{}",
        "/runs/trips/releases/100/{}",
        "/static/{}",
        "/runs/{}",
        "/{}",
        "/runs/trips/{}",
    )
    for place in places:
        for way in ways:
            for name in names:
                answer = client.get(place.format(f"{way}/{name}"))
                assert answer.status_code in (400, 404), (place, way, name)
                assert b"SECRET" not in answer.content
    for address in ("/runs/r%2frecords", "/runs/trips%2Frecords", "/runs%2ftrips", "/run%73"):
        assert client.get(address).status_code == client.post(address, json=records(1)).status_code == 404, address
    for word in ("records", "state", "journal", "key", "store", "snapshot", "raw", ".state", "debug", "docs"):
        assert client.get(f"/runs/trips/{word}").status_code in (404, 405), word
    for form in ("state", "sqlite", "pickle", "csv/../../../../out.state"):
        assert client.get(f"/runs/trips/releases/100/data.{form}").status_code == 404


def test_answers_errors_metrics_and_logs_hold_no_value(
    opened: Open, capfd: pytest.CaptureFixture[str], kept: dict[str, str]
) -> None:
    client = opened()
    mark = "PERSON-4711"
    said = [
        client.post(WRITE, json={"x": 0.5, "kind": mark}).text,
        client.post(WRITE, json={"x": mark, "kind": "a"}).text,
        client.post(WRITE, json={mark: 1}).text,
        client.post(WRITE, content=f"{mark},b\n1,2\n", headers={"Content-Type": "text/csv"}).text,
        client.post(WRITE, content=mark, headers={"Content-Type": "application/json"}).text,
        client.post(WRITE, content=mark, headers={"Content-Type": "application/vnd.apache.parquet"}).text,
        client.get("/runs/trips/status").text,
        client.get("/metrics").text,
        client.get(f"/runs/{mark}").text,
        client.get(f"/runs/trips/releases/{mark}/card").text,
        "".join(capfd.readouterr()),
    ]
    assert not [text for text in said if mark in text]
    assert "4xx" not in said[7]
    assert '"422"' not in said[7]  # whether records were refused is made from raw data


def test_names_and_values_that_a_sender_chose_are_in_no_answer_and_no_log(
    opened: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where one is nearly a name of the schema, and where line ends are gone and values stand among the names."""
    client = opened()
    mark = "PERSON-4711"
    bodies = [
        ("application/json", json.dumps([{"x": 0.5, "kind": "a", mark: 1}]), "1 key(s) that the schema does not name"),
        ("application/json", json.dumps([{"x": 0.5, "Kind ": "a"}]), 'missing key "kind"'),
        ("application/x-ndjson", json.dumps({"x": 0.5, "kind": "a", mark: 1, f"{mark}2": 1}), "2 key(s)"),
        ("text/csv", f"x,kind,{mark}\n0.5,a,1\n", "1 column(s) that the schema does not name"),
        ("text/csv", f"x,Kind ,{mark}\n0.5,a,1\n", 'missing column "kind"'),
        ("text/csv", f"x,kind,{mark},{mark}\n0.5,a,1,1\n", "two columns have the same name"),
        ("text/csv", f"x,kind0.5,{mark}0.25,b", "--data-binary"),
        ("application/x-www-form-urlencoded", f"x,kind0.5,{mark}", "--data-binary"),
    ]
    for kind, body, said in bodies:
        answer = client.post(WRITE, content=body, headers={"Content-Type": kind})
        assert answer.status_code == (415 if "form" in kind else 422)
        assert said in answer.json()["detail"], answer.json()
        assert not [word for word in (mark, "Kind ", "kind0") if word in answer.text + "".join(capfd.readouterr())]


def test_an_error_that_nobody_expected_shows_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("PERSON-4711")

    with Service(ServiceConfig({"trips": RunSettings(SCHEMA, 1.0, out=tmp_path / "out")})) as service:
        monkeypatch.setattr(service.runs["trips"].releases, "card", fail)
        client = TestClient(create_app(service), base_url="http://localhost", raise_server_exceptions=False)
        answer = client.get(f"{READ}/7/card")
    assert answer.status_code == 500
    output = "".join(capfd.readouterr())
    assert "PERSON-4711" not in answer.text + output
    assert answer.json()["status"] == 500
    assert "RuntimeError" in [json.loads(line).get("error") for line in output.splitlines()]


def test_html_in_names_is_text(opened: Open) -> None:
    from headwater.public.categories import Category
    from headwater.public.numbers import Number
    from headwater.public.schema import Schema

    evil = "<script>alert(1)</script>"
    schema = Schema({evil: Category(evil, '"><img src=x onerror=alert(1)>'), "y": Number(0, 1)})
    client = opened(schema=schema)
    client.post(WRITE, json=[{evil: evil, "y": 0.5}] * 120)
    for address in ("/", "/runs/trips", READ):
        answer = client.get(address, headers={"Accept": "text/html"})
        assert "alert" not in answer.text
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    live = client.get("/runs/trips/live")
    assert live.headers["content-type"] == "application/json"
    assert live.headers["x-content-type-options"] == "nosniff"
