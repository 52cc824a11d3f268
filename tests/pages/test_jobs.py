"""Jobs: the list and its filters, one job's result, log and loop, stopping it, training by hand."""

import json
from typing import Any

from nicegui import ui
from nicegui.testing import User
from sqlmodel import select

from app.access import PROJECT
from data.events import append
from data.job_places import log_name
from data.store import Store
from data.tables import Control, Job, Live, now
from tests.pages.conftest import PATIENCE, demote, stop_looking, texts, until

ROW = '{"messages": [{"role": "user", "content": "2 + 3 = ?"}], "completion": "5"}'
HAND: dict[str, Any] = {
    "id": "job-1",
    "project_id": PROJECT,
    "type": "train",
    "status": "completed",
    "labels": {"rsi_purpose": "train by hand"},
    "spec": {"base_model": "SmolLM2-135M-Instruct", "name": "sums"},
    "finished_at": "2099-01-01T00:00:00Z",
    "result": {
        "training": {"steps": 12, "loss_first": 2.5, "loss_last": 0.25, "seconds": 61.0},
        "evaluation": {
            "base": {"mean": 0.2, "low": 0.13, "high": 0.28},
            "adapter": {"mean": 0.5, "low": 0.4, "high": 0.6},
            "paired": {
                "n": 100,
                "difference": 0.3,
                "low": 0.2,
                "high": 0.4,
                "p_value": 0.001,
                "fixed": 33,
                "regressed": 3,
                "coverage": 1.0,
                "conservative": 0.3,
            },
        },
    },
}


def rows(user: User) -> list[dict[str, Any]]:
    (table,) = user.find(ui.table).elements
    return table.rows


def confirm(user: User) -> None:
    """Click the dialog's own button, twice as an impatient person does."""
    button = user.find(marker="confirm")
    button.click()
    button.click()


async def test_the_list_names_run_round_and_state_and_is_filtered_by_the_address(
    console: User, store: Store
) -> None:
    store.write(
        lambda session: session.add(Job(**HAND | {"status": "failed", "reason": "no room"}))
    )
    await console.open("/jobs?type=train")
    first, *others = rows(console)
    assert (first["key"], first["sub"], first["word"], first["reason"]) == (
        "job-1",
        "sums",
        "failed",
        "no room",
    )
    assert first["run"] == ""
    loops = {row["key"]: (row["run"], row["round"], row["word"]) for row in others}
    assert loops["arith-carry-2-r2"] == ("arith-carry-2", "round 2", "running")
    assert loops["carry-rehearsal-1-r1"][2] == "completed"
    console.find(marker="type-inference").click()
    await console.should_see("No match for this filter")
    console.find("Clear the filter").click()
    await console.should_see("1–6")
    from pages.browser import Address

    (address,) = console.find(Address).elements
    assert address.props["url"] == "/jobs"
    await console.open("/jobs?status=failed")
    assert [row["key"] for row in rows(console)] == ["job-1"]


async def test_a_loops_job_is_stopped_with_its_run(console: User, store: Store) -> None:
    await console.open("/jobs")
    table = console.find(ui.table)
    table.trigger("act", {"action": "stop", "key": "../nothing"})
    await console.should_see("there is no job ../nothing")
    table.trigger("act", {"action": "stop", "key": "arith-carry-2-r2"})
    await console.should_see("It belongs to the run arith-carry-2")
    stop_looking(console)
    confirm(console)

    def asked() -> list[tuple[str, str]]:
        with store.read() as session:
            return [(row.run, row.action) for row in session.exec(select(Control))]

    await until(asked)
    assert asked() == [("arith-carry-2", "stop")]

    def word() -> str:
        words = {row["key"]: row["word"] for row in rows(console)}
        return str(words["arith-carry-2-r2"])

    await until(lambda: word() == "cancelling")


async def test_a_job_of_a_loop_shows_scores_log_and_the_way_to_its_run(
    console: User, store: Store
) -> None:
    await console.open("/jobs/arith-carry-2-r2?tab=log")

    def go_on(session: Any) -> None:
        append(session, "arith-carry-2", "message", "halfway there")
        append(session, "arith-carry-2", "message", "nearly there")

    store.write(go_on)
    await console.should_see("nearly there")
    told = [said for said in texts(console) if said.endswith("there")]
    assert told == ["nearly there", "halfway there"]
    await console.open("/jobs/arith-carry-1-r1")
    seen = texts(console)
    assert [seen[seen.index("Blind") + n] for n in (1, 2)] == ["0.405", "400"]
    await console.open("/jobs/arith-carry-1-r1?tab=loop")
    await console.should_see("Open the run")
    await console.should_see("2 rounds, 1 promoted")


