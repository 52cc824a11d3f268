"""The home folder and the run's states."""

import stat

import pytest
from sqlmodel import Session

from data.home import HomeHeld, HomeLock, is_held, open_home
from data.lifecycle import ENDED, MOVES, MoveRefused, move
from tests.data.run_rows import run_row


def test_the_home_is_its_owners_alone_and_keeps_its_blind_secret(tmp_path):
    home = open_home(tmp_path / "home")
    secret = home.blind_key.read_text()
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.blind_key.stat().st_mode) == 0o600
    assert open_home(tmp_path / "home").blind_key.read_text() == secret


def test_a_home_is_held_by_one_server(tmp_path):
    home = open_home(tmp_path)
    lock = HomeLock(home)
    with pytest.raises(HomeHeld, match="PAWL_HOME"):
        HomeLock(home)
    assert is_held(home)
    lock.release()
    assert not is_held(home)


@pytest.mark.parametrize("state", sorted(MOVES))
def test_a_run_makes_the_listed_moves_and_no_other(state):
    for target in MOVES:
        row = run_row("r", state)
        if target in MOVES[state]:
            move(Session(), row, target, "why")
            assert row.reason == "why" and (row.ended_at is not None) == (target in ENDED)
        else:
            with pytest.raises(MoveRefused, match=state):
                move(Session(), row, target, "why")
