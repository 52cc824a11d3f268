"""The matrix of versions and the claim card say what was measured and nothing more."""

from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User
from sqlmodel import select

from app.access import PROJECT, WORKSPACE
from app.caller import ROLES, Caller
from app.service import Service
from app.shapes import RunDetail
from data.store import Store
from data.tables import Round, Run
from pages import charts, evaluations, rounds
from tests import sample_run
from tests.pages.conftest import texts

OWNER = Caller(
    actor="owner", workspace_id=WORKSPACE, project_id=PROJECT, capabilities=ROLES["admin"]
)
RUN = "arith-carry-1"


@pytest.fixture
def detail(store: Store, access: object) -> RunDetail:
    sample_run.fill(store)
    return Service(store, "CPU").run_detail(OWNER, RUN)


def matrix(run: RunDetail) -> dict[str, dict[str, Any]]:
    keys = evaluations.columns_of(run)
    labels = [evaluations.label(run, key) for key in keys]
    changes = evaluations.paired_changes(run)
    rows = [evaluations.row(run, version, keys, changes) for version in run.versions]
    return {row["version"]: {label: row[f"c{n}"] for n, label in enumerate(labels)} for row in rows}


def test_columns_are_suites_and_splits_dev_first(detail: RunDetail) -> None:
    shown = [evaluations.label(detail, key) for key in evaluations.columns_of(detail)]
    assert shown == ["arith · dev", "arith · blind, round 1", "arith · held out", "guard"]


def test_a_cell_shows_mean_interval_n_and_coverage(detail: RunDetail) -> None:
    cells = matrix(detail)
    assert cells["base"]["arith · dev"]["mean"] == "0.204"
    assert cells["base"]["arith · dev"]["change"] == ""
    blind = cells["candidate-1"]["arith · blind, round 1"]
    assert (blind["interval"], blind["counts"]) == ("0.358–0.454", "n 400 · 99.5%")
    assert "2 of 402" not in cells["candidate-1"]["arith · dev"]["about"]


def test_only_a_change_told_from_zero_is_coloured(detail: RunDetail) -> None:
    cells = matrix(detail)["candidate-1"]
    assert (cells["arith · dev"]["change"], cells["arith · dev"]["tone"]) == ("+0.212", "pw-good")
    assert cells["guard"]["change"].startswith("−")
    assert cells["guard"]["tone"] == ""
    second = matrix(detail)["candidate-2"]["arith · dev"]
    assert second["change"].startswith("+")
    assert second["tone"] == "pw-good"  # against the baseline, though not proven against the best


def test_what_was_not_measured_is_a_dash(detail: RunDetail) -> None:
    assert matrix(detail)["candidate-2"]["guard"] is None


def test_scores_under_another_protocol_are_not_compared(detail: RunDetail) -> None:
    candidate = next(v for v in detail.versions if v.version == "candidate-1")
    for score in candidate.scores:
        if score.split == "dev":
            score.protocol_hash = "another"
    shown = matrix(detail)["candidate-1"]
    (other,) = (cell for label, cell in shown.items() if label == "arith · dev, round 1" and cell)
    assert other["change"] == ""


def test_only_the_newest_blind_round_has_a_column(detail: RunDetail) -> None:
    first, second = detail.versions[1:]
    blind = next(score for score in first.scores if score.split == "blind")
    second.scores.append(blind.model_copy(update={"round": 2, "protocol_hash": "fresh tasks"}))
    shown = [evaluations.label(detail, key) for key in evaluations.columns_of(detail)]
    assert shown == ["arith · dev", "arith · blind, round 2", "arith · held out", "guard"]
    assert matrix(detail)["candidate-2"]["arith · blind, round 2"]["change"] == ""


async def test_the_claim_card_reports_the_gate(console: User) -> None:
    await console.open(f"/runs/{RUN}?tab=evaluations")
    for text in ("Claim: gate of round 1", "promote", "blind, over base", "7c1e 90ab"):
        await console.should_see(text)
    await console.should_see("95% interval 0.160 to 0.268, paired")
    await console.should_see("random secret, 32 bytes")
    await console.should_see("$1.05 model, 0.98 h device")


