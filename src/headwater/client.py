"""A small client of a Headwater service: writes with retries that count once, reads tables."""

from __future__ import annotations

import http.client
import io
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from headwater.public.tables import is_missing, kind_of, record_of
from headwater.public.tally import row_text

_AGAIN = (408, 429, 502, 503, 504)
_LONGEST = 1.0  # seconds between two attempts


class ServiceError(RuntimeError):
    def __init__(self, status: int, detail: str, more: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.detail, self.more = status, detail, dict(more)


class Client:
    """One run of a service. Not to be shared between threads; make one for each.

    Parameters
    ----------
    address
        Of the run, such as ``"http://127.0.0.1:8640/runs/trips"``.
    token
        What `headwater token` printed, if the service needs one.
    patience, timeout
        For how many seconds a request is sent again while the service is away or busy, and one attempt may take.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8640/runs/trips")
    >>> client.write([{"delay": 3, "origin": "JFK"}])  # doctest: +SKIP
    1
    >>> client.now(rows=1000, where={"origin": "JFK"}).to_pandas()  # doctest: +SKIP
    """

    def __init__(
        self, address: str, token: str | None = None, *, patience: float = 60.0, timeout: float = 60.0
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of a run starts with http:// or https://, not {address!r}")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._base = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._patience, self._timeout = patience, timeout
        self._connection: http.client.HTTPConnection | None = None

    def write(self, table: object, *, key: str | None = None) -> int:
        """Write records, all of them or none, and return how many records the run has with them.

        They are on the service's disk when this returns. It is sent again after errors of the network, under the same
        key, so nothing is counted twice. Give a key of your own if your program may write the same again later.
        """
        content, media_type = _encoded(table)
        headers = {"Content-Type": media_type, "Idempotency-Key": key or uuid.uuid4().hex}
        return int(json.loads(self._request("POST", "/records", headers, content))["t"])

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self._request("GET", "")))

    def releases(self) -> list[dict[str, Any]]:
        found = list[dict[str, Any]]()
        while True:
            after = found[-1]["t"] if found else 0
            more = json.loads(self._request("GET", f"/releases?after={after}"))["releases"]
            if not more:
                return found
            found += more

    def card(self, t: int | None = None, *, last: int | None = None) -> dict[str, Any]:
        """The card of a published release, or of this moment's, perhaps of the last so many records only."""
        return dict(json.loads(self._request("GET", _place(t, "card", last=last))))

    def now(self, *, rows: int | None = None, where: Mapping[str, Any] | None = None, last: int | None = None) -> Any:  # noqa: ANN401
        """A ``pyarrow.Table``: the synthetic data set of this moment, perhaps of the last so many records only."""
        return self._table(None, rows=rows, where=where, last=last)

    def release(self, t: int, *, rows: int | None = None, where: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """A ``pyarrow.Table``: so many rows of the release at a time."""
        return self._table(t, rows=rows, where=where, last=None)

    def _table(self, t: int | None, *, where: Mapping[str, Any] | None, **asked: int | None) -> Any:  # noqa: ANN401
        import pyarrow as pa

        text = None if where is None else json.dumps(where)
        return pa.ipc.open_stream(self._request("GET", _place(t, "data.arrow", where=text, **asked))).read_all()

    def events(self) -> Iterator[dict[str, Any]]:
        """The state of the run, now and whenever it changes. Connects again when the service was away."""
        while True:
            connection = self._kind(self._host, self._port, timeout=self._timeout)
            try:
                connection.request("GET", f"{self._base}/events", headers=self._headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    raise _error(answer.status, answer.read())
                for line in io.TextIOWrapper(answer, "utf-8"):
                    if line.startswith("data:"):
                        yield json.loads(line[5:])
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(1)

    def _request(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
        """One request, again and again while that can help: reading and keyed writing can be repeated."""
        end, pause = time.monotonic() + self._patience, 0.05
        while True:
            status, content, after = self._attempt(method, path, headers or {}, body)
            if 200 <= status < 300:
                return content
            if status and status not in _AGAIN:
                raise _error(status, content)
            pause = min(max(pause * 2, after), _LONGEST)
            if time.monotonic() + pause > end:
                if status:
                    raise _error(status, content)
                raise ConnectionError(f"there is no service at {self._host}:{self._port or ''}, or it is away")
            time.sleep(pause)

    def _attempt(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes, float]:
        """Status, content and how long to stay away; the status is 0 if there was no answer."""
        try:
            if self._connection is None:
                self._connection = self._kind(self._host, self._port, timeout=self._timeout)
            self._connection.request(method, self._base + path, body or None, {**self._headers, **headers})
            answer = self._connection.getresponse()
            after = answer.getheader("Retry-After") or ""
            return answer.status, answer.read(), float(after) if after.isdigit() else 0.0
        except (OSError, http.client.HTTPException):
            self.close()
            return 0, b"", 0.0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _encoded(table: Any) -> tuple[bytes, str]:  # noqa: ANN401 - any kind of table
    """Records and columns without a type as JSON lines, everything else as an Arrow stream."""
    kind = kind_of(table)
    if kind == "columns" and not all(map(_is_typed, table.values())):
        columns = [list(column) for column in table.values()]
        table, kind = [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)], "records"
    if kind == "records":
        found = map(record_of, [table] if isinstance(table, Mapping) else table)
        lines = ["null" if record is None else row_text(record) for record in found]  # null is a bad row there
        return "\n".join(lines).encode(), "application/x-ndjson"
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif not isinstance(table, pa.Table):
        names = list(table) if isinstance(table, Mapping) else table.columns
        table = pa.table({str(name): _array(table[name]) for name in names})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream"


def _array(column: Any) -> Any:  # noqa: ANN401 - a column of any library as one of Arrow
    """A column with the type that it has; one without as text, each value by itself."""
    import pyarrow as pa

    if _is_typed(column):
        return column.to_arrow() if hasattr(column, "to_arrow") else pa.array(column)
    texts = map(_text, column.to_list())  # half a character is no text in JSON lines either, and a bad row of its own
    found = [None if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    return pa.array(found, pa.binary()).view("string")


def _text(value: Any) -> str | None:  # noqa: ANN401 - a value of any type
    """A value as JSON lines would have it."""
    if type(value) is str:
        return value
    found = None if is_missing(value) else json.loads(row_text({"": value}))[""]
    return found if found is None or isinstance(found, str) else json.dumps(found)


def _is_typed(column: Any) -> bool:  # noqa: ANN401 - of any library
    """Whether all values of a column have a type that they had before: texts of Python may hold what Arrow's cannot."""
    dtype = getattr(column, "dtype", getattr(column, "type", "object"))
    if getattr(dtype, "storage", "") == "python":
        return False
    kinds = getattr(dtype, "categories", None)
    return str(dtype).lower() != "object" and (not hasattr(kinds, "dtype") or _is_typed(kinds))


def _place(t: int | None, part: str, **asked: object) -> str:
    found = {name: value for name, value in asked.items() if value is not None}
    return f"/releases/{'now' if t is None else int(t)}/{part}" + (f"?{urlencode(found)}" if found else "")


def _error(status: int, content: bytes) -> ServiceError:
    try:
        found = dict(json.loads(content))
    except (ValueError, TypeError):
        found = {}
    return ServiceError(status, str(found.pop("detail", "the service gave no reason")), found)
