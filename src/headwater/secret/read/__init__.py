"""Files of records: read in batches, in order, and from where an earlier run stopped."""

from headwater.secret.read.batch import Batch
from headwater.secret.read.lines import InputChangedError
from headwater.secret.read.options import Options
from headwater.secret.read.sample import FileSample, Sample, sample_of
from headwater.secret.read.source import Source, open_source, read, read_bytes, read_points

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
