"""The audits that a run needs, each in a file of its own."""

from types import ModuleType

from engine.audits import budget_reconcile, data_leakage, score_coverage

AUDITS: dict[str, ModuleType] = {
    data_leakage.NAME: data_leakage,
    score_coverage.NAME: score_coverage,
    budget_reconcile.NAME: budget_reconcile,
}
