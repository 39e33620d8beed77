"""Headwater: synthetic data from a live stream, published again and again under one fixed privacy budget."""

from headwater.counters import BinaryCounter, HybridCounter, InhomogeneousCounter, SparseCounter
from headwater.evaluate.evaluation import evaluate
from headwater.files import FileRefusedError
from headwater.mechanisms.counted import BucketedCounts
from headwater.mechanisms.outlook import outlook
from headwater.mechanisms.records_per_person import suggest_records_per_person
from headwater.noise import SeededRunWarning
from headwater.people import Person
from headwater.privacy import DeltaWarning, EpsilonWarning
from headwater.release.release import Release
from headwater.stateless import pmm
from headwater.synthesizer import Synthesizer
from headwater.table.columns import Boolean, Category, Datetime, Integer, Number, TimeOfDay
from headwater.table.draft import draft
from headwater.table.errors import SchemaError, TableError
from headwater.table.readers import read
from headwater.table.schema import Schema
from headwater.table.unit_cube import unit_cube
from headwater.version import __version__

__all__ = [
    "BinaryCounter",
    "Boolean",
    "BucketedCounts",
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
