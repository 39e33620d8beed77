"""The durable state of a run: what survives a kill, a full disk and a second attempt."""

from headwater.run.store.database import is_store
from headwater.run.store.entries import Kept
from headwater.run.store.errors import (
    OutcomeUnknownError,
    StateCopiedError,
    StateDamagedError,
    StateInUseError,
    StoreError,
)
from headwater.run.store.store import Store

__all__ = [
    "Kept",
    "OutcomeUnknownError",
    "StateCopiedError",
    "StateDamagedError",
    "StateInUseError",
    "Store",
    "StoreError",
    "is_store",
]
