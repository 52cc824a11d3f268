"""Deployed versions: their list and states, what is done with them, the chat side by side."""

import threading
import time
from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User
from sqlmodel import col, select

from app.caller import Caller
from app.errors import EndpointNotReady
from app.job_shapes import JobItem
from app.service import Service
from data.home import open_home
from data.store import Store
from data.tables import Job, JobControl
from tests.pages.conftest import demote, texts, until
from tests.pages.parrot import SYSTEM, Parrot, deploy_version, lay_checkpoints
from tests.pages.test_jobs import confirm, rows

TUNED, BASE = "arith-carry-1/candidate-1", "arith-carry-1/base"
WRONG = "It is <b>32</b>, I think."


@pytest.fixture
def parrot(service: Service) -> Parrot:
    """What answers: the tuned version rightly, the base at length and wrong."""
    twin = Parrot(says={TUNED: "42", BASE: WRONG})
    service.lend(twin)
    return twin


@pytest.fixture
def deployed(console: User, store: Store, parrot: Parrot) -> User:
    """The console with a tuned version and its base."""
    home = open_home(store.path.parent)
    store.write(lambda session: lay_checkpoints(home, session))
    store.write(lambda session: deploy_version(session, "e-base", BASE, "asleep"))
    store.write(lambda session: deploy_version(session, "e-tuned", TUNED, calls=2))
    return console


def asked(store: Store) -> list[tuple[str, str]]:
    with store.read() as session:
        query = select(JobControl).order_by(col(JobControl.id))
        return [(row.job, row.action) for row in session.exec(query)]


def answer(user: User, job: str) -> list[str]:
    """The texts of one answer: who, what, how much."""
    (card,) = user.find(marker=f"answer-{job}").elements
    with user:
        return [one.text for one in card.descendants() if isinstance(one, ui.label)]


async def ask(user: User, question: str) -> None:
    await user.should_see(marker="send")  # hidden until the last answer has ended
    user.find(marker="question").type(question)
    user.find(marker="send").click()
    await user.should_see(marker="answer-e-tuned")


async def test_nothing_deployed_says_what_to_do(console: User) -> None:
    await console.open("/inference")
    await console.should_see("No version is deployed in this project")
    await console.should_see("Deploy the best version of a run from its menu")
    await console.should_not_see(ui.table)


async def test_a_base_model_is_deployed_by_itself(console: User, store: Store) -> None:
    await console.open("/inference")
    await console.should_not_see("sim/student")
    console.find(marker="deploy-SmolLM2-135M-Instruct").click()
    await console.should_see("Deploy SmolLM2-135M-Instruct?")
    await console.should_not_see(marker="with-base")
    confirm(console)
    await until(lambda: console.back_history and "/inference/" in console.back_history[-1])
    with store.read() as session:
        (job,) = session.exec(select(Job).where(Job.type == "inference")).all()
    assert job.spec["version"] == "SmolLM2-135M-Instruct"


async def test_a_row_says_state_use_and_address_and_a_snippet_calls_it(deployed: User) -> None:
    await deployed.open("/inference")
    tuned, base = rows(deployed)
    assert (tuned["name"], tuned["word"], tuned["engine"]) == (
        TUNED,
        "Ready",
        "transformers-cpu-float32",
    )
    assert (tuned["calls"], tuned["tokens"]) == ("2 calls", "2,400 in, 68 out")
    assert tuned["address"] == "http://test/v1/job/e-tuned/Inference"
    assert (base["word"], base["last"]) == ("Asleep", "")
    code = next(said for said in texts(deployed) if said.startswith("import os"))
    assert 'OpenAI(base_url="http://test/v1", api_key=os.environ["ENVLOOP_API_KEY"])' in code
    assert f'model="{TUNED}"' in code
    compile(code, "snippet", "exec")


async def test_what_is_deployed_is_read_beside_the_event_loop(
    deployed: User, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts every call ever made: meanwhile nobody else's page or call may stand still."""
    readers: list[bool] = []
    read = service.endpoints

    def watched(caller: Caller) -> list[JobItem]:
        readers.append(threading.current_thread() is threading.main_thread())
        return read(caller)

    monkeypatch.setattr(service, "endpoints", watched)
    await deployed.open("/inference")
    deployed.find("Refresh").click()
    await until(lambda: len(readers) > 1)
    assert not any(readers)


async def test_pause_resume_wake_and_delete(deployed: User, store: Store) -> None:
    await deployed.open("/inference")
    table = deployed.find(ui.table)
    menus = {row["key"]: [one["action"] for one in row["menu"]] for row in rows(deployed)}
    assert menus["e-base"] == ["chat", "call", "wake", "pause", "delete"]
    table.trigger("act", {"action": "wake", "key": "e-base"})
    await until(lambda: rows(deployed)[1]["word"] == "Waking")
    table.trigger("act", {"action": "pause", "key": "e-tuned"})
    await deployed.should_see("Calls are refused until somebody resumes it")
    confirm(deployed)
    await until(lambda: rows(deployed)[0]["word"] == "Paused")
    deployed.find(ui.dialog).trigger("hide")
    table.trigger("act", {"action": "resume", "key": "e-tuned"})
    await until(lambda: rows(deployed)[0]["word"] == "Asleep")
    table.trigger("act", {"action": "delete", "key": "e-base"})
    await deployed.should_see("Its checkpoint stays")
    confirm(deployed)
    await until(lambda: [row["key"] for row in rows(deployed)] == ["e-tuned"])
    assert asked(store) == [
        ("e-base", "wake"),
        ("e-tuned", "pause"),
        ("e-tuned", "resume"),
        ("e-base", "stop"),
    ]


async def test_a_viewer_sees_how_to_call_and_does_nothing(deployed: User, store: Store) -> None:
    demote(store)
    await deployed.open("/inference")
    assert [one["action"] for one in rows(deployed)[0]["menu"]] == ["call"]
    deployed.find(ui.table).trigger("act", {"action": "wake", "key": "e-base"})
    await deployed.should_see("owner lacks the capability deploy")
    await deployed.open("/inference/e-tuned")
    await deployed.should_see("owner lacks the capability inference.use")
    assert asked(store) == []


async def test_a_question_is_answered_side_by_side_as_text(deployed: User, parrot: Parrot) -> None:
    await deployed.open("/inference/e-tuned")
    (system,) = deployed.find(marker="system").elements
    assert isinstance(system, ui.textarea)
    assert system.value == SYSTEM
    await ask(deployed, "17 + 25 = ?")
    await until(lambda: "35 tokens" in answer(deployed, "e-base")[-1])
    who, said, note = answer(deployed, "e-tuned")
    assert (who, said) == (TUNED, "42")
    assert note.startswith("7 tokens · ")
    assert answer(deployed, "e-base")[1] == WRONG
    told = next(one for one in parrot.asked if one["job"] == "e-base")
    assert told["messages"] == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "17 + 25 = ?"},
    ]
    assert (told["max_tokens"], told["temperature"], told["actor"]) == (128, 0.0, "owner")


