"""The auditor: tries to refute the claim that Headwater is ε-private, or (ε, δ)-private, and says how far that got.

It samples (a lower confidence bound on ε, or on δ, with the event that gave it), computes (exact losses on small cases)
and checks (ledgers, and what a neighbour moves). Streams are made up: it reads nobody's data.
"""

from headwater.audit.audit import audit_pairs, exact_findings, run_audit
from headwater.audit.checks import Loss, check_counting, check_ledger, check_sensitivity, loss_between
from headwater.audit.edges import check_files, check_tables, file_pairs
from headwater.audit.exact import linear_loss
from headwater.audit.experiments import AuditAlarm, Experiment
from headwater.audit.findings import Finding, judge
from headwater.audit.page import AuditReport, ExactFinding
from headwater.audit.runner import run_experiments
from headwater.audit.sealing import sparse_loss
from headwater.audit.streams import Pair

__all__ = [
    "AuditAlarm",
    "AuditReport",
    "ExactFinding",
    "Experiment",
    "Finding",
    "Loss",
    "Pair",
    "audit_pairs",
    "check_counting",
    "check_files",
    "check_ledger",
    "check_sensitivity",
    "check_tables",
    "exact_findings",
    "file_pairs",
    "judge",
    "linear_loss",
    "loss_between",
    "run_audit",
    "run_experiments",
    "sparse_loss",
]
