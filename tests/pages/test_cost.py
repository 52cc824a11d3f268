"""The tab Cost: where the money went, what is still to come, and what was bought."""

from typing import Any

from nicegui.testing import User
from sqlmodel import select

from data.store import Store
from data.tables import Account, ModelCall
from tests.pages.conftest import texts, until

RUNNING, FINISHED, WAITING = "arith-carry-2", "arith-carry-1", "code-strings-1"
SIMULATED = "carry-rehearsal-1"
HEADS = ["Calls", "Input tokens", "Cached", "Output tokens", "Errors", "Spend"]


def after(user: User, word: str, count: int, start: int = 0) -> list[str]:
    """What stands on the page behind a word."""
    seen = texts(user)
    place = seen.index(word, start)
    return seen[place + 1 : place + 1 + count]


async def test_calls_stand_by_role_with_a_total(console: User) -> None:
    await console.open(f"/runs/{RUNNING}?tab=cost")
    seen = texts(console)
    start = seen.index("Role")
    assert seen[start : start + 8] == ["Role", "Model", *HEADS]
    assert after(console, "operator", 7, start) == [
        *("planner-large", "14", "7,000", "4,200", "1,260", "0", "$0.11802"),
    ]
    assert after(console, "all", 7, start) == [
        "",
        "124",
        "60,500",
        "36,300",
        "10,890",
        "2",
        "$1.05",
    ]


async def test_another_grouping_is_chosen_and_stands_in_the_address(console: User) -> None:
    from pages.browser import Address

    await console.open(f"/runs/{RUNNING}?tab=cost")
    console.find(marker="by-round").click()
    await until(lambda: "Round" in texts(console))
    (address,) = console.find(Address).elements
    assert address.props["url"] == f"/runs/{RUNNING}?tab=cost&by=round"
    await console.open(f"/runs/{RUNNING}?tab=cost&by=phase")
    seen = texts(console)
    start = seen.index("Phase")
    assert after(console, "collect", 2, start) == ["110", "53,500"]
    await console.open(f"/runs/{RUNNING}?tab=cost&by=nonsense")
    assert "Role" in texts(console)


async def test_the_forecast_says_what_it_rests_on(console: User) -> None:
    await console.open(f"/runs/{RUNNING}?tab=cost")
    await console.should_see("to the target, 4 rounds left")
    await console.should_see("From what the last round took. The run may end earlier.")
    assert after(console, "Model spend at the end", 1) == ["$3.79"]
    assert "not expected" in texts(console)


async def test_what_a_stop_can_still_cost_is_told_before_it_is_asked_for(console: User) -> None:
    await console.open(f"/runs/{RUNNING}?tab=cost")
    assert after(console, "Reserved, at most", 1) == ["$0.06"]
    assert after(console, "Rest of the round", 1) == ["$0.4674"]
    await console.should_see("Rest of the phase, train")


async def test_what_is_not_known_yet_is_a_dash(console: User) -> None:
    await console.open(f"/runs/{WAITING}?tab=cost")
    assert after(console, "Model spend at the end", 1) == ["—"]
    assert after(console, "Blind gain", 1) == ["—"]
    assert after(console, "Model spend per point", 1) == ["—"]
    await console.should_see("Known once a round is completed.")
    await console.should_see("No model behind the gateway was asked yet.")


async def test_an_ended_run_says_what_a_point_took_and_foretells_nothing(console: User) -> None:
    await console.open(f"/runs/{FINISHED}?tab=cost")
    (points,) = after(console, "Blind gain", 1)
    assert points.startswith("+") and points.endswith(" points")
    (each,) = after(console, "Model spend per point", 1)
    assert each.startswith("$0.0")
    await console.should_not_see("Forecast")
    await console.should_not_see("If it is stopped now")


async def test_device_time_has_money_once_an_hour_has_a_price(console: User, store: Store) -> None:
    def priced(session: Any) -> None:
        session.get_one(Account, f"run:{FINISHED}").device_settled = 392_000

    store.write(priced)
    await console.open(f"/runs/{FINISHED}?tab=cost")
    seen = texts(console)
    start = seen.index("before round 1")
    assert seen[start + 7 : start + 9] == ["5 min 22 s", "$0.035778"]
    await console.should_not_see("An hour on the device has no price here")


async def test_every_card_of_a_simulated_run_says_so(console: User, store: Store) -> None:
    def asked(session: Any) -> None:
        for call in session.exec(select(ModelCall).where(ModelCall.run == FINISHED)):
            call.run, call.simulated = SIMULATED, True

    store.write(asked)
    await console.open(f"/runs/{SIMULATED}?tab=cost")
    await console.should_see("simulated models are priced here and paid to nobody")
    assert after(console, "of it simulated", 1) == ["$1.05"]
    # The head, the four numbers, each group of calls and their sum, all money, what it bought.
    assert texts(console).count("Simulated") == 7
