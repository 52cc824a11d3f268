"""A run that no engine drives, so that one phase can be tried by itself on real store and gateway."""

from typing import Any

import pytest
from sqlmodel import Session

from data import ledger
from data.tables import Round, Run
from engine.facts import RunFacts, Tools, read_facts
from engine.models.gateway import Gateway
from engine.verdicts import Verdicts
from tests.instance import LIBRARY, Instance

RUN = "r"


class PhaseDesk:
    """Run `r` in its first round, with an open account. `fields` are those of its start."""

    def __init__(self, pawl: Instance, **fields: Any) -> None:
        self.pawl = pawl
        pawl.start(RUN, **fields)
        pawl.store.write(self._begin)
        with pawl.store.read() as session:
            self.facts: RunFacts = read_facts(session.get_one(Run, RUN), LIBRARY, pawl.home)

    def tools(self, step: str) -> Tools:
        """The tools of a phase, which knows no student."""
        return Tools(
            facts=self.facts,
            round=1,
            step=step,
            library=LIBRARY,
            folder=self.pawl.home.path,
            store=self.pawl.store,
            find_student=lambda: pytest.fail("no student is here"),
            gateway=Gateway(self.pawl.store, 0.0, retry_seconds=0.01),
            model=lambda name: pytest.fail(f"{name} is not loaded here"),
            verdicts=Verdicts(self.facts.secret, "test"),
            stop=lambda: False,
        )

    def _begin(self, s: Session) -> None:
        run = s.get_one(Run, RUN)
        ledger.open_account(s, f"run:{RUN}", run.project_id, run.limits)
        ledger.open_account(s, f"project:{run.project_id}", run.project_id)
        s.add(Round(project_id=run.project_id, run=RUN, number=1, start_version="base"))
