"""The table of caps is a dictionary of counts, however batches are cut and however hashes collide in their halves."""

import numpy as np
import pytest

from headwater.public.person import Person
from headwater.secret.people import Groups, People


def literal(limit: int, hashes: list[tuple[int, int]]) -> list[bool]:
    """Which records count, one by one, with a dictionary."""
    counts: dict[tuple[int, int], int] = {}
    found = []
    for one in hashes:
        found.append(counts.get(one, 0) < limit)
        counts[one] = counts.get(one, 0) + 1
    return found


def people_of(limit: int, **declared: object) -> People:
    return People.begin(Person("who", records=limit, **declared), bytes(32))  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [3, 64])
@pytest.mark.parametrize("limit", [1, 2, 5, 300])
def test_the_cap_is_that_of_a_dictionary(limit: int, bits: int) -> None:
    """In batches of any size; with three bits in the first half of a hash many people share it."""
    rng = np.random.default_rng([limit, bits])
    high = (
        rng.integers(0, 1 << bits, 400, dtype=np.uint64) if bits < 64 else rng.integers(0, 2**63, 400).astype(np.uint64)
    )
    low = rng.integers(0, 2**63, 400).astype(np.uint64)
    who = np.minimum(rng.geometric(0.02, 6000) - 1, 399)
    hashes = np.stack((high[who], low[who]), axis=1)
    people, found, start = people_of(limit), [], 0
    while start < len(hashes):
        size = int(rng.choice([0, 1, 2, 7, 100, 900]))
        counted, people = people.after(hashes[start : start + size], None, start)
        found += counted.tolist()
        start += size
    wanted = literal(limit, [tuple(row) for row in hashes.tolist()])
    assert found == wanted
    assert people.capped == wanted.count(False)
    header, arrays = people.state()
    again = People.restore(header, arrays)
    groups = Groups.of(hashes)
    assert again.caps.counts(groups.people).tolist() == np.minimum(groups.sizes, limit).tolist()


def test_a_person_takes_17_bytes() -> None:
    """Twice that at most, before arrays are merged."""
    hashes = np.random.default_rng(0).integers(0, 2**63, (50_000, 2)).astype(np.uint64)
    people = people_of(20)
    for start in range(0, 50_000, 1000):
        _, people = people.after(hashes[start : start + 1000], None, start)
    assert people.caps.nbytes == 17 * 50_000
    for start in range(0, 50_000, 1000):
        _, people = people.after(hashes[start : start + 1000], None, 50_000 + start)
    assert people.caps.nbytes <= 2 * 17 * 50_000
    assert sum(array.nbytes for array in people.caps.state().values()) == 17 * 50_000
