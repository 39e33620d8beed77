"""The durable run: keep before counting, publish, go on after a kill."""

from headwater.run.config import RunConfig, Schedule
from headwater.run.feed import feed
from headwater.run.measured import Moment, measured_beside
from headwater.run.run import Run
from headwater.run.sink import FolderSink, Published, Sink

__all__ = ["FolderSink", "Moment", "Published", "Run", "RunConfig", "Schedule", "Sink", "feed", "measured_beside"]
