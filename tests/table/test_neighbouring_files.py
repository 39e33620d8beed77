"""Two files that differ in one record differ, for the reader, in that record alone.

Pairs of files are drawn: the same records but for one, which is written longer, shorter, quoted, with line ends inside,
is missing, or is refused. Where the replaced record is accepted, both files give as many records, the same batch ends
and the same other records. Where it is refused, both give the same up to the batch that holds it, and one ends there.

``HEADWATER_NIGHTLY=1`` draws more than 10,000 pairs.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater import Boolean, Category, Datetime, Integer, Number, Schema, TableError, TimeOfDay
from headwater.public.columns import Column
from headwater.public.folder import folders
from headwater.run import FolderSink, Run, RunConfig, Schedule, feed
from headwater.secret.read import lines as reader_lines
from headwater.secret.read.lines import InputChangedError
from headwater.secret.read.source import open_source
from tests.support.batch_points import points_in_places
from tests.support.nightly import NIGHTLY

PAIRS = settings(max_examples=600 if NIGHTLY else 60, suppress_health_check=[HealthCheck.too_slow], database=None)

COLUMNS: dict[str, Column] = {
    "number": Number(0, 1, missing=True),
    "integer": Integer(2**53 - 100, 2**53 + 100),
    "label": Category("a", "b", "", "1", "1.0", 'say "so", twice', "two\nlines", other="b"),
    "maybe": Category("red", "green", missing=True),
    "flag": Boolean(missing=True),
    "when": Datetime("2024-01-01", "2024-12-31", "1h"),
    "clock": TimeOfDay("1min", missing=True),
    "gap": Integer(0, 99, missing=True, null_values=["NA", "?"]),
    "code": Number(-1000, 1000, step=0.5, missing=True, null_values=["NA", "-999"]),
    "money": Number(0, 10**6, decimals=2, decimal=",", thousands="."),
    "price": Number(0, 10**6, decimals=2, unit="£"),
    "spread": Number(0.01, 1000, scale="log"),
    "day": Datetime("2024-01-01", "2024-12-31", "1d", format="%d.%m.%Y"),
    "stamp": Datetime("2024-01-01", "2024-12-31", "1s", format="epoch-s"),
    "colour": Category("red", "NA?", other="red", missing=True, null_values=["NA"]),
    "serial": Integer(0, 10**6),  # drawn only where asked for
}
TEXTS: dict[str, list[str]] = {  # the refused ones are among them
    "number": [
        "0.5",
        "0.5000000000000000000000000",
        " .5 ",
        "5e-1",
        "",
        "nan",
        "1e999",
        "+0.25",
        "nan(1)",
        "0x1",
        "-nan",
    ],
    "integer": ["7", "007", "7.0", "9007199254740993", "+5", "99999999999999999999", "0x10", "7.5", "", " 12 "],
    "label": ["a", "b", "", "1", "1.0", 'say "so", twice', "two\nlines", "something else" * 50, "ü" * 30],
    "maybe": ["red", "green", "", "blue", "\n", " "],
    "flag": ["true", "FALSE", "yes", "0", "", "maybe", "TRUE "],
    "when": [
        "2024-02-03",
        "2024-02-03T04:05:06.000001",
        "20240203",
        "0000-01-01",
        "",
        "2024-02-03T04:05Z",
        "2024-02-30",
    ],
    "clock": ["13:45", "13:45:10.", "134510", "", "25:00", "13:45:10.123456789"],
    "gap": ["7", "NA", " NA ", "?", "N/A", "", "7.0", "??"],
    "code": ["7", "NA", "-999", " -999", "-999.0", "-99", "x", ""],
    "money": ["1.234,5", "1234,5", "0,50", "7", "1.5", "1,2,3", "", "12.34,5"],
    "price": ["£5", "5 £", "-£5", "£-5", "£", "5", "££5", "5,00 £", "", " 5£ ", "£nan", "£1e3"],
    "spread": ["0", "0.01", "5e2", "1e999", "-1", "x", "999.99999999999999"],
    "day": ["01.02.2024", "1.2.2024", "2024-02-01", "31.02.2024", "", "01.02.2024 "],
    "stamp": ["1710000000", "1710000000.75", "1e9", "1" * 400, "2024-02-01", "", " 1710000001", "sNaN"],
    "colour": ["red", "NA", "NA ", "NA?", "", "blue", "two\nNA"],
}


def accepted(name: str) -> list[str]:
    """The texts that the column reads."""
    found = []
    for text in TEXTS[name]:
        with suppress(TableError):
            COLUMNS[name].encode([text])
            found.append(text)
    return found


ACCEPTED = {name: accepted(name) for name in TEXTS}

Record = dict[str, str]
Pair = tuple[Schema, list[Record], int, Record]


@st.composite
def pairs(draw: st.DrawFn, *, serial: bool = False) -> Pair:
    """A schema, records that it accepts, the number of one of them, and what stands there in the other file.

    With ``serial`` no two records are equal.
    """
    names = draw(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=4, unique=True))
    usual = st.fixed_dictionaries({name: st.sampled_from(ACCEPTED[name]) for name in names})
    drawn = draw(st.lists(usual, min_size=1, max_size=30))
    records = [{name: record[name] for name in names} for record in drawn]
    index = draw(st.integers(0, len(records) - 1))
    drawn_other = draw(st.fixed_dictionaries({name: st.sampled_from(TEXTS[name]) for name in names}))
    other = {name: drawn_other[name] for name in names}
    if serial:
        records = [record | {"serial": str(number)} for number, record in enumerate(records)]
        names, other = [*names, "serial"], other | {"serial": str(10**5)}
    return Schema({name: COLUMNS[name] for name in names}), records, index, other


S = TypeVar("S")
Seen = tuple[list[list[tuple[float, ...]]], TableError | None]


def seen(path: Path | str, schema: Schema, **options: Any) -> Seen:  # noqa: ANN401 - fields of Options
    """The encoded records of each batch, and the error that ended it."""
    batches: list[list[tuple[float, ...]]] = []
    try:
        with open_source(path, schema, **options) as source:
            for batch in source:
                if batch is None:
                    continue
                try:
                    batches.append([tuple(point) for point in schema.encode(batch.table).tolist()])
                except TableError as error:
                    raise batch.with_line(error) from None
    except TableError as error:
        return batches, error
    return batches, None


def check(one: Seen, other: Seen, index: int) -> None:
    """The statement of this module for the pair of what was seen; ``one`` is accepted as a whole."""
    assert one[1] is None
    if other[1] is None:
        assert [len(batch) for batch in one[0]] == [len(batch) for batch in other[0]]
        first, second = list(chain(*one[0])), list(chain(*other[0]))
        assert first[:index] == second[:index]
        assert first[index + 1 :] == second[index + 1 :]
    else:
        before = len(other[0])  # all batches before the one with the record are there, and no other
        assert sum(map(len, one[0][:before])) <= index < sum(map(len, one[0][: before + 1]))
        assert one[0][:before] == other[0]


def csv_text(records: list[Record], draw: st.DrawFn, end: str) -> Iterator[str]:
    names = list(records[0])
    yield ",".join(names) + end
    for record in records:
        out = io.StringIO(newline="")
        quoting: Any = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        csv.writer(out, lineterminator="\r\n", quoting=quoting).writerow(record.values())
        line = out.getvalue().removesuffix("\r\n")
        yield ("" if line == '""' and len(names) == 1 and quoting == csv.QUOTE_MINIMAL else line) + end


def json_text(records: list[Record], draw: st.DrawFn, end: str) -> Iterator[str]:
    for record in records:
        values: dict[str, Any] = {}
        for name, text in record.items():
            gap = text == "" and COLUMNS[name].missing and draw(st.booleans())
            values[name] = None if gap else text
        plain = json.dumps(values, ensure_ascii=draw(st.booleans()))
        for name, text in record.items():  # numbers and truth without quotes, where that is JSON
            try:
                json.loads(text)
            except ValueError:
                continue
            if draw(st.booleans()):
                plain = plain.replace(f'"{name}": {json.dumps(text)}', f'"{name}": {text.strip()}')
        yield plain + end


NESTED = {name: ("deep.", "deep.er.", "")[number % 3] for number, name in enumerate(COLUMNS)}
"""The objects that columns stand in, inside of each other."""


def nested_text(records: list[Record], draw: st.DrawFn, end: str) -> Iterator[str]:
    """Objects in objects, or dotted names; null, an empty object or nothing where an object holds nothing."""
    for record in records:
        inside: dict[str, list[str]] = {"deep.": [], "deep.er.": [], "": []}
        for name, text in record.items():
            if text == "" and COLUMNS[name].missing and draw(st.booleans()):
                continue
            (line,) = json_text([{name: text}], draw, "")
            value, prefix = line[line.index(":") + 2 : -1], NESTED[name]
            flat = bool(prefix) and draw(st.booleans())
            inside["" if flat else prefix].append(f'"{prefix if flat else ""}{name}": {value}')
        nothing = st.sampled_from([None, "null", "{}"])
        for key, prefix, outer in (("er", "deep.er.", "deep."), ("deep", "deep.", "")):
            held = "{" + ", ".join(inside[prefix]) + "}" if inside[prefix] else draw(nothing)
            if held is not None and any(NESTED[name].startswith(prefix) for name in record):
                inside[outer].append(f'"{key}": {held}')
        yield "{" + ", ".join(inside[""]) + "}" + end


Lines = list[bytes]


def two_lists(data: st.DataObject, pair: Pair, write: Any) -> tuple[Lines, Lines]:  # noqa: ANN401 - a function
    """Both files, record by record: the same but for the text of one of them."""
    _, records, index, other = pair
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [line.encode() for line in write(records, data.draw, end)]
    (replaced,) = [line.encode() for line in write([other], data.draw, end)][-1:]
    at = len(lines) - len(records) + index
    return lines, [*lines[:at], replaced, *lines[at + 1 :]]


def two_texts(data: st.DataObject, pair: Pair, write: Any) -> tuple[bytes, bytes]:  # noqa: ANN401 - a function
    """Both files as text."""
    one, other = two_lists(data, pair, write)
    return b"".join(one), b"".join(other)


def options_of(data: st.DataObject) -> dict[str, Any]:
    return {
        "batch_rows": data.draw(st.integers(1, 8)),
        "block_bytes": data.draw(st.sampled_from([7, 64, 1 << 22])),
    }


def partly(data: st.DataObject, schema: Schema, options: dict[str, Any], form: str = "") -> Schema:
    """The schema, or one of some of its columns; the others are ignored then."""
    if "nested" in form:
        schema = Schema({NESTED[name] + name: column for name, column in schema.columns.items()})
    if data.draw(st.booleans()):
        return schema
    options["ignore_extra"] = True
    names = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, unique=True))
    return Schema({name: schema.columns[name] for name in names})


Encoded = list[list[list[float] | None]]


def seen_all(path: Path | str, schema: Schema, **options: Any) -> Encoded:  # noqa: ANN401 - fields of Options
    """The encoded records of each batch under a policy that refuses none: None stands for a bad one."""
    batches: Encoded = []
    with open_source(path, schema, **options) as source:
        for batch in source:
            if batch is not None:
                batches.append(points_in_places(batch, schema, options["bad_rows"]))
    return batches


def check_all(one: Encoded, other: Encoded, index: int, size: int) -> None:
    """Nothing is refused: as many records, the same batch ends, and the same other records."""
    assert [len(batch) for batch in one] == [len(batch) for batch in other]
    first, second = list(chain(*one)), list(chain(*other))
    assert len(first) == size
    assert None not in first
    assert first[:index] == second[:index]
    assert first[index + 1 :] == second[index + 1 :]


GARBAGE = st.one_of(
    st.binary(max_size=40), st.text(alphabet='",\r {}[]:0.5ab\0é\\\\', max_size=20).map(str.encode)
) | st.sampled_from([b"[", b"[]", b"[{}]", b"\xff\xfe", b"\xfe\xff{", b"\xef\xbb\xbf"])
GARBAGE = GARBAGE.filter(lambda text: b"\n" not in text)


def two_lists_of_lines(data: st.DataObject, pair: Pair, write: Any) -> tuple[Lines, Lines]:  # noqa: ANN401 - a function
    """Both files, where each record is one line, and the replaced one may be anything at all."""
    _, records, index, other = pair
    flat = [{name: text.replace("\n", " ") for name, text in record.items()} for record in [*records, other]]
    for record in flat[:-1]:
        for name, text in record.items():
            with suppress(TableError):
                COLUMNS[name].encode([text])
                continue
            record[name] = next(good for good in ACCEPTED[name] if "\n" not in good)
    lines = [line.encode() for line in write(flat, data.draw, "\n")]
    replaced = lines.pop() if data.draw(st.booleans()) else data.draw(GARBAGE) + b"\n"
    lines = lines[: len(records) + (write is csv_text)]
    at = len(lines) - len(records) + index
    return lines, [*lines[:at], replaced, *lines[at + 1 :]]


def two_lines(data: st.DataObject, pair: Pair, write: Any) -> tuple[bytes, bytes]:  # noqa: ANN401 - a function
    """Both files of such lines as text."""
    one, other = two_lists_of_lines(data, pair, write)
    return b"".join(one), b"".join(other)


WRITERS: dict[str, Any] = {"csv": csv_text, "jsonl": json_text, "nested.jsonl": nested_text}
FORMATS = {"csv": "csv", "jsonl": "jsonl", "nested.jsonl": "jsonl"}


def array(text: bytes) -> bytes:
    """JSON lines as one array, each element indented and on lines of its own."""
    return b"[\n  " + b",\n  ".join(line.replace(b'": ', b'" :\n ') for line in text.splitlines()) + b"\n]\n"


COMPRESS: dict[str, Any] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
ENCODINGS = [None, "utf-16", "utf-16-be", "latin-1"]


def both(texts: Iterable[bytes], form: str, look: Callable[[Path], S]) -> tuple[S, S]:
    """What is seen of two files that hold these texts, compressed if their form says it."""
    compressed = COMPRESS.get(f".{form.rpartition('.')[2]}", bytes)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.{form}" for number in range(2)]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(compressed(text))
        return look(paths[0]), look(paths[1])


@pytest.mark.parametrize("name", [*WRITERS, "json", "nested.json"])
@PAIRS
@given(st.data())
def test_files_of_text(name: str, data: st.DataObject) -> None:
    pair = data.draw(pairs())
    multiline = name == "csv" and data.draw(st.booleans())
    lined = name == "csv" and not multiline
    texts = (two_lines if lined else two_texts)(data, pair, WRITERS[f"{name}l" if name.endswith("json") else name])
    if name.endswith("json"):
        texts = array(texts[0]), array(texts[1])
    options, ending = options_of(data) | {"multiline": multiline}, data.draw(st.sampled_from(sorted(COMPRESS)))
    encoding = data.draw(st.sampled_from(ENCODINGS))
    if encoding and not lined:  # a line may be anything, also what is no text
        texts = texts[0].decode().encode(encoding), texts[1].decode().encode(encoding)
    options |= {"encoding": None if lined else encoding, "format": name.rpartition(".")[2]}
    schema = partly(data, pair[0], options, name)
    check(*both(texts, f"{name}{ending}", partial(seen, schema=schema, **options)), pair[2])


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("name", WRITERS)
@PAIRS
@given(st.data())
def test_files_of_text_with_bad_lines(name: str, policy: str, data: st.DataObject) -> None:
    """Where bad rows are null records, a line may be replaced by any line, and nothing else changes."""
    pair = data.draw(pairs())
    texts = two_lines(data, pair, WRITERS[name])
    options, ending = options_of(data) | {"bad_rows": policy}, data.draw(st.sampled_from(sorted(COMPRESS)))
    schema = partly(data, pair[0], options, name)
    check_all(*both(texts, f"{name}{ending}", partial(seen_all, schema=schema, **options)), pair[2], len(pair[1]))


KEYS = [*COLUMNS, *(NESTED[name] + name for name in COLUMNS), "deep", "er", "deep.er", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
)


@pytest.mark.parametrize("policy", ["null", "quarantine"])
@pytest.mark.parametrize("name", ["jsonl", "nested.jsonl"])
@PAIRS
@given(st.data())
def test_arrays_with_bad_elements(name: str, policy: str, data: st.DataObject) -> None:
    """Where bad rows are null records, an element of an array may be replaced by any JSON."""
    pair = data.draw(pairs())
    lines = two_texts(data, pair, WRITERS[name])[0].splitlines()
    other = [*lines]
    other[pair[2]] = json.dumps(data.draw(JSON)).encode()
    options, encoding = options_of(data) | {"bad_rows": policy}, data.draw(st.sampled_from(ENCODINGS))
    options["encoding"] = encoding
    schema = partly(data, pair[0], options, name)
    texts = [array(b"\n".join(some)).decode().encode(encoding or "utf-8") for some in (lines, other)]
    check_all(*both(texts, "json", partial(seen_all, schema=schema, **options)), pair[2], len(pair[1]))


@pytest.mark.parametrize("policy", ["stop", "null", "quarantine"])
@pytest.mark.parametrize("name", WRITERS)
@PAIRS
@given(st.data())
def test_pipes(name: str, policy: str, data: st.DataObject) -> None:
    """All bytes are there at once, as from a fast writer."""
    pair, stops = data.draw(pairs()), policy == "stop"
    options, found = options_of(data) | {"format": FORMATS[name], "poll_seconds": 60}, list[Any]()
    options |= {"multiline": True} if stops else {"bad_rows": policy}
    schema = partly(data, pair[0], options, name)
    for text in (two_texts if stops else two_lines)(data, pair, WRITERS[name]):
        out, into = os.pipe()
        os.write(into, text)  # a pipe holds 64 KB
        os.close(into)
        with pytest.MonkeyPatch.context() as patch, io.FileIO(out, "rb") as reading:
            patch.setattr(reader_lines, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=reading)))
            found.append((seen if stops else seen_all)("-", schema, **options))
    if stops:
        check(found[0], found[1], pair[2])
    else:
        check_all(found[0], found[1], pair[2], len(pair[1]))


ROTATIONS = ["grows", "is renamed", "is copied and cut"]


class Log:
    """A log that grows or is rotated: what comes in one step is there before the reader looks again."""

    def __init__(self, folder: Path, form: str, header: Lines, how: str) -> None:
        self.path, self._header, self._how = folder / f"log.{form}", header, how
        self._writes = 0

    def write(self, records: Lines, *, again: bool) -> None:
        """Write some records: into a new log, or after those that are there."""
        old = [self.path.with_name(f"{self.path.name}.{number}") for number in range(4)]
        if again and self._how != "grows":
            for number in (2, 1):
                if old[number].exists():
                    old[number].rename(old[number + 1])
            (os.rename if self._how == "is renamed" else shutil.copy)(self.path, old[1])
        with open(self.path, "ab" if again and self._how == "grows" else "wb") as file:
            file.write(b"".join(records if again and self._how == "grows" else [*self._header, *records]))
        self._writes += 1
        os.utime(self.path, (10**9 + self._writes,) * 2)  # steps are seconds apart, as they are for a real reader


def follow(
    steps: list[Lines], log: Log, schema: Schema, options: dict[str, Any], *, by_folder: bool, again: bool
) -> tuple[Any, TableError | None]:
    """What is seen of a followed log, by batches, and the error that ended it; ``again`` opens it for each step."""
    batches, position, policy = list[Any](), None, options.get("bad_rows", "stop")
    log.write(steps[0], again=False)
    given_path = log.path.parent if by_folder else log.path
    source = open_source(given_path, schema, follow=True, poll_seconds=0.001, **options)
    try:
        for number, step in enumerate(steps):
            if number:
                log.write(step, again=True)
                if again:
                    source.close()
                    source = open_source(given_path, schema, position, follow=True, poll_seconds=0.001, **options)
            nothing = 0
            while nothing < 6:
                batch = next(source)
                nothing = nothing + 1 if batch is None else 0
                if batch is not None:
                    batches.append(points_in_places(batch, schema, policy))
                    position = batch.position
                position = source.pending or position
    except TableError as error:
        return batches, error
    finally:
        source.close()
    return batches, None


@pytest.mark.parametrize("policy", ["stop", "null", "quarantine"])
@pytest.mark.parametrize("how", ROTATIONS)
@pytest.mark.parametrize("name", WRITERS)
@settings(PAIRS, max_examples=PAIRS.max_examples // 3)
@given(st.data())
def test_followed_files(name: str, how: str, policy: str, data: st.DataObject) -> None:
    """A log that grows, is renamed, or is copied away and cut, read in one go or by one run after another.

    Whether it is refused, and after which records, is the same for both. No two records are equal: a log that was cut
    and begins as it did before looks as if it had grown.
    """
    pair = data.draw(pairs(serial=True))
    both_lists = (two_lists if policy == "stop" else two_lists_of_lines)(data, pair, WRITERS[name])
    options = options_of(data) | ({"multiline": True} if policy == "stop" else {"bad_rows": policy})
    schema, head = partly(data, pair[0], options, name), int(name == "csv")
    cuts = sorted(data.draw(st.lists(st.integers(1, len(pair[1])), max_size=3)))
    how_read = {"by_folder": data.draw(st.booleans()), "again": data.draw(st.booleans())}
    found = []
    for lines in both_lists:
        records = lines[head:]
        steps = [records[start:end] for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True)]
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: None)
            patch.setattr("headwater.secret.read.source.time", clock)
            log = Log(Path(folder), FORMATS[name], lines[:head], how)
            found.append(follow(steps, log, schema, options, **how_read))
    if how != "grows" and cuts:
        assert isinstance(found[0][1], InputChangedError)
        seen_of_both = [[len(batch) for batch in batches] for batches, _ in found]
        if policy != "stop" or type(found[1][1]) is InputChangedError:
            assert seen_of_both[0] == seen_of_both[1]
            assert str(found[0][1]).split(": ", 1)[1] == str(found[1][1]).split(": ", 1)[1]
        assert sum(seen_of_both[0]) == cuts[0]
    elif policy == "stop":
        check(found[0], found[1], pair[2])
        assert sum(map(len, found[0][0])) == len(pair[1])
    else:
        assert found[0][1] is found[1][1] is None
        check_all(found[0][0], found[1][0], pair[2], len(pair[1]))


def typed(name: str, text: str) -> Any:  # noqa: ANN401 - a value of a column's type
    """A value as a program would have it in memory; None for text that is refused or missing."""
    if COLUMNS[name].kind == "category":
        return text
    found = COLUMNS[name].read([text if text in ACCEPTED[name] else None]).rows()
    return None if found.missing is not None else COLUMNS[name].kind == "boolean" or found.numbers[0].item()


def table_of(records: list[Record]) -> pa.Table:
    types = {"number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_()}
    types |= {"datetime": pa.timestamp("us"), "time-of-day": pa.time64("us"), "category": pa.string()}
    columns = {}
    for name in records[0]:
        values = [typed(name, record[name]) for record in records]
        columns[name] = pa.array(values, types[COLUMNS[name].kind])
    return pa.table(columns)


@pytest.mark.parametrize("policy", ["stop", "null", "quarantine"])
@pytest.mark.parametrize("name", ["parquet", "arrow"])
@PAIRS
@given(st.data())
def test_files_of_columns(name: str, policy: str, data: st.DataObject) -> None:
    """Row groups and record batches may be cut elsewhere in the other file: a writer may cut them by bytes."""
    schema, records, index, other = data.draw(pairs())
    options, found = options_of(data) | {"bad_rows": policy}, list[Any]()
    with tempfile.TemporaryDirectory() as folder:
        for number, rows in enumerate((records, [*records[:index], other, *records[index + 1 :]])):
            path, table = Path(folder) / f"{number}.{name}", table_of(rows)
            rows_at_a_time = data.draw(st.integers(1, 9))
            if name == "parquet":
                pyarrow.parquet.write_table(table, path, row_group_size=rows_at_a_time)
            else:
                with pa.ipc.new_file(path, table.schema) as writer:
                    writer.write_table(table, max_chunksize=rows_at_a_time)
            found.append((seen if policy == "stop" else seen_all)(path, schema, **options))
    if policy == "stop":
        check(found[0], found[1], index)
    else:
        check_all(found[0], found[1], index, len(records))


@pytest.mark.parametrize("policy", ["stop", "null"])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("codes", [pa.int8(), pa.int16()])
def test_one_category_more_than_codes_in_the_writers_memory_could_tell_apart(
    tmp_path: Path, codes: pa.DataType, form: str, policy: str
) -> None:
    """As pandas writes categories in lots: codes of each lot are narrow, all lots together have more values."""
    count, lots = 1 << (codes.bit_width - 1), 8
    schema, found = Schema(x=Category(*(f"v{n}" for n in range(count)), other="v0")), []
    for name, one in (("a", "v5"), ("b", "w")):
        values = [f"v{n}" for n in range(count)] * 2
        values[count + count // 2] = one
        size = len(values) // lots
        text = [pa.array(values[start : start + size]) for start in range(0, len(values), size)]
        tables = [pa.table({"x": lot.dictionary_encode().cast(pa.dictionary(codes, pa.string()))}) for lot in text]
        path = tmp_path / f"{name}.{form}"
        if form == "parquet":
            pyarrow.parquet.write_table(pa.concat_tables(tables), path)
        else:
            with pa.ipc.new_stream(path, tables[0].schema) as writer:
                for table in tables:
                    writer.write_table(table)
        found.append([lot for batch in seen_all(path, schema, bad_rows=policy) for lot in batch])
    differ = [n for n, (one, other) in enumerate(zip(*found, strict=True)) if one != other]
    assert len(found[0]) == 2 * count
    assert differ == [count + count // 2]


def sizes_of(path: Path, schema: Schema, **options: Any) -> list[int]:  # noqa: ANN401 - fields of Options
    with open_source(path, schema, **options) as source:
        return [batch.records for batch in source if batch]


def test_batches_end_neither_by_lengths_of_records_nor_by_blocks_but_by_columns(tmp_path: Path) -> None:
    """Also where one record of a file of several blocks is the same point, written longer."""
    path, schema = tmp_path / "a.csv", Schema(x=Number(0, 1))
    for text in ("0.5", "0.5000000000000000"):
        lines = ["x", *(["0.123456789012345"] * 150_000)]
        lines[70_000] = text
        path.write_text("\n".join(lines) + "\n")
        assert sizes_of(path, schema, block_bytes=1 << 18) == [65536, 65536, 150_000 - 2 * 65536]
    path.write_text("x\n" + "".join(f"{i / 1000}\n" for i in range(1000)))
    for block_bytes in (1, 10, 100, 1 << 22):
        assert sizes_of(path, schema, block_bytes=block_bytes, batch_rows=300) == [300, 300, 300, 100]
    names = [f"c{i}" for i in range(100)]
    path.write_text(",".join(names) + "\n" + (",".join("1" * 100) + "\n") * 25_000)
    wide = Schema({name: Boolean() for name in names})
    assert sizes_of(path, wide) == [(1 << 21) // 100, 25_000 - (1 << 21) // 100]


def test_releases_by_the_clock_have_the_same_t(tmp_path: Path) -> None:
    """A clock that goes on by a second whenever it is looked at; one record is the same point, written longer."""
    published, schema = [], Schema(x=Number(0, 1))
    for number, text in enumerate(["0.5", "0.5" + "0" * 50_000]):
        lines = ["x", *(["0.25"] * 20_000)]
        lines[7_000] = text
        path, out = tmp_path / f"{number}.csv", tmp_path / f"out{number}"
        path.write_text("\n".join(lines) + "\n")
        seconds = iter(range(10**6))
        with (
            Run.open(RunConfig(schema, 1.0, seed=1), FolderSink(out), schedule=Schedule(seconds=3.0)) as run,
            open_source(path, schema, batch_rows=1000, block_bytes=10_000) as source,
        ):
            feed(run, source, clock=lambda seconds=seconds: next(seconds))  # type: ignore[misc]
        published.append([folder.name for folder in folders(out)])
    assert len(published[0]) > 5
    assert published[0] == published[1]


def _wide(number: int) -> pa.Array:
    """A number that has more digits than its type says, beside one that has not."""
    data = b"".join(value.to_bytes(16, "little") for value in (1, number, 2))
    return pa.Array.from_buffers(pa.decimal128(3, 0), 3, [None, pa.py_buffer(data)])


_NONE_OF_THEIR_TYPE: dict[str, tuple[Column, Callable[[bool], Any]]] = {
    "the hour 25": (TimeOfDay(), lambda odd: pa.array([1, 90_000 if odd else 2, 3], pa.int32()).view(pa.time32("s"))),
    "before midnight": (TimeOfDay(), lambda odd: pa.array([1, -1 if odd else 2, 3]).view(pa.time64("us"))),
    "a date with a time": (
        Datetime("1970-01-01", "1971-01-01"),
        lambda odd: pa.array([0, 86_400_001 if odd else 0, 86_400_000]).view(pa.date64()),
    ),
    "too many digits": (Integer(0, 9), lambda odd: _wide(10**6 if odd else 3)),
}


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("name", _NONE_OF_THEIR_TYPE)
def test_a_value_that_is_none_of_its_arrow_type_takes_no_other_along(tmp_path: Path, name: str, coded: bool) -> None:
    column, values = _NONE_OF_THEIR_TYPE[name]
    schema, found = Schema(x=column), list[Any]()
    for odd in (False, True):
        array = values(odd)
        if coded:
            array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), array)
        batch = pa.record_batch({"x": array})
        with pa.ipc.new_stream(tmp_path / "records.arrow", batch.schema) as writer:
            writer.write_batch(batch)
        with open_source(tmp_path / "records.arrow", schema, bad_rows="null") as source:
            encoded = [schema.encode_batch(batch.table, bad_rows="null") for batch in source if batch is not None]
        found.append([one.points[[0, 2]].tolist() for one in encoded])
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_an_index_beyond_its_dictionary_is_a_damaged_file(tmp_path: Path) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1 << 40]), pa.array(["a"]), safe=False)
    batch = pa.record_batch({"x": array})
    with pa.ipc.new_stream(tmp_path / "records.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    source = open_source(tmp_path / "records.arrow", Schema(x=Category("a", "b")))
    with source, pytest.raises(TableError, match="damaged"):
        list(source)
