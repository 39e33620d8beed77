"""The durable state of a run: what survives a kill, a full disk and a second try."""

from headwater.store.errors import StateCopiedError, StateDamagedError, StateInUseError, StoreError
from headwater.store.store import Kept, Store
from headwater.store.tables import is_store

__all__ = ["Kept", "StateCopiedError", "StateDamagedError", "StateInUseError", "Store", "StoreError", "is_store"]
