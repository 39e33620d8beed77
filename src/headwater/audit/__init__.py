"""The auditor: tries to refute the claim that Headwater is ε-private, or (ε, δ)-private, and says how far that got.

One idea: a list of cases (`cases`), what everybody sees of one (`view`), and a judge, who samples (a lower confidence
bound on ε, or on δ, with the event that gave it: `sampled`) or computes (exact losses, ledgers: `exact`). Pairs of
files (`files`) go through the command line. `check_mechanism` is what every mechanism must pass, whoever wrote it.
Streams are made up: nobody's data is read. It needs what ``headwater[audit,cli]`` installs.
"""

from headwater.audit.audit import AuditReport, run_audit
from headwater.audit.cases import Case, Pair, Traits
from headwater.audit.conformance import CheckFailed, Subject, check_mechanism, checks
from headwater.audit.exact import check_sensitivity
from headwater.audit.sampled import Finding
from headwater.audit.view import AuditAlarm

__all__ = [
    "AuditAlarm",
    "AuditReport",
    "Case",
    "CheckFailed",
    "Finding",
    "Pair",
    "Subject",
    "Traits",
    "check_mechanism",
    "check_sensitivity",
    "checks",
    "run_audit",
]
