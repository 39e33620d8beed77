"""One run for each value of a public key: parallel composition, one ledger each and one card for all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.run import FolderSink, Run, RunConfig, Schedule

CARD = "keys.json"


@dataclass(frozen=True)
class Keys:
    """A public key: a column of the frame that is not of the schema, and all its values, declared and never learned.

    Parameters
    ----------
    name
        The column.
    values
        Every value that has a run.
    """

    name: str
    values: tuple[str, ...]

    @staticmethod
    def of(given: Mapping[str, Sequence[str]] | None) -> Keys | None:
        """What a caller has given, checked."""
        if given is None:
            return None
        if len(given) != 1:
            raise ValueError("key must name one column, such as {'region': ['north', 'south']}")
        name: str
        values: Any  # whatever a caller has given
        ((name, values),) = given.items()
        if isinstance(values, str) or not values or not all(isinstance(value, str) and value for value in values):
            raise ValueError("key must list its values as texts, such as {'region': ['north', 'south']}")
        if len(set(values)) != len(values):
            raise ValueError("key lists a value twice")
        return Keys(name, tuple(values))

    @property
    def column(self) -> tuple[str, tuple[str, ...]]:
        """As workers need it."""
        return self.name, self.values


@dataclass(frozen=True)
class KeyedRuns:
    """The runs of all keys by number; one, of number 0, without keys.

    Parameters
    ----------
    runs
        By number.
    values
        The key of each number.
    """

    runs: dict[int, Run]
    values: tuple[str, ...] = ()

    @staticmethod
    def open(keys: Keys, config: RunConfig, state: Path, out: Path, schedule: Schedule) -> KeyedRuns:
        """Begin or continue the run of each key, in ``state/KEY.state`` and ``out/KEY``."""
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        runs = dict[int, Run]()
        states = [state / f"{quote(value, safe=' ').replace('.', '%2E')}.state" for value in keys.values]
        try:
            # Executors count by one plan for all keys: one that comes later expects what the others were begun with.
            for number in sorted(range(len(states)), key=lambda number: not states[number].exists()):
                # A seed is for tests; runs of different keys never share noise.
                own = config if config.seed is None else replace(config, seed=config.seed + number)
                run = Run.open(own, FolderSink(out / states[number].stem), state=states[number], schedule=schedule)
                runs[number] = run
                config = replace(config, expect=run.synth.expect)
                if any(other.synth.expect != run.synth.expect for other in runs.values()):
                    raise ValueError("the runs of these keys expect different numbers of records: give them apart")
        except BaseException:
            KeyedRuns(runs).close()
            raise
        found = KeyedRuns(dict(sorted(runs.items())), keys.values)
        found.write_card(out, keys)
        return found

    def by_key(self) -> dict[str, Run]:
        """The runs by their key."""
        return {value: self.runs[number] for number, value in enumerate(self.values)}

    def write_card(self, out: Path, keys: Keys) -> None:
        """One card for all: what is promised of all runs together, and which run each key has. Public."""
        first = self.runs[0].synth
        card = {
            "key": keys.name,
            "epsilon": first.epsilon,
            "promise": (
                "Every record is in the run of its key and in no other, so all releases of all keys together are "
                f"{first.guarantee}, for replacing one record by another of the same key. Keys, and how many records "
                "each of them has, are public."
            ),
            "runs": {
                value: {"run": run.run_id, "ledger": str(run.synth.ledger())} for value, run in self.by_key().items()
            },
        }
        out.mkdir(parents=True, exist_ok=True)
        temporary = out / f".{CARD}"
        temporary.write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(out / CARD)

    def publish(self) -> None:
        """Publish the release of this moment of each run."""
        for run in self.runs.values():
            run.publish()

    def close(self) -> None:
        """Release all states."""
        for run in self.runs.values():
            run.close()
