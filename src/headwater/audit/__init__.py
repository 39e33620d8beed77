"""The auditor: tries to refute the claim that Headwater is ε-private, or (ε, δ)-private, and says how far that got.

It samples (a lower confidence bound on ε, or on δ, with the event that gave it), computes (exact losses on small cases)
and checks (ledgers, pairs of files, and what every mechanism must do, whoever wrote it: `check_mechanism`). Streams are
made up: it reads nobody's data. It needs what ``headwater[audit,cli]`` installs.
"""

from headwater.audit.audit import audit_pairs, run_audit
from headwater.audit.cases import Case, CheckFailed
from headwater.audit.conformance import check_mechanism, checks
from headwater.audit.experiments import AuditAlarm, Experiment
from headwater.audit.files import check_files, file_pairs
from headwater.audit.findings import AuditReport, ExactFinding, Finding, judge
from headwater.audit.losses import Loss, check_counting, check_ledger, check_sensitivity, loss_between
from headwater.audit.streams import Pair
from headwater.audit.traits import Traits

__all__ = [
    "AuditAlarm",
    "AuditReport",
    "Case",
    "CheckFailed",
    "ExactFinding",
    "Experiment",
    "Finding",
    "Loss",
    "Pair",
    "Traits",
    "audit_pairs",
    "check_counting",
    "check_files",
    "check_ledger",
    "check_mechanism",
    "check_sensitivity",
    "checks",
    "file_pairs",
    "judge",
    "loss_between",
    "run_audit",
]
