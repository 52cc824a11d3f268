"""What an answer in chunks has used is on record, also when its caller leaves in the middle."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from app.access import PROJECT, Access
from data.home import open_home
from data.store import Store
from data.tables import EndpointUse, Job
from engine.errors import EndpointNotReady
from engine.serving.answers import Shaper
from engine.serving.bodies import CHAT, COMPLETIONS
from engine.serving.calls import Call, counted

PIECES: list[dict[str, Any]] = [
    {"tokens_in": 34, "text": "", "tokens": []},
    {"text": "Par", "tokens": []},
    {"text": "is", "tokens": []},
    {"text": "", "tokens": [], "finish": "stop", "tokens_out": 4},
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a deployed version's job."""
    home = open_home(tmp_path)
    opened = Store(home.database)
    Access(opened, home).ensure_owner()
    opened.write(lambda s: s.add(Job(id="e-1", project_id=PROJECT, type="inference")))
    yield opened
    opened.close()


def chunks(route: str) -> Iterator[dict[str, Any]]:
    return Shaper(route=route, model="tiny", told=False).chunks(iter(PIECES), True)


def heard(store: Store, route: str, most: int, wants_usage: bool) -> list[dict[str, Any]]:
    """The chunks that a caller gets who leaves after `most` of them."""
    row = Job(id="e-1", project_id=PROJECT, type="inference")
    found: list[dict[str, Any]] = []
    with pytest.raises(GeneratorExit), Call(store=store, job=row, actor="ann", route=route) as call:
        for chunk in counted(chunks(route), call, "sums-1/base", wants_usage):
            found.append(chunk)
            if len(found) == most:
                break
        raise GeneratorExit
    return found


def used(store: Store) -> tuple[int, int]:
    """Tokens in and out of the call on record."""
    store.write(lambda session: None)  # what was posted before is written now
    with store.read() as session:
        call = session.exec(select(EndpointUse)).one()
        return call.tokens_in, call.tokens_out


@pytest.mark.parametrize(
    ("route", "most", "tokens"),
    [(CHAT, 1, (34, 0)), (CHAT, 2, (34, 1)), (CHAT, 9, (34, 4)), (COMPLETIONS, 2, (34, 2))],
)
def test_whoever_leaves_has_used_the_prompt_and_the_text_that_came(
    store: Store, route: str, most: int, tokens: tuple[int, int]
) -> None:
    heard(store, route, most, wants_usage=False)
    assert used(store) == tokens


def test_only_the_last_chunk_tells_the_usage_and_only_where_it_is_wanted(store: Store) -> None:
    told = [chunk["usage"] for chunk in heard(store, CHAT, 9, wants_usage=True)]
    whole = {"prompt_tokens": 34, "completion_tokens": 4, "total_tokens": 38}
    assert told == [None] * len(PIECES) + [whole]
    assert all("usage" not in chunk for chunk in heard(store, CHAT, 9, wants_usage=False))


def test_the_calls_of_an_hour_are_one_row_for_each_caller(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, so that reading what was used takes no time."""
    monkeypatch.setattr("engine.serving.calls.now", lambda: "2026-03-11T12:30:00.000Z")
    for _ in range(3):
        heard(store, CHAT, 2, wants_usage=False)
    assert used(store) == (3 * 34, 3)
    with store.read() as session:
        use = session.exec(select(EndpointUse)).one()
    assert (use.calls, use.status, use.actor) == (3, "broken", "ann")


def test_what_could_not_begin_is_no_use(store: Store) -> None:
    """A caller who tries again all night while a training has the device used nothing."""
    row = Job(id="e-1", project_id=PROJECT, type="inference")
    with pytest.raises(EndpointNotReady), Call(store=store, job=row, actor="ann", route=CHAT):
        raise EndpointNotReady("the device is held by sums-1 (train)")
    store.write(lambda session: None)
    with store.read() as session:
        assert session.exec(select(EndpointUse)).all() == []
