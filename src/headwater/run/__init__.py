"""The durable run: takes batches from any source, keeps them, and publishes releases through a sink."""

from headwater.run.config import RunConfig
from headwater.run.feed import feed
from headwater.run.requests import answer_requests
from headwater.run.run import Run
from headwater.run.schedule import Schedule
from headwater.run.sink import FolderSink, Published, Sink

__all__ = ["FolderSink", "Published", "Run", "RunConfig", "Schedule", "Sink", "answer_requests", "feed"]
