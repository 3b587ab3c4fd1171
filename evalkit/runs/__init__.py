"""Doing it: plan, execute, journal, score, summarise, compare."""

from evalkit.runs.alarms import Alarm
from evalkit.runs.comparable import Comparability, Side
from evalkit.runs.compare import Comparison, PairedResult, compare_runs, side_of
from evalkit.runs.evidence import Evidence, load_evidence
from evalkit.runs.execute import Progress
from evalkit.runs.folder import RunFolder, find_run, list_runs
from evalkit.runs.looks import Optimism, models_looked_at, optimism, record_look, worn_out
from evalkit.runs.plan import Items
from evalkit.runs.preflight import Preflight, check_role, last_verdict, preflight_model, record_preflight
from evalkit.runs.run import RunResult, run_model
from evalkit.runs.scoring import check_sources, rescore, resolver, score_stored
from evalkit.runs.select import Selected, label_sheet, select_samples
from evalkit.runs.stability import Stability
from evalkit.runs.summary import Measure, MetricValue, Summary, summarize
from evalkit.runs.watching import watch

__all__ = [
    "Alarm",
    "Comparability",
    "Comparison",
    "Evidence",
    "Items",
    "Measure",
    "MetricValue",
    "Optimism",
    "PairedResult",
    "Preflight",
    "Progress",
    "RunFolder",
    "RunResult",
    "Selected",
    "Side",
    "Stability",
    "Summary",
    "check_role",
    "check_sources",
    "compare_runs",
    "find_run",
    "label_sheet",
    "last_verdict",
    "list_runs",
    "load_evidence",
    "models_looked_at",
    "optimism",
    "preflight_model",
    "record_look",
    "record_preflight",
    "rescore",
    "resolver",
    "run_model",
    "score_stored",
    "select_samples",
    "side_of",
    "summarize",
    "watch",
    "worn_out",
]
