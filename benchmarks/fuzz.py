"""Fuzz everything that parses, guided by the code that inputs reach: does anything but documented errors come out?

python -m benchmarks.fuzz                        # all targets
python -m benchmarks.fuzz --seconds 60           # in less time
python -m benchmarks.fuzz --target CSV           # only targets whose name holds this
python -m benchmarks.fuzz --page                 # write docs/benchmarks/fuzz.md; other targets keep their numbers
python -m benchmarks.fuzz --again FILE           # what is wrong with an input that was found

Needs the extra ``fuzz`` (Atheris). Targets are in tests/fuzz. Inputs that reached new code are kept in .cache/fuzz, and
the next run begins with them. One that a parser fails on is written to out/fuzz, and becomes a test in
tests/fuzz/test_crashes.py once the parser is repaired.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import TOKENS

ROOT = Path(__file__).parents[1]
CORPUS, FOUND = ROOT / ".cache" / "fuzz", ROOT / "out" / "fuzz"
SECONDS = 1_200.0  # of all targets together
SLOW = 30  # seconds: longer than any input of a few kilobytes should take, even beside other work
MEMORY = 8 << 30  # bytes: whoever asks for more has taken a number in a file at its word
LENGTH = 8_192  # bytes of the longest input


@dataclass(frozen=True)
class Outcome:
    """What came of one target."""

    target: str
    inputs: int
    seconds: float
    edges: int
    """Of the control flow of the package, that some input took."""
    kept: int
    """Inputs that are kept because no other takes the same ways."""
    findings: list[dict[str, str]]


def targets() -> list[Any]:
    """Those of tests/fuzz, imported late: in a process that fuzzes, their code must be instrumented first."""
    found: list[Any] = importlib.import_module("tests.fuzz.targets").TARGETS
    return found


def fuzz_one(name: str, seconds: float) -> None:
    """Fuzz one target in this process, until libFuzzer ends it. Findings are written and do not end it."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["headwater"]):
        target = next(one for one in targets() if one.name == name)
    importlib.import_module("pyarrow").set_cpu_count(1)
    warnings.simplefilter("error")  # a warning that nobody documented is a finding too
    warnings.filterwarnings("ignore", message=".*seed.*", category=UserWarning)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    FOUND.mkdir(parents=True, exist_ok=True)
    corpus, known = CORPUS / target.file_name, set[str]()
    corpus.mkdir(parents=True, exist_ok=True)
    for data in target.starts():
        (corpus / sha256(data).hexdigest()[:16]).write_bytes(data)
    with tempfile.TemporaryDirectory() as place:
        words = Path(place) / "words"  # libFuzzer takes none longer than 64 bytes
        words.write_text("".join(f'"{_hex(token)}"\n' for token in TOKENS if len(token) <= 64))

        def once(data: bytes) -> None:
            wrong = target.try_out(target.guided(data), Path(place))
            if wrong is not None and wrong not in known:
                known.add(wrong)
                keep(name, target.file_name, wrong, data)

        limits = f"-max_total_time={seconds:.0f} -timeout={SLOW} -max_len={LENGTH} -rss_limit_mb=0 -print_final_stats=1"
        places = [f"-dict={words}", f"-artifact_prefix={FOUND / target.file_name}-", str(corpus)]
        atheris.Setup([sys.argv[0], *limits.split(), *places], once)
        atheris.Fuzz()


