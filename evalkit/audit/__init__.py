"""A reward held against human labels: inputs, spec, agreement, findings, verdict."""

from evalkit.audit.agreement import Line
from evalkit.audit.audit import Audit, Reading, audit
from evalkit.audit.by_judge import JudgeFile, JudgeScorer, load_judge
from evalkit.audit.by_model import ModelScorer, model_options
from evalkit.audit.evidence import Evidence, Ledger, gather
from evalkit.audit.findings import SEVERITIES, Finding, Severity
from evalkit.audit.inputs import (
    Columns,
    Scores,
    dimensions_of,
    file_digest,
    labels_of,
    mapping_digest,
    parse_mapping,
    read_columns,
    scores_of,
)
from evalkit.audit.of_run import run_digest, scores_of_run
from evalkit.audit.pairs import PairsAudit, audit_pairs
from evalkit.audit.plan import AuditPlan, Wish, plan_audit, read_measured
from evalkit.audit.plan import Row as PlanRow
from evalkit.audit.scoring import Scorer, Scoring, score_data
from evalkit.audit.spec import (
    AuditLock,
    AuditSpec,
    freeze_audit,
    load_audit_lock,
    load_audit_spec,
    lock_of,
    lock_path,
    write_audit_starter,
)
from evalkit.audit.store import audit_digest, audit_json, evidence_frame, keep
from evalkit.audit.verdict import Verdict

__all__ = [
    "SEVERITIES",
    "Audit",
    "AuditLock",
    "AuditPlan",
    "AuditSpec",
    "Columns",
    "Evidence",
    "Finding",
    "JudgeFile",
    "JudgeScorer",
    "ModelScorer",
    "Scorer",
    "Scoring",
    "Ledger",
    "Line",
    "PairsAudit",
    "PlanRow",
    "Reading",
    "Scores",
    "Severity",
    "Verdict",
    "Wish",
    "audit",
    "audit_pairs",
    "audit_digest",
    "audit_json",
    "dimensions_of",
    "evidence_frame",
    "freeze_audit",
    "gather",
    "keep",
    "labels_of",
    "load_audit_lock",
    "load_audit_spec",
    "load_judge",
    "model_options",
    "score_data",
    "lock_of",
    "parse_mapping",
    "plan_audit",
    "read_columns",
    "read_measured",
    "file_digest",
    "lock_path",
    "write_audit_starter",
    "mapping_digest",
    "run_digest",
    "scores_of",
    "scores_of_run",
]
