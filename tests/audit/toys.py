"""The line that registers a mechanism."""

from __future__ import annotations

import pytest

from headwater.audit.cases import TRAITS, Traits
from headwater.public import protocol as registry

TOYS = ("toy", "wide toy")


def register_toys(patch: pytest.MonkeyPatch) -> None:
    """Register them until the patch is undone: other tests count on the mechanisms that there are."""
    patch.setattr(registry, "MODULES", dict(registry.MODULES))
    registry.register("toy", "tests.audit.toy")
    for toy in TOYS:
        patch.setitem(TRAITS, toy, Traits(partitions=True))  # each bucket counts every one of its records once
    registry.register("wide toy", "tests.audit.wide_toy")
