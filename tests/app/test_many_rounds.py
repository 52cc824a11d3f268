"""A run's evidence is read together: more rounds are more rows, not more queries."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event
from sqlmodel import Session, select

from app.access import Access
from app.administration import LOCAL_OWNER
from app.service import Service
from data.store import Store
from data.tables import Audit, Evaluation, Round, Run, TrainingRow
from tests import sample_run

RUN, MANY = "arith-carry-1", 40


@contextmanager
def queries() -> Iterator[list[str]]:
    """What is sent to the database meanwhile."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def more_rounds(session: Session) -> None:
    """Rounds 3 to 40, each like the first one."""
    session.get_one(Run, RUN).round = MANY
    for table in (Audit, Evaluation, TrainingRow, Round):
        at = Round.number if table is Round else table.round  # type: ignore[attr-defined]
        for row in session.exec(select(table).where(table.run == RUN, at == 1)).all():
            fields = row.model_dump(exclude={"id"})
            place = "number" if table is Round else "round"
            session.add_all(table(**fields | {place: number}) for number in range(3, MANY + 1))


@pytest.fixture
def service(store: Store, access: Access) -> Service:
    store.write(sample_run.finished_run)
    return Service(store, "CPU")


def test_forty_rounds_take_as_many_queries_as_two(service: Service, store: Store) -> None:
    with queries() as few:
        service.run_detail(LOCAL_OWNER, RUN)
    store.write(more_rounds)
    with queries() as many:
        detail = service.run_detail(LOCAL_OWNER, RUN)
    assert [one.round for one in detail.rounds] == list(range(1, MANY + 1))
    assert len(many) == len(few)


def test_each_round_keeps_its_own_evidence(service: Service, store: Store) -> None:
    before = service.run_detail(LOCAL_OWNER, RUN).rounds
    store.write(more_rounds)
    page = service.list_rounds(LOCAL_OWNER, RUN, limit=100).items
    assert page[:2] == before
    first, third = (one.model_dump(exclude={"round"}) for one in (page[0], page[2]))
    for audit in (*first["audits"], *third["audits"]):
        del audit["round"]
    assert third == first | {"admission": third["admission"]}
    assert page[2] == service.run_round(LOCAL_OWNER, RUN, 3)
    assert page[0].rows_by_source and page[0].audits and page[0].admission
