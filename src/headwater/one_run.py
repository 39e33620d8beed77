"""A run as an object with one owner: what is known of it, saved and loaded, never copied."""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np

from headwater.arguments import whole
from headwater.mechanisms.protocol import AnySchema, Mechanism
from headwater.noise import GAUSSIAN_VERSION
from headwater.people import Person
from headwater.privacy import Guarantee, Ledger
from headwater.processes import this_process
from headwater.randomness import run_id
from headwater.synthesizer_state import SynthesizerState
from headwater.table.input_schema import InputSchema
from headwater.table.schema import Schema
from headwater.table.tally import Tally

_COPIED = (
    "a synthesizer cannot be copied or pickled: two copies would put the same noise on different records, which shows "
    "what it should hide. Write it with save() and go on once with Synthesizer.load()"
)
_FORKED = (
    "this synthesizer belongs to the process that this one was forked from: going on in both would put the same noise "
    "on different records, which shows what it should hide. Make it in the forked process; or write it with save() "
    "beforehand, and go on once, in one process, with Synthesizer.load()"
)
_UPDATE = "update(table) takes records, one or many, as often as more arrive"
_SAMPLE = "release().sample(n) gives synthetic records"
_OTHER_NAMES = {
    **dict.fromkeys(("fit", "partial_fit", "learn_one", "learn_many", "fit_processed_data", "add", "append"), _UPDATE),
    **dict.fromkeys(("sample", "generate", "predict", "transform", "sample_from_conditions"), _SAMPLE),
    **dict.fromkeys(("fit_transform", "fit_sample"), f"{_UPDATE}, and {_SAMPLE}"),
    "merge": "a run has one owner: encode(table) can run anywhere, and update_rows takes what it gives",
}
"""By the name of a method in scikit-learn, SDV, river and sketches: what to call here."""


class OneRun:
    """What every run has, whatever it is fed with. An update replaces its state as a whole."""

    def __init__(self, state: SynthesizerState) -> None:
        self._state = state
        self.schema, self.budget, self.mechanism = state.schema, state.budget, state.mechanism.name
        self.epsilon = state.budget.epsilon
        self.guarantee: Guarantee = state.guarantee
        self._process, self._turn = this_process(), RLock()

    @property
    def t(self) -> int:
        """How many records have arrived. Public."""
        return self._mechanism.t

    @property
    def expect(self) -> int | None:
        """How many records the plan is laid out for; None if that was not declared, or is of no use. Public."""
        found: int | None = self._state.options.get("expect")
        return found

    @property
    def person(self) -> Person | None:
        """Who records belong to, as it was declared. Public."""
        return self._state.people.person if self._state.people else None

    @property
    def person_key(self) -> bytes | None:
        """The key of `headwater.people.hash_people` in this run. Secret."""
        return self._state.people.key if self._state.people else None

    @property
    def input_schema(self) -> AnySchema | InputSchema:
        """The columns that are read: those of the schema, and the one that names the person."""
        return self.schema if self.person is None else InputSchema(cast("Schema", self.schema), self.person.column)

    @property
    def width(self) -> int:
        """How many integers are kept of a record."""
        people = self._state.people
        if people is None:
            return self._mechanism.width
        nothing = self._mechanism.encode(np.empty((0, self.schema.dimension)))
        return self._mechanism.width + people.columns(nothing.dtype.itemsize)

    @property
    def tally(self) -> Tally:
        """What `update` has clipped, not found listed, found missing, or capped. Secret: there is no noise in it."""
        return self._state.tally.with_capped(self.capped, self.t)

    @property
    def capped(self) -> int:
        """How many records did not count, because their person had enough that did. Secret: there is no noise in it."""
        return self._state.people.capped if self._state.people else 0

    @property
    def _lock(self) -> RLock:
        """For whatever uses the state: one thread at a time, and none of a forked child."""
        if this_process() != self._process:
            raise RuntimeError(_FORKED)
        return self._turn

    @property
    def _mechanism(self) -> Mechanism:
        return self._state.mechanism

    def plan(self, until: int | None = None) -> Any:  # noqa: ANN401 - of the mechanism's own type
        """The schedule of buckets and budgets, of cascade with the noise: print it. Not of the paper's mechanism.

        Parameters
        ----------
        until
            Up to which time; twice the present one unless given.
        """
        if not hasattr(self._mechanism, "plan"):
            raise ValueError(f"mechanism={self.mechanism!r} has no plan to print; 'cascade' and 'marginals' have")
        return self._mechanism.plan(max(2 * self.t, 1) if until is None else whole("until", until))

    def ledger(self, t: int | None = None) -> Ledger:
        """Every draw of noise that a record arriving now can move; it adds up to at most ε, or to a ρ that keeps it.

        Parameters
        ----------
        t
            How many records arrived before it, if it is another one than the next: past or to come.
        """
        return Ledger(self._mechanism.ledger(None if t is None else whole("t", t)), self.budget)

    @property
    def run_id(self) -> str:
        """A name of this run, the same for ever and on all its cards. Public: depends on neither data nor noise."""
        return run_id(self._state.public)

    @property
    def measurement_version(self) -> str:
        """Names the rule that decides what is measured. A state goes on only under the rule that it began with."""
        gaussian = f", Gaussian noise {GAUSSIAN_VERSION}" if self.budget.delta else ""
        return f"{self.mechanism} {self._mechanism.version}{gaussian}"

    @property
    def status(self) -> str:
        """How finely the mechanism measures at this time, in words. Public."""
        return self._mechanism.status()

    @property
    def has_windows(self) -> bool:
        """Whether `release` can be about the last records only. Public."""
        return self._mechanism.windows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is needed to go on. The file is as secret as the data; only its owner can read it.

        Parameters
        ----------
        path
            The file to write.
        """
        with self._lock:
            self._state.write(path)

    def to_bytes(self) -> bytes:
        """What `save` writes, as bytes: as secret as the data."""
        with self._lock:
            return self._state.to_bytes()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from where `save` was called, with the very same noise.

        Go on **once**: two runs from one file publish the same noise on different data.

        Parameters
        ----------
        path
            A file that `save` wrote.
        """
        return cls._of(SynthesizerState.read(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Go on from where `to_bytes` was called, **once**, like `load`.

        Parameters
        ----------
        data
            What `to_bytes` gave.
        """
        return cls._of(SynthesizerState.from_bytes(data))

    @classmethod
    def _of(cls, state: SynthesizerState) -> Self:
        synth = cls.__new__(cls)
        OneRun.__init__(synth, state)
        return synth

    def __reduce_ex__(self, protocol: object) -> NoReturn:  # copy() and deepcopy() call it as well
        raise TypeError(_COPIED)

    def __repr__(self) -> str:
        delta = f", delta={self.budget.delta:g}" if self.budget.delta else ""
        budget = f"epsilon={self.epsilon:g}{delta}"
        expect = f", expect={self.expect}" if self.expect else ""
        return f"Synthesizer({self.schema!r}, {budget}, mechanism={self.mechanism!r}{expect}) at t = {self.t:,}"

    if not TYPE_CHECKING:  # a checker would take any name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Names of other libraries, answered with ours."""
            known = f"; {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}{known}", name=name, obj=self)
