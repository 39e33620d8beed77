"""What is fuzzed, and the rule for what may come out of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import headwater
from tests.fuzz.choices import Choices
from tests.fuzz.mutate import mutate_bytes

SOURCE = Path(headwater.__file__).parent
_OURS = (ValueError, TypeError)  # documented for wrong arguments, if we raise them ourselves


class FoundError(Exception):
    """A parser did what it must not do, and no exception says so."""


@dataclass(frozen=True)
class Target:
    """A parser: how its inputs are made, how it is called, and which errors are documented.

    Parameters
    ----------
    name
        For people.
    run
        Calls the parser with one input and a folder to write files in.
    errors
        The documented ones.
    make
        Makes an input out of random choices.
    corpus
        Instead of ``make``, if an input is bytes: valid ones, which the fuzzer changes as it likes.
    arguments
        Whether plain ValueError and TypeError are documented as well: for wrong arguments, raised in our own code.
    secrets
        What no message may hold.
    """

    name: str
    run: Callable[[Any, Path], object]
    errors: tuple[type[Exception], ...] = ()
    make: Callable[[Random], Any] | None = None
    corpus: Callable[[], list[bytes]] | None = None
    arguments: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """The name, as a part of a file's."""
        return self.name.replace(", ", "-").replace(" ", "-").lower()

    def case(self, seed: int, index: int) -> Any:  # noqa: ANN401 - what `run` takes
        """Input number ``index`` of those that need no fuzzer: fixed as long as the mutations are."""
        rng = Random(f"{seed} {self.name} {index}")  # noqa: S311 - not for secrets
        if self.corpus is None:
            return self._made(rng)
        data = rng.choice(self.corpus())
        return mutate_bytes(data, rng, self.corpus()) if rng.random() < 0.9 else data

    def starts(self) -> list[bytes]:
        """What a coverage-guided fuzzer begins with: valid inputs and blindly changed ones, or random choices."""
        if self.corpus is None:
            return [Random(i).randbytes(8 << i) for i in range(6)]  # noqa: S311 - not for secrets
        return self.corpus() + [self.case(0, index) for index in range(500)]

    def guided(self, data: bytes) -> Any:  # noqa: ANN401 - what `run` takes
        """The input that a coverage-guided fuzzer's bytes stand for: themselves, or choices."""
        return self._made(Choices(data)) if self.corpus is None else data

    def _made(self, rng: Random) -> Any:  # noqa: ANN401 - what `run` takes
        if self.make is None:
            raise TypeError(f"{self.name} has neither a corpus nor a way to make inputs")
        return self.make(rng)

    def try_out(self, case: Any, folder: Path) -> str | None:  # noqa: ANN401 - what `make` gave
        """Run one input: None, or what is wrong with what came out."""
        try:
            self.run(case, folder)
        except FoundError as error:
            return str(error)
        except self.errors as error:
            return self._leak(error)
        except _OURS as error:
            return self._leak(error) if self.arguments and is_ours(error) else describe(error)
        except Exception as error:
            return describe(error)
        return None

    def _leak(self, error: Exception) -> str | None:
        text = "".join(traceback.format_exception_only(error)) + shown_with(error)
        found = next((secret for secret in self.secrets if secret in text), None)
        return f"a value of the data is in the message of {describe(error)}" if found else None


def is_ours(error: Exception) -> bool:
    """Whether our own code raised it, and not a library that was handed something odd."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(SOURCE) and bool(str(error))


def shown_with(error: BaseException) -> str:
    """What a traceback would print of the errors behind this one."""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "" if behind is None else f"{behind}{shown_with(behind)}"


def describe(error: Exception) -> str:
    """The kind of an error and where in our code it came from: alike findings look alike."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(SOURCE)]
    last = ours[-1] if ours else frames[-1]
    where = Path(last.filename)
    where = where.relative_to(SOURCE) if where.is_relative_to(SOURCE) else Path(where.name)
    return f"{type(error).__name__} in {where}, {last.name}"
