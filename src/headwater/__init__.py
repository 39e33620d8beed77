"""Headwater: synthetic data from a live stream, published again and again under one fixed privacy budget."""

from headwater.evaluation.evaluation import evaluate
from headwater.public.budget import DeltaWarning, EpsilonWarning
from headwater.public.categorical import Boolean, Category
from headwater.public.errors import SchemaError, TableError
from headwater.public.files import FileRefusedError
from headwater.public.numeric import Integer, Number
from headwater.public.outlook import outlook, suggest_records_per_person
from headwater.public.person import Person
from headwater.public.release import Release
from headwater.public.schema import Schema
from headwater.public.time_of_day import TimeOfDay
from headwater.public.times import Datetime
from headwater.public.unit_cube import unit_cube
from headwater.public.version import __version__
from headwater.secret.batch import Batch
from headwater.secret.counters import BinaryCounter, HybridCounter, InhomogeneousCounter, SparseCounter
from headwater.secret.noise import SeededRunWarning
from headwater.secret.read.draft import draft
from headwater.secret.read.tables import read
from headwater.synthesizer import Synthesizer, pmm

__all__ = [
    "BinaryCounter",
    "Boolean",
    "Batch",
    "Category",
    "Datetime",
    "DeltaWarning",
    "EpsilonWarning",
    "FileRefusedError",
    "HybridCounter",
    "InhomogeneousCounter",
    "Integer",
    "Number",
    "Person",
    "Release",
    "Schema",
    "SchemaError",
    "SeededRunWarning",
    "SparseCounter",
    "Synthesizer",
    "TableError",
    "TimeOfDay",
    "__version__",
    "draft",
    "evaluate",
    "outlook",
    "pmm",
    "read",
    "suggest_records_per_person",
    "unit_cube",
]