async def test_a_chat_remembers_when_it_is_asked_to(deployed: User, parrot: Parrot) -> None:
    await deployed.open("/inference/e-tuned")
    (alone,) = deployed.find(marker="alone").elements
    (beside,) = deployed.find(marker="compare").elements
    assert isinstance(alone, ui.switch)
    assert isinstance(beside, ui.select)
    alone.value, beside.value = False, ""
    await ask(deployed, "17 + 25 = ?")
    await until(lambda: "7 tokens" in answer(deployed, "e-tuned")[-1])
    deployed.find(marker="question").clear()
    await until(lambda: len(parrot.asked) == 1)
    await ask(deployed, "And 1 more?")
    await until(lambda: len(parrot.asked) == 2)
    assert [one["role"] for one in parrot.asked[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


async def test_an_answer_that_ends_while_the_page_looks_is_shown_whole(
    deployed: User, parrot: Parrot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pages.chat_turn import Turn  # dropped from sys.modules between tests

    refresh, looks = Turn.refresh, iter(range(10**6))

    def look_as_it_ends(turn: Turn) -> None:
        refresh(turn)
        while next(looks) and not turn.over:  # the first one draws it
            time.sleep(0.01)

    monkeypatch.setattr(Turn, "refresh", look_as_it_ends)
    parrot.pace, parrot.says = 0.02, {TUNED: "so " * 40 + "42", BASE: WRONG}
    await deployed.open("/inference/e-tuned")
    await ask(deployed, "17 + 25 = ?")
    await until(lambda: answer(deployed, "e-tuned")[-1].startswith("287 tokens"))
    assert answer(deployed, "e-tuned")[1].endswith(" 42")


async def test_cancel_ends_both_answers(deployed: User, parrot: Parrot) -> None:
    parrot.pace, parrot.says = 0.02, {TUNED: "so " * 2000, BASE: "so " * 2000}
    await deployed.open("/inference/e-tuned")
    await ask(deployed, "Count on.")
    await until(lambda: answer(deployed, "e-tuned")[1].startswith("so so"))
    deployed.find(marker="cancel").click()
    await until(lambda: "cancelled" in answer(deployed, "e-base")[-1])
    await until(lambda: sorted(parrot.left) == [BASE, TUNED])


async def test_who_leaves_the_page_ends_the_answers(deployed: User, parrot: Parrot) -> None:
    parrot.pace, parrot.says = 0.02, {TUNED: "so " * 2000, BASE: "so " * 2000}
    await deployed.open("/inference/e-tuned")
    await ask(deployed, "Count on.")
    assert deployed.client is not None
    deployed.client.delete()
    await until(lambda: sorted(parrot.left) == [BASE, TUNED])


async def test_a_version_that_does_not_answer_says_why(deployed: User, parrot: Parrot) -> None:
    parrot.refusal = EndpointNotReady("e-tuned is paused: resume it first")
    await deployed.open("/inference/e-tuned")
    await ask(deployed, "17 + 25 = ?")
    await until(lambda: answer(deployed, "e-tuned")[-1] == "e-tuned is paused: resume it first")


async def test_the_base_is_deployed_from_the_chat(
    console: User, store: Store, parrot: Parrot
) -> None:
    store.write(lambda session: deploy_version(session, "e-tuned", TUNED))
    await console.open("/inference/e-tuned")
    console.find(marker="deploy-base").click()

    def versions() -> list[Any]:
        with store.read() as session:
            found = session.exec(select(Job).where(Job.type == "inference")).all()
            return [job.spec["version"] for job in found]

    await until(lambda: BASE in versions())
    await console.should_not_see(marker="deploy-base")


async def test_a_job_that_deploys_nothing_has_no_chat(console: User) -> None:
    missing = await console.http_client.get("/inference/arith-carry-1-r1")
    assert missing.status_code == 404
    assert "job arith-carry-1-r1 deploys no version" in missing.text
