"""The curl lines of the page about the service work as they are written."""

import inspect
import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.serve_kills import free_port
from headwater.cli.run import command as run_command
from headwater.service import ServiceConfig
from tests.service.conftest import SCHEMA
from tests.service.test_process import Process

PAGE = (Path(__file__).parents[2] / "docs/service.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_every_curl_line_works(tmp_path: Path) -> None:
    service = Process(tmp_path)
    try:
        (tmp_path / "trips.csv").write_text("x,kind\n" + "".join(f"{i / 3000},{'ab'[i % 2]}\n" for i in range(2500)))
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)).replace("\\\n", " ")
        lines = [line for line in blocks.splitlines() if line.startswith("curl")]
        assert len(lines) >= 8
        for line in lines:
            command = [word.replace(":8640", f":{service.port}") for word in shlex.split(line)]
            done = subprocess.run([*command, "-sS"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, (line, done.stderr)
            assert done.stdout
    finally:
        service.process.kill()
        service.process.wait()


def test_the_configuration_on_the_page_can_be_read(tmp_path: Path) -> None:
    found = re.search(r'```toml title="service.toml"\n(.*?)```', PAGE, flags=re.DOTALL)
    assert found is not None
    (tmp_path / "service.toml").write_text(found[1])
    SCHEMA.save(tmp_path / "trips.toml")
    config = ServiceConfig.load(tmp_path / "service.toml")
    assert config.tokens == tmp_path / "service.tokens"
    assert config.runs["trips"].public


def test_limits_are_those_of_a_run_on_the_command_line_unless_given(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "trips.toml")
    run = '[runs.{name}]\nschema = "trips.toml"\nepsilon = 1\n'
    text = run.format(name="a") + run.format(name="b") + 'rows = "all"\nkeep = "all"\n'
    (tmp_path / "service.toml").write_text(text)
    runs = ServiceConfig.load(tmp_path / "service.toml").runs
    options = inspect.signature(run_command).parameters
    assert (str(runs["a"].rows), str(runs["a"].keep)) == (options["rows"].default, options["keep"].default)
    assert (runs["b"].rows, runs["b"].keep) == (None, None)
    assert runs["a"].mechanism == options["mechanism"].default == "auto"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None or shutil.which("curl") is None, reason="no nginx, or no curl")
def test_posts_and_events_pass_through_the_proxy_of_the_page(tmp_path: Path) -> None:
    """With TLS. An event must come while its stream is open, so nothing between keeps it back."""
    found = re.search(r'```nginx title="headwater.conf"\n(.*?)```', PAGE, flags=re.DOTALL)
    assert found is not None
    write_certificate(tmp_path, "data.example.org")
    port = free_port()
    service = Process(tmp_path, more='hosts = ["data.example.org"]')
    server = (
        found[1]
        .replace("listen 443", f"listen 127.0.0.1:{port}")
        .replace("/etc/ssl/data.example.org", str(tmp_path / "cert"))
        .replace("8640", str(service.port))
    )
    folders = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; worker_processes 1; events {{}}"
    (tmp_path / "nginx.conf").write_text(f"{main} http {{ access_log off; {folders} {server} }}")
    with (tmp_path / "proxy.log").open("wb") as log:
        proxy = subprocess.Popen([str(shutil.which("nginx")), "-c", str(tmp_path / "nginx.conf")], stderr=log)
    base = f"https://data.example.org:{port}/runs/trips"
    ask = ["curl", "-sS", "--cacert", str(tmp_path / "cert.pem"), "--resolve", f"data.example.org:{port}:127.0.0.1"]
    ask += [
        "--retry",
        "20",
        "--retry-connrefused",
        "--retry-delay",
        "1",
        "-H",
        f"Origin: https://data.example.org:{port}",
    ]
    try:
        post = [*ask, f"{base}/records", "-H", "Content-Type: application/json", "-d", '{"x": 0.5, "kind": "a"}']
        assert subprocess.check_output(post) == b'{"accepted":1,"t":1}'
        with subprocess.Popen([*ask, "-N", f"{base}/events"], stdout=subprocess.PIPE, text=True) as events:
            assert events.stdout is not None
            assert next(line for line in events.stdout if line.startswith("id:")) == "id: 1\n"
            assert subprocess.check_output(post) == b'{"accepted":1,"t":2}'
            assert next(line for line in events.stdout if line.startswith("id:")) == "id: 2\n"
            events.kill()
    finally:
        for process in (proxy, service.process):
            process.terminate()
            process.wait()


def write_certificate(folder: Path, name: str) -> None:
    """A certificate that vouches for itself, as cert.pem and cert.key."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(datetime.now(UTC) - timedelta(days=1)).not_valid_after(
        datetime.now(UTC) + timedelta(1)
    )
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    (folder / "cert.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "cert.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port = 8640", "at least one run"),
        ("prot = 8640", "prot is not a setting"),
        ('[runs."a/b"]\nschema = "trips.toml"\nepsilon = 1', "letters, digits"),
        ("[runs.trips]\nepsilon = 1", "schema is missing"),
        ('[runs.trips]\nschema = "trips.toml"', "epsilon is missing"),
        ('[runs.trips]\nschema = "trips.toml"\nepsilon = 1\nevery = "never"', "neither a number"),
        (
            '[limits]\nrecords = 0\n[runs.trips]\nschema = "trips.toml"\nepsilon = 1',
            "limits.records: Expected `int` >= 1",
        ),
        ('[limits]\nmemory_bytes = 700000000\n[runs.trips]\nschema = "trips.toml"\nepsilon = 1', "six times"),
        ('host = "0.0.0.0"\n[runs.trips]\nschema = "trips.toml"\nepsilon = 1', "without tokens"),
        (
            '[runs.a]\nschema="trips.toml"\nepsilon=1\nout="o"\n[runs.b]\nschema="trips.toml"\nepsilon=1\nout="o"',
            "share",
        ),
        ('[runs.trips]\nschema = "trips.toml"\nepsilon = 1\nkeep = 0', "runs.trips.keep must be a whole number"),
        (
            '[runs.trips]\nschema = "trips.toml"\nepsilon = 1\npublic = "no"',
            "runs.trips.public: Expected `bool`, got `str`",
        ),
        ("[[", "not TOML"),
    ],
)
def test_a_configuration_that_is_wrong_says_where(tmp_path: Path, text: str, problem: str) -> None:
    SCHEMA.save(tmp_path / "trips.toml")
    (tmp_path / "service.toml").write_text(text)
    with pytest.raises(ValueError, match=problem) as caught:
        ServiceConfig.load(tmp_path / "service.toml")
    assert str(tmp_path / "service.toml") in str(caught.value)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_the_unit_on_the_page_is_one(tmp_path: Path) -> None:
    """What is not there on this machine, a program and a user, is replaced."""
    found = re.search(r'```ini title="headwater.service"\n(.*?)```', PAGE, flags=re.DOTALL)
    assert found is not None
    unit = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", found[1]).replace("User=headwater", "User=root")
    (tmp_path / "headwater.service").write_text(unit)
    command = ["systemd-analyze", "verify", "headwater.service"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