def _hex(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def keep(name: str, file_name: str, wrong: str, data: bytes) -> None:
    """Write an input that must not do what it did, and say so on a line of its own."""
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"{file_name}-{sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    finding = {"target": name, "what": wrong, "input": path.name}
    path.with_suffix(".json").write_text(json.dumps(finding) + "\n")
    print("FOUND " + json.dumps(finding), file=sys.stderr, flush=True)


def outcome(name: str, seconds: float) -> Outcome:
    """Fuzz one target in a process of its own, and read what libFuzzer says of it."""
    FOUND.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.fuzz", "--one", name, "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    findings = [json.loads(line) for line in re.findall(r"^FOUND (.*)$", done.stderr, re.MULTILINE)]
    if done.returncode:  # a crash, an endless input, or no fuzzer at all
        said = re.findall(r"^(?:SUMMARY|.*Error): .*$", done.stderr, re.MULTILINE)
        written = re.findall(r"Test unit written to \S*?([^/\s]+)$", done.stderr, re.MULTILINE)
        findings.append({"target": name, "what": (said or ["ended early"])[-1], "input": (written or ["none"])[-1]})
    seen = re.findall(r"^#(\d+)\s.*cov: (\d+) ft: \d+ corp: (\d+)/", done.stderr, re.MULTILINE) or [("0", "0", "0")]
    return Outcome(name, int(seen[-1][0]), seconds, int(seen[-1][1]), int(seen[-1][2]), findings)


def again(path: Path) -> None:
    """Run one input as the fuzzer did, and print what is wrong with it."""
    target = max((one for one in targets() if path.name.startswith(one.file_name)), key=lambda one: len(one.file_name))
    case = target.guided(path.read_bytes())
    with tempfile.TemporaryDirectory() as place:
        print(f"{target.name}: {case!r}\n{target.try_out(case, Path(place)) or 'nothing is wrong'}")


def write(outcomes: list[Outcome], names: list[str]) -> None:
    """The page and its numbers. Targets that did not run now keep what an earlier run found of them."""
    from benchmarks import pages  # not at the top: see `targets`

    known = {one["target"]: one for one in pages.kept("fuzz")} if (pages.FOLDER / "fuzz.json").exists() else {}
    known |= {one.target: asdict(one) for one in outcomes}
    pages.publish("fuzz", [known[name] for name in names if name in known], page)


def page(found: list[dict[str, Any]]) -> str:
    """The page in Markdown."""
    from benchmarks.pages import table

    total, findings = sum(one["inputs"] for one in found), [f for one in found for f in one["findings"]]
    rows = [[one["target"], f"{one['inputs']:,}", f"{len(one['findings'])}"] for one in found]
    rows.append(["**all**", f"**{total:,}**", f"**{len(findings)}**"])
    text = f"""# Fuzzing everything that parses

{table(["target", "inputs", "findings"], rows, "lr")}
Made by `make fuzz` in {sum(one["seconds"] for one in found) / 60:.0f} minutes of the processor. Atheris keeps an input
if it reaches code that no earlier one did, and changes it further; checksums are put right again, so that what lies
behind them is reached. Nothing but the documented errors may come out, no input may take longer than {SLOW} seconds or
more than {MEMORY >> 30} GB, and no message may hold a marked value of the data.
"""
    if findings:
        text += "\n" + table(["finding", "target", "input"], [[f["what"], f["target"], f["input"]] for f in findings])
    return text + "\nWhat earlier runs found is repaired, and each of it is a test in `tests/fuzz/test_crashes.py`.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the processor, for all targets together")
    parser.add_argument("--target", default="", help="only targets whose name holds this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many processes at once")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks/fuzz.md and fuzz.json")
    parser.add_argument("--again", type=Path, help="run this input once")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.again:
        return again(options.again)
    if options.one:
        return fuzz_one(options.one, options.seconds)
    if importlib.util.find_spec("atheris") is None:
        sys.exit("There is no Atheris here: pip install 'headwater[fuzz]' (Linux on x86-64)")
    chosen = [target.name for target in targets() if options.target.lower() in target.name.lower()]
    if not chosen:
        sys.exit(f"no target is called {options.target!r}")
    each, outcomes = max(options.seconds / len(chosen), 1), list[Outcome]()
    with ThreadPoolExecutor(options.jobs) as threads:
        for done in threads.map(lambda name: outcome(name, each), chosen):
            outcomes.append(done)
            print(f"{done.target}: {done.inputs:,} inputs, {len(done.findings)} findings", flush=True)
    if options.page:
        write(outcomes, [target.name for target in targets()])
    if any(one.findings for one in outcomes):
        sys.exit(1)
    return None


if __name__ == "__main__":
    main()
