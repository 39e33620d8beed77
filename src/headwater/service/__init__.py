"""A service round durable runs: records are posted to it, releases are fetched from it, a page shows them live.

One process owns the state of every run. The service knows no mechanism: it hands records to `headwater.run.Run` and
shows what that releases.
"""

from headwater.service.hosted import Service
from headwater.service.settings import Limits, RunSettings, ServiceConfig

__all__ = ["Limits", "RunSettings", "Service", "ServiceConfig"]
