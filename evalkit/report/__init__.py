"""What people read: tables, comparisons, lists, progress."""

from evalkit.report.audit import audit_text, rules_text
from evalkit.report.comparisons import comparison_text
from evalkit.report.lists import events_text, looks_text, run_entry, runs_text
from evalkit.report.pairs import pairs_text
from evalkit.report.plain import interval, number, percent, table, to_json, visible
from evalkit.report.plan import plan_text
from evalkit.report.preflight import preflight_text
from evalkit.report.progress import count_line, progress_line
from evalkit.report.samples import samples_text
from evalkit.report.splits import build_text, splits_text, verify_text
from evalkit.report.summaries import checkpoint_table, details, result_line

__all__ = [
    "audit_text",
    "rules_text",
    "build_text",
    "checkpoint_table",
    "comparison_text",
    "count_line",
    "details",
    "events_text",
    "interval",
    "looks_text",
    "number",
    "pairs_text",
    "percent",
    "plan_text",
    "preflight_text",
    "progress_line",
    "result_line",
    "run_entry",
    "runs_text",
    "samples_text",
    "splits_text",
    "table",
    "to_json",
    "verify_text",
    "visible",
]
