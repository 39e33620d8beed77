"""The report: one HTML page that shows how a published data set grew. Needs no network and no server."""

from headwater.report.report import usual_name, write_report

__all__ = ["usual_name", "write_report"]
