"""Files of records: read in batches, in order, and from where an earlier run stopped."""

from headwater.table.readers.batch import Batch
from headwater.table.readers.lines import InputChangedError
from headwater.table.readers.options import Options
from headwater.table.readers.sample import FileSample, Sample, sample_of
from headwater.table.readers.source import Source, open_source, read, read_bytes, read_points

__all__ = [
    "Batch",
    "FileSample",
    "InputChangedError",
    "Options",
    "Sample",
    "Source",
    "open_source",
    "read",
    "read_bytes",
    "read_points",
    "sample_of",
]
