"""Files of records: read in batches, in order, and from where an earlier run stopped."""

from headwater.table.readers.batch import Batch
from headwater.table.readers.options import InputChangedError, Options
from headwater.table.readers.sample import FileSample, Sample, sample_of
from headwater.table.readers.source import Source, open_source
from headwater.table.readers.tables import read, read_points

__all__ = [
    "Batch",
    "FileSample",
    "InputChangedError",
    "Options",
    "Sample",
    "Source",
    "open_source",
    "read",
    "read_points",
    "sample_of",
]
