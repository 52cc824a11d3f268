"""A run whose stored record cannot be read: shown as that, left as it is, no other one disturbed."""

import logging

import pytest
from sqlalchemy import text
from sqlmodel import select

from app.errors import Conflict, RunNotActive
from data.lifecycle import unreadable
from data.tables import Control, Event, Run
from tests.instance import OWNER, Instance, instance

BROKEN = {
    "config-cut-short": ("config = substr(config, 1, 20)", "its config cannot be read"),
    "config-no-object": ("config = '[1, 2]'", "its config cannot be read"),
    "limits-gone": ("limits = ''", "its limits cannot be read"),
    "both": ("config = '{', limits = 'null'", "its config and limits cannot be read"),
    "domain-unknown": ("domain = 'chess'", "its domain 'chess' is not here"),
    "state-unknown": ("state = 'dreaming'", "its state 'dreaming' is unknown"),
}


@pytest.fixture
def pawl(tmp_path):
    """A home with one run of each kind, all but the last one broken since they were started."""
    with instance(tmp_path) as one:
        for run in (*BROKEN, "well"):
            one.start(run, rounds=1)
        yield one


def spoil(pawl: Instance) -> None:
    """Change the records behind Pawl's back."""

    def change(s):
        for run, (damage, _) in BROKEN.items():
            s.connection().execute(text(f"UPDATE run SET {damage} WHERE id = '{run}'"))

    pawl.store.write(change)


def raw(pawl: Instance) -> list[tuple[object, ...]]:
    with pawl.store.read() as session:
        rows = session.connection().execute(text("SELECT * FROM run WHERE id != 'well'")).all()
    return [tuple(row) for row in rows]


def test_what_cannot_be_read_is_named_in_the_order_of_the_table(pawl):
    spoil(pawl)
    with pawl.store.read() as session:
        run = session.get_one(Run, "both")
        session.expire(run, ["config"])  # it is read anew, after the others
        assert str(unreadable(run, ["arith"])).count("its config and limits cannot be read") == 1


def test_each_is_shown_with_its_reason_and_the_others_go_on(pawl, caplog):
    spoil(pawl)
    before = raw(pawl)
    with caplog.at_level(logging.WARNING):
        assert pawl.wait("well").state == "finished"
        for _ in range(3):
            pawl.engine.tick()
    assert raw(pawl) == before, "a record was touched"
    told = [r.getMessage() for r in caplog.records if "left alone" in r.getMessage()]
    assert len(told) == len(set(told)) == len([run for run in BROKEN if run != "state-unknown"])

    page = pawl.service.list_runs(OWNER)
    listed = {run.run: run for run in page.items}
    assert page.total == len(listed) == len(BROKEN) + 1
    for run, (_, why) in BROKEN.items():
        for found in (listed[run], pawl.service.run_detail(OWNER, run)):
            assert found.state == "unreadable"
            assert found.reason.startswith("the stored record is unreadable: ")
            assert why in found.reason and "; " in found.reason  # and what to do about it
        live = pawl.service.run_live(OWNER, run)
        assert (live.state, live.run_state) == ("unreadable", "unreadable")
        assert live.reason == listed[run].reason
    assert listed["well"].state == "finished"


def test_nothing_can_be_asked_of_it(pawl):
    spoil(pawl)
    for run in BROKEN:
        for action in ("stop", "resume"):
            with pytest.raises(Conflict, match="unreadable"):
                pawl.service.control(OWNER, run, action)
        with pytest.raises(RunNotActive):
            pawl.service.steer(OWNER, run, "go on")
    # Asked for before it broke: refused, and the record stays as it is.
    before = raw(pawl)
    for run in BROKEN:
        asked = Control(project_id="prj_local", run=run, action="stop", author="owner")
        pawl.store.write(lambda s, asked=asked: s.add(asked))
    pawl.engine.tick()
    with pawl.store.read() as session:
        assert {row.status for row in session.exec(select(Control))} == {"refused"}
    assert raw(pawl) == before


def test_a_broken_round_or_evaluation_does_not_spoil_the_list(pawl):
    spoil(pawl)
    assert pawl.wait("well").best_version == "candidate-1"

    def damage(s):
        s.connection().execute(text("UPDATE round SET plan = '{', evidence = '' WHERE number = 1"))
        s.connection().execute(text("UPDATE evaluation SET families = 'x', protocol = '{'"))

    pawl.store.write(damage)
    found = {run.run: run for run in pawl.service.list_runs(OWNER).items}["well"]
    assert (found.state, found.change) == ("finished", None)
    detail = pawl.service.run_detail(OWNER, "well")
    assert [one.decision for one in detail.rounds] == ["promote"] and detail.gate is None


def test_it_is_a_run_again_when_its_record_is_restored(pawl):
    spoil(pawl)
    pawl.wait("well")
    pawl.store.write(
        lambda s: s.connection().execute(
            text("UPDATE run SET domain = 'arith' WHERE id = 'domain-unknown'")
        )
    )
    assert pawl.wait("domain-unknown").state == "finished"
    with pawl.store.read() as session:
        seqs = [event.seq for event in session.exec(select(Event).where(Event.run == "well"))]
        assert seqs and session.get(Run, "both").config == {}