async def test_a_job_by_hand_compares_base_and_checkpoint(console: User, store: Store) -> None:
    store.write(lambda session: session.add(Job(**HAND)))
    await console.open("/jobs/job-1")
    await console.should_not_see("Loop progress")
    seen = texts(console)
    at = seen.index("Checkpoint")
    assert seen[at : at + 4] == ["Checkpoint", "0.500", "0.400–0.600", "100"]
    for words in ("+0.300", "0.200 to 0.400", "Tasks fixed", "1 min 1 s"):
        await console.should_see(words)


async def test_a_training_by_hand_shows_how_far_it_is(console: User, store: Store) -> None:
    going = {"status": "running", "finished_at": None, "result": {}}
    store.write(lambda session: session.add(Job(**HAND | going)))
    await console.open("/jobs/job-1")
    await console.should_see("No figures yet.")
    await console.should_not_see("training steps")
    far = {"run": log_name("job-1"), "phase": "train", "started_at": now()}
    store.write(lambda s: s.add(Live(**far, done=12, total=40, text="training steps")))
    await until(lambda: "12 of 40 training steps" in texts(console))
    await console.should_see("30%")
    store.write(lambda s: s.merge(Job(**HAND)))
    await until(lambda: "Tasks fixed" in texts(console))
    await console.should_not_see("12 of 40 training steps")


async def test_an_adapter_that_was_brought_is_no_training(console: User, store: Store) -> None:
    brought = {"id": "import-1", "labels": {"source": "import", "imported": "sums"}, "result": {}}
    store.write(lambda session: session.add(Job(**HAND | brought)))
    await console.open("/jobs?type=train")
    assert (rows(console)[0]["type"], rows(console)[0]["sub"]) == ("Import", "sums")
    await console.open("/jobs/import-1")
    await console.should_see("Import, sums")


async def test_a_job_that_is_not_there_is_said_and_the_way_back_shown(console: User) -> None:
    missing = await console.http_client.get("/jobs/nothing-1")
    assert missing.status_code == 404
    assert "there is no job nothing-1" in missing.text
    assert "All jobs" in missing.text


async def test_rows_are_counted_and_trained_by_hand(console: User, store: Store) -> None:
    await console.open("/train")
    console.find(marker="train").click()
    await console.should_see("give at least one row that can be read")
    pasted = console.find(marker="field-rows")
    pasted.type(f"{ROW}\nnot JSON")
    await console.should_see("Line 2 is no JSON")
    await console.should_not_see("give at least one row that can be read")
    pasted.clear()
    pasted.type(f"{ROW}\n{ROW}")
    await console.should_see("2 rows")
    await console.should_see("of whose 2 rows the first is shown")
    console.find(marker="save-request").click()
    saved = await console.download.next(timeout=PATIENCE)
    assert len(json.loads(saved.content)["spec"]["data"]["rows"]) == 2
    (alpha,) = console.find(marker="field-lora.alpha").elements
    assert isinstance(alpha, ui.number)
    alpha.value = 0
    console.find(marker="train").click()
    await until(lambda: alpha.error)
    assert "lora.alpha" in str(alpha.error)
    alpha.value = 32
    (suite,) = console.find(marker="field-evaluate.suite").elements
    assert isinstance(suite, ui.select)
    suite.value = "arith"
    console.find(marker="train").click()
    await console.should_see("Training, train by hand")
    with store.read() as session:
        (job,) = session.exec(select(Job).where(Job.run == None)).all()
    assert (job.spec["rows"], job.spec["lora"]["alpha"]) == (2, 32)
    assert job.spec["evaluate"] == {"suite": "arith", "n": 100}


async def test_a_viewer_reads_jobs_and_trains_nothing(console: User, store: Store) -> None:
    demote(store)
    await console.open("/jobs")
    await console.should_not_see("Train by hand")
    offered = {one["action"] for row in rows(console) for one in row["menu"]}
    assert offered == {"open"}
    refused = await console.http_client.get("/train")
    assert refused.status_code == 403
    assert "owner lacks the capability training.run" in refused.text
