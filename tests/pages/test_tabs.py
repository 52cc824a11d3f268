"""The tabs Audits, Owner directives and Cost, earlier gates, and filters of the live events."""

import copy
from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User
from sqlmodel import select

from app.access import PROJECT
from app.shapes import DirectiveShape, PlanUse
from data.store import Store
from data.tables import Account, Audit, Directive, Round
from pages import directives
from tests import sample_run
from tests.pages.conftest import demote, texts, until

RUNNING, FINISHED, WAITING = "arith-carry-2", "arith-carry-1", "code-strings-1"


# Audits


async def test_audits_are_counted_and_listed_newest_first(console: User) -> None:
    await console.open(f"/runs/{FINISHED}?tab=audits")
    await console.should_see("5 approved, 1 error")
    (table,) = console.find(ui.table).elements
    first = table.rows[0]
    assert (first["type"], first["verdict"], first["version"]) == ("leak", "error", "candidate-2")
    assert first["first"] == "RuntimeError: the index is not there (examine)"
    assert first["reasons"] == [first["first"], f"checked for {FINISHED}"]
    assert [row["round"] for row in table.rows] == [2, 1, 1, 1, 1, 1]


async def test_a_new_audit_appears_and_is_counted(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}?tab=audits")
    await console.should_see("5 approved")

    def reject(session: Any) -> None:
        session.add(
            Audit(
                project_id=PROJECT,
                run=RUNNING,
                round=2,
                type="score_coverage",
                phase="develop",
                verdict="rejected",
            )
        )
        sample_run.event(session, RUNNING, 13, "message", "an audit has run")

    store.write(reject)
    await console.should_see("5 approved, 1 rejected")
    (table,) = console.find(ui.table).elements
    newest = table.rows[0]
    assert (newest["type"], newest["version"], newest["first"]) == ("score coverage", "—", "—")


async def test_a_run_without_audits_says_so(console: User) -> None:
    await console.open(f"/runs/{WAITING}?tab=audits")
    await console.should_see("No audit has run yet.")


# Owner directives


async def test_directives_are_text_with_author_and_time(console: User) -> None:
    await console.open(f"/runs/{RUNNING}?tab=directives")
    await console.should_see("Keep every answer to the number alone.\nNo worked steps.")
    await console.should_see("owner,")
    await console.should_see("reads no text")  # the built-in planner


def test_a_directive_says_which_plans_read_and_followed_it() -> None:
    said = {"id": "dir-1", "text": "Short answers.", "author": "ann", "at": "2026-01-01T10:00:00Z"}
    uses = [PlanUse(round=number, how=f"way {number}") for number in range(1, 9)]

    def shown(**more: object) -> str:
        return directives.use_of(DirectiveShape.model_validate({**said, **more}))

    assert shown() == "no plan has read it yet"
    assert shown(read=[3]) == "read in round 3, not cited by a plan"
    assert shown(read=[1, 2], used=uses[:1]) == "cited by plan, round 1: way 1"
    assert shown(read=[1, 2], used=uses[:2]) == "cited by plan, rounds 1, 2: way 2"
    assert shown(used=uses) == "cited by plan, 8 rounds, last 8: way 8"


async def test_a_directive_is_added_once_and_shown(console: User, store: Store) -> None:
    await console.open(f"/runs/{FINISHED}?tab=directives")
    console.find(marker="directive").type("Prefer <b>short</b> answers.")
    console.find(marker="add-directive").click()
    await until(lambda: "Prefer <b>short</b> answers." in texts(console))
    seen = texts(console)
    assert seen[seen.index("Owner directives") + 1] == "1"  # beside the tab's name
    with store.read() as session:
        (row,) = session.exec(select(Directive).where(Directive.run == FINISHED)).all()
    assert (row.text, row.author) == ("Prefer <b>short</b> answers.", "owner")


async def test_a_blank_directive_is_refused_beside_its_field(console: User) -> None:
    await console.open(f"/runs/{FINISHED}?tab=directives")
    console.find(marker="directive").type("   ")
    console.find(marker="add-directive").click()
    (field,) = console.find(marker="directive").elements
    assert isinstance(field, ui.textarea)
    refused = "text: give 1 to 4000 characters that are not all blank"
    await until(lambda: field.error == refused)
    await console.should_see("No directive was given.")


async def test_a_directive_of_somebody_else_appears_by_itself(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}?tab=directives")
    said = Directive(id="dir-9", project_id=PROJECT, run=RUNNING, text="From afar.", author="ann")
    store.write(lambda session: session.add(said))
    await console.should_see("From afar.")


async def test_a_viewer_reads_directives_and_has_no_form(console: User, store: Store) -> None:
    demote(store)
    await console.open(f"/runs/{RUNNING}?tab=directives")
    await console.should_see("Keep every answer to the number alone.")
    await console.should_not_see("Add a directive")


async def test_a_right_taken_away_ends_the_form(console: User, store: Store) -> None:
    await console.open(f"/runs/{FINISHED}?tab=directives")
    demote(store)
    console.find(marker="directive").type("One more.")
    console.find(marker="add-directive").click()
    await console.should_see("owner lacks the capability training.run")
    with store.read() as session:
        assert session.exec(select(Directive).where(Directive.run == FINISHED)).first() is None


# Cost


