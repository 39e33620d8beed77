"""A service round durable runs: records are posted to it, releases are fetched from it, a page shows them live.

One process owns the state of every run. The service knows no mechanism: it hands records to `headwater.run.Run` and
shows what that releases.
"""

from headwater.service.config import Limits, RunSettings, ServiceConfig
from headwater.service.service import Service

__all__ = ["Limits", "RunSettings", "Service", "ServiceConfig"]