async def test_a_rule_that_is_not_met_stands_first(console: User, store: Store) -> None:
    def break_rule(session: Any) -> None:
        row = session.exec(select(Round).where(Round.run == RUN, Round.number == 1)).one()
        checks = [dict(check) for check in row.evidence["checks"]]
        checks[-1]["ok"] = False
        row.evidence = row.evidence | {"checks": checks}

    store.write(break_rule)
    await console.open(f"/runs/{RUN}?tab=evaluations")
    seen = texts(console)
    assert seen.index("significance") < seen.index("enough tasks")


async def test_a_seeded_run_says_so_on_its_claim(console: User, store: Store) -> None:
    def seed(session: Any) -> None:
        session.get_one(Run, RUN).seed = 7

    store.write(seed)
    await console.open(f"/runs/{RUN}?tab=evaluations")
    await console.should_see("seed 7: repeatable")


async def test_a_dry_run_claims_nothing(console: User) -> None:
    await console.open("/runs/carry-rehearsal-1?tab=evaluations")
    await console.should_see("not evaluated")
    await console.should_see("dry run: nothing was trained")


async def test_a_run_without_any_score_says_so(console: User) -> None:
    await console.open("/runs/code-strings-1?tab=evaluations")
    await console.should_see("Nothing was evaluated yet.")
    await console.should_see("No gate has decided yet.")


def test_the_ledger_tells_what_each_round_did(detail: RunDetail) -> None:
    second, first = rounds.ledger_rows(detail)
    assert (second["number"], second["decision"]) == (2, "inconclusive")
    assert second["blind"]["mean"] == "—"
    assert second["dev"] == {"mean": "+0.017", "span": "−0.044 to 0.077"}
    assert (first["decision"], first["version"], first["rows"]) == (
        "promote",
        "candidate-1",
        "1,712",
    )
    assert first["blind"]["mean"].startswith("+0.")
    assert [part["name"] for part in first["families"]] == ["sums", "replay", "products"]
    assert [(part["name"], part["count"]) for part in first["sources"]] == [
        ("student", "78"),
        ("replay", "41"),
        ("generator", "37"),
    ]
    assert first["followed"] == [
        "follows the steer “Prefer long carry chains.”: more tasks of that kind"
    ]
    assert {"term": "Planner", "value": "built-in"} in first["settings"]
    assert {"term": "Tasks", "value": "sums 280, products 120"} in first["settings"]
    assert [one["name"] for one in first["results"]] == ["Dev", "Blind", "Held out", "Guard"]
    assert second["audits"][0]["word"] == "error"


async def test_the_ledger_is_on_its_tab(console: User) -> None:
    await console.open(f"/runs/{RUN}?tab=rounds")
    (table,) = console.find(ui.table).elements
    assert [row["number"] for row in table.rows] == [2, 1]


def test_the_score_chart_marks_promoted_versions_and_only_rises(detail: RunDetail) -> None:
    chart = charts.score_chart(detail)
    assert chart.options is not None
    assert "base 0.204, candidate-1 0.417" in chart.says
    whiskers, best, _, baseline, promoted, other = chart.options["series"]
    assert len(whiskers["data"]) == 3
    assert (len(baseline["data"]), len(promoted["data"]), len(other["data"])) == (1, 1, 1)
    steps = [value for _, value in best["data"]]
    assert steps == sorted(steps)
    assert chart.options["yAxis"]["min"] == 0


def test_the_loss_chart_keeps_raw_and_smoothed_to_the_planned_end(
    store: Store, access: object
) -> None:
    sample_run.fill(store)
    live = Service(store, "CPU").run_live(OWNER, "arith-carry-2")
    chart = charts.loss_chart(live)
    assert chart.options is not None
    assert chart.options["xAxis"]["max"] == 345
    raw, smooth = chart.options["series"]
    assert len(raw["data"]) == len(smooth["data"]) == len(live.loss)


def test_a_run_without_points_has_words_instead_of_an_empty_chart(
    store: Store, access: object
) -> None:
    sample_run.fill(store)
    service = Service(store, "CPU")
    assert charts.score_chart(service.run_detail(OWNER, "code-strings-1")).options is None
    assert charts.loss_chart(service.run_live(OWNER, "code-strings-1")).options is None