async def test_cost_shows_four_numbers_of_model_money(console: User) -> None:
    await console.open(f"/runs/{RUNNING}?tab=cost")
    seen = texts(console)
    start = seen.index("Confirmed")
    assert seen[start : start + 12] == [
        *("Confirmed", "$1.02", "121 calls, 1 failed"),
        *("Uncertain", "$0.03", "1 call, outcome unknown"),
        *("Reserved", "$0.06", "1 call open"),
        *("Cap", "$5.00", "$3.89 free"),
    ]
    await console.should_see("A stop now can still bill up to $0.06: reserved")


async def test_cost_shows_device_time_by_round_and_phase(console: User) -> None:
    await console.open(f"/runs/{FINISHED}?tab=cost")
    seen = texts(console)
    start = seen.index("before round 1")
    assert seen[start + 1 : start + 8] == ["5 min 22 s", *["—"] * 5, "5 min 22 s"]
    assert seen[seen.index("Device hours") + 1] == "0.98 h"
    assert seen[seen.index("Model requests") + 1] == "124 of —"
    await console.should_not_see("A stop now can still bill")


async def test_cost_of_a_run_that_has_done_nothing_has_dashes(console: User) -> None:
    await console.open(f"/runs/{WAITING}?tab=cost")
    await console.should_see("The device was not used yet.")
    assert "of —" in texts(console)


async def test_refresh_brings_the_cost_of_an_ended_run_up_to_date(
    console: User, store: Store
) -> None:
    await console.open(f"/runs/{FINISHED}?tab=cost")

    def spend(session: Any) -> None:
        session.get_one(Account, f"run:{FINISHED}").model_settled = 2_500_000

    store.write(spend)
    await console.should_not_see("$2.50", retries=1)
    console.find("Refresh").click()
    await console.should_see("$2.50")


# Earlier gates


@pytest.fixture
def two_gates(console: User, store: Store) -> User:
    """The finished run, with a gate in its second round as well."""

    def decide(session: Any) -> None:
        rounds = session.exec(select(Round).where(Round.run == FINISHED)).all()
        first, second = sorted(rounds, key=lambda row: row.number)
        evidence = copy.deepcopy(first.evidence) | {"candidate": "candidate-2"}
        second.evidence = evidence | {"best": "candidate-1"}
        second.reason = "blind as good as before"

    store.write(decide)
    return console


async def test_the_newest_gate_is_shown_and_an_earlier_one_can_be_chosen(two_gates: User) -> None:
    from pages.browser import Address

    await two_gates.open(f"/runs/{FINISHED}?tab=evaluations")
    await two_gates.should_see("blind, over candidate-1")
    (select_,) = two_gates.find(marker="gate").elements
    assert isinstance(select_, ui.select)
    assert select_.value == 2
    select_.value = 1
    await two_gates.should_see("blind, over base")
    (address,) = two_gates.find(Address).elements
    assert address.props["url"] == f"/runs/{FINISHED}?tab=evaluations&gate=1"


async def test_the_address_chooses_the_gate(two_gates: User) -> None:
    await two_gates.open(f"/runs/{FINISHED}?tab=evaluations&gate=1")
    await two_gates.should_see("blind, over base")
    await two_gates.open(f"/runs/{FINISHED}?tab=evaluations&gate=7")
    await two_gates.should_see("blind, over candidate-1")


# Live events


async def test_events_are_filtered_by_kind_and_role_in_the_address(console: User) -> None:
    from pages.browser import Address

    await console.open(f"/runs/{RUNNING}")
    (kind,) = console.find(marker="events-kind").elements
    assert isinstance(kind, ui.select)
    kind.value = "error"
    await console.should_see("provider error, 2 of 96 calls, both retried")
    await console.should_not_see("run started")
    (address,) = console.find(Address).elements
    assert address.props["url"] == f"/runs/{RUNNING}?kind=error"
    kind.value = ""
    await console.should_see("run started")


async def test_an_address_brings_its_filter_and_says_when_nothing_fits(console: User) -> None:
    await console.open(f"/runs/{RUNNING}?kind=error&role=student")
    await console.should_see("No match among the newest 12 events.")
    await console.open(f"/runs/{RUNNING}?kind=nonsense&role=verifier")
    await console.should_see("admit: 1,712 of 2,112 rows kept, 272 duplicates")
    await console.should_not_see("run started")


async def test_a_filter_holds_for_what_happens_later(console: User, store: Store) -> None:
    await console.open(f"/runs/{RUNNING}?role=teacher")

    def more(session: Any) -> None:
        sample_run.event(session, RUNNING, 13, "message", "from the student", "student")
        sample_run.event(session, RUNNING, 14, "message", "from the teacher", "teacher")

    store.write(more)
    await console.should_see("from the teacher")
    await console.should_not_see("from the student")


# Rounds


async def test_a_round_says_how_tasks_became_rows(console: User) -> None:
    await console.open(f"/runs/{FINISHED}?tab=rounds")
    (table,) = console.find(ui.table).elements
    told = {one["term"]: one["value"] for one in table.rows[1]["admission"]}
    assert told == {
        "Tasks planned": "400",
        "Asked of the student": "380",
        "Right answers, own or helped": "1,700",
        "left out: duplicates": "−272",
        "left out by cap: tasks it always gets right": "−31",
        "left out by cap: family full": "−97",
        "New rows": "1,300",
        "Replay rows": "412",
        "Rows of earlier rounds": "0",
    }
