"""A strong model by script: a real HTTP server that plans a round, and does what a steer asks."""

import json
from collections.abc import Callable
from typing import Any

from data.store import Store
from data.tables import GatewayModel
from tests.fake_provider import CACHED, INPUT, OUTPUT, FakeProvider

NAME = "strong"
KEY_ENV = "PAWL_TEST_KEY"
ADDITIONS = "arith.add_carry"
ASKED = "only additions"  # words in a steer or directive that the script understands
HOW = "every task is an addition"


class ScriptedOperator(FakeProvider):
    """Plans by `plan_for` unless `replies` has something else to say first.

    `heard` is called with what is shown before each plan; `shown` keeps it.
    """

    def __init__(self, *replies: str, heard: Callable[[dict[str, Any]], object] = id) -> None:
        self.replies, self.heard = list(replies), heard
        self.shown: list[dict[str, Any]] = []
        super().__init__(say=self._plan)

    def _plan(self, body: dict[str, Any]) -> str:
        shown = json.loads(body["messages"][1]["content"])
        self.shown.append(shown)
        self.heard(shown)
        return self.replies.pop(0) if self.replies else json.dumps(plan_for(shown))

    def register(self, store: Store, **more: Any) -> None:
        """Add the model to the gateway's price list, as an administrator would."""
        row = GatewayModel(
            name=NAME,
            base_url=self.base_url,
            key_env=KEY_ENV,
            local=True,
            input_micro_per_mtok=INPUT,
            output_micro_per_mtok=OUTPUT,
            cached_micro_per_mtok=CACHED,
            **more,
        )
        store.write(lambda session: session.add(row))


def plan_for(shown: dict[str, Any]) -> dict[str, Any]:
    """A plan that fits: all families alike, or what those ask for who say ASKED."""
    said = [one for one in shown["directives"] + shown["steers"] if ASKED in one["text"]]
    families = [ADDITIONS] if said else list(shown["families"])
    tasks = shown["most tasks"] // len(families)
    return {
        "reasoning": f"Round {shown['round']}: {len(families)} families fail.",
        "hypothesis": "Practice helps.",
        "families": [{"family": name, "tasks": tasks, "mix": []} for name in families],
        "settings": shown["settings of the recipe"] | {"learning_rate": 0.0005, "epochs": 2.0},
        "follows": [{"id": one["id"], "how": HOW} for one in said],
    }
