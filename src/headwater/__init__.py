"""Headwater: synthetic data from a live stream, published again and again under one fixed privacy budget."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.evaluation.evaluation import evaluate as evaluate
    from headwater.public.answers import Answer as Answer
    from headwater.public.answers import AnswerTable as AnswerTable
    from headwater.public.budget import DeltaWarning as DeltaWarning
    from headwater.public.budget import EpsilonWarning as EpsilonWarning
    from headwater.public.categories import Boolean as Boolean
    from headwater.public.categories import Category as Category
    from headwater.public.cube import unit_cube as unit_cube
    from headwater.public.derived import Derived as Derived
    from headwater.public.errors import SchemaError as SchemaError
    from headwater.public.errors import TableError as TableError
    from headwater.public.files import FileRefusedError as FileRefusedError
    from headwater.public.moments import Datetime as Datetime
    from headwater.public.moments import TimeOfDay as TimeOfDay
    from headwater.public.numbers import Integer as Integer
    from headwater.public.numbers import Number as Number
    from headwater.public.outlook import outlook as outlook
    from headwater.public.outlook import suggest_records_per_person as suggest_records_per_person
    from headwater.public.person import Person as Person
    from headwater.public.release import Release as Release
    from headwater.public.schema import Schema as Schema
    from headwater.secret.batch import Batch as Batch
    from headwater.secret.counters import BinaryCounter as BinaryCounter
    from headwater.secret.counters import HybridCounter as HybridCounter
    from headwater.secret.counters import InhomogeneousCounter as InhomogeneousCounter
    from headwater.secret.counters import SparseCounter as SparseCounter
    from headwater.secret.noise import SeededRunWarning as SeededRunWarning
    from headwater.secret.read.draft import draft as draft
    from headwater.secret.read.source import read as read
    from headwater.synthesizer import Synthesizer as Synthesizer
    from headwater.synthesizer import pmm as pmm

_NAMES = {
    "evaluation.evaluation": "evaluate",
    "public.answers": "Answer AnswerTable",
    "public.budget": "DeltaWarning EpsilonWarning",
    "public.categories": "Boolean Category",
    "public.errors": "SchemaError TableError",
    "public.files": "FileRefusedError",
    "public.numbers": "Integer Number",
    "public.outlook": "outlook suggest_records_per_person",
    "public.person": "Person",
    "public.release": "Release",
    "public.schema": "Schema",
    "public.derived": "Derived",
    "public.moments": "Datetime TimeOfDay",
    "public.cube": "unit_cube",
    "secret.batch": "Batch",
    "secret.counters": "BinaryCounter HybridCounter InhomogeneousCounter SparseCounter",
    "secret.noise": "SeededRunWarning",
    "secret.read.draft": "draft",
    "secret.read.source": "read",
    "synthesizer": "Synthesizer pmm",
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
__version__ = "0.1.0"
__all__ = ["__version__", *_MODULES]


if not TYPE_CHECKING:  # a checker would take any name for one of the package

    def __getattr__(name: str) -> object:
        """Names are imported when they are asked for: who only opens a release never loads what reads records."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(import_module(_MODULES[name]), name))


def __dir__() -> list[str]:
    return sorted(__all__)
