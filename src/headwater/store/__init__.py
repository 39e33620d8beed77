"""The durable state of a run: what survives a kill, a full disk and a second try."""

from headwater.store.errors import StateCopiedError, StateDamagedError, StateInUseError, StoreError
from headwater.store.store import Kept, Store

__all__ = ["Kept", "StateCopiedError", "StateDamagedError", "StateInUseError", "Store", "StoreError"]
