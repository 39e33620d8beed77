"""Which records count, with periods and buckets, beside a literal version; and what a neighbour can change in it."""

from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import headwater as hw
from headwater.public.tables import values_of
from headwater.secret.people import Caps, People

BUCKET = 10
CASES: list[dict[str, Any]] = [
    {"records": 3},
    {"records": 3, "per": 7},
    {"records": 3, "per": "1d"},
    {"records": 4, "per_bucket": 2},
    {"records": 4, "per_bucket": 2, "per": 7},
    {"records": 4, "per_bucket": 1, "per": "1d"},
]


def periods(person: hw.Person, stamps: Sequence[int]) -> list[int]:
    """The period of every record: by arrivals, or by a clock that never goes back."""
    if person.arrivals:
        return [place // person.arrivals for place in range(len(stamps))]
    return [max(stamps[: place + 1]) if person.seconds else 0 for place in range(len(stamps))]


def literal(person: hw.Person, names: Sequence[int], stamps: Sequence[int]) -> list[bool]:
    """Record by record, with dictionaries; a negative name is nobody's."""
    counts: Counter[Hashable] = Counter()
    found = []
    for place, (name, period) in enumerate(zip(names, periods(person, stamps), strict=True)):
        caps: dict[Hashable, int] = {("life", period, name): person.records}
        if person.per_bucket is not None:
            caps["bucket", period, place // BUCKET, name] = person.per_bucket
        found.append(name < 0 or all(counts[key] < cap for key, cap in caps.items()))
        if found[-1]:
            counts.update(caps.keys())
    return found


def counted(person: hw.Person, names: Sequence[int], stamps: Sequence[int], rng: np.random.Generator) -> list[bool]:
    """By `People`, in batches of any size, put away and restored now and then."""
    column: list[Any] = [None if name < 0 else name for name in names]
    people, found, place = People.begin(person, bytes(32)), [], 0
    while place < len(names):
        end = place + int(rng.choice([0, 1, 2, 5, 30]))
        hashes, _, _ = people.read(values_of(column[place:end]), None)
        flags, people = people.after(
            hashes,
            np.array(stamps[place:end], dtype=np.uint64) if person.seconds else None,
            place,
            lambda t: (t // BUCKET + 1) * BUCKET,
        )
        found += flags.tolist()
        place = min(end, len(names))
        if rng.random() < 0.3:
            people = People.restore(*people.state())
    return found


def stream(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Names, some of them nobody's, and the clock, which is set back now and then."""
    names = rng.choice([-1, 0, 0, 0, 1, 1, 2, 3], 80).tolist()
    return names, (100 + np.arange(80) // 9 + rng.integers(-2, 1, 80)).tolist()


@pytest.mark.parametrize("declared", CASES)
def test_which_records_count_is_what_dictionaries_say(declared: dict[str, Any]) -> None:
    person = hw.Person("who", null="nowhere", **declared)
    for seed in range(10):
        rng = np.random.default_rng([1, seed])
        names, stamps = stream(rng)
        assert counted(person, names, stamps, rng) == literal(person, names, stamps)


def most_that_differ(declared: dict[str, Any]) -> tuple[int, int]:
    """Over many neighbours: where it differs which records count and must not, and how many of the person's count."""
    person, wrong, most = hw.Person("who", null="nowhere", **declared), 0, 0
    for seed in range(8):
        rng = np.random.default_rng([2, seed])
        names, stamps = stream(rng)
        period = periods(person, stamps)
        one = rng.choice(period)
        places = {i for i, name in enumerate(names) if name == 0 and period[i] == one}
        for other in (0, 77, -1):  # the same person, somebody new, nobody
            replaced = [other if i in places else name for i, name in enumerate(names)]
            before, after = (counted(person, who, stamps, rng) for who in (names, replaced))
            same = [i for i in range(80) if i not in places or other >= 0]
            wrong += sum(before[i] != after[i] for i in same)
            most = max(most, sum(before[i] for i in places))
    return wrong, most


@pytest.mark.parametrize("declared", CASES)
def test_a_neighbour_changes_at_most_the_records_of_one_person_that_count(declared: dict[str, Any]) -> None:
    """Nobody else's records, and not the same person's in other periods."""
    wrong, most = most_that_differ(declared)
    assert wrong == 0
    assert 1 < most <= declared["records"]


def test_a_cap_for_buckets_that_outlives_its_period_is_noticed() -> None:
    """Planted: what somebody did in one period decides what counts of them in the next."""

    def emptied(self: Caps) -> Caps:
        return self if self.limit == 2 else Caps(self.limit)

    with patch.object(Caps, "emptied", emptied):
        wrong, _ = most_that_differ({"records": 4, "per_bucket": 2, "per": 7})
    assert wrong > 0


def test_a_line_that_cannot_be_read_is_of_its_own_time(tmp_path: Path) -> None:
    """It begins no period: otherwise one line would renew the caps of all."""
    good = '{"x": 0.1, "y": 0.2, "who": 1}\n'
    (tmp_path / "a.jsonl").write_text(good + "nonsense\n" + good)
    schema = hw.Schema(x=hw.Number(0, 1), y=hw.Number(0, 1))
    synth = hw.Synthesizer(schema, epsilon=1.0, person=hw.Person("who", records=1, per="365d"), seed=1)
    synth.update(tmp_path / "a.jsonl", bad_rows="null")
    assert (synth.t, synth.tally.bad, synth.capped) == (3, 1, 1)
    synth.update([{"x": 0.1, "y": 0.2, "who": 2}] * 2)
    assert synth.capped == 2
