"""A disk that fills up: the run rests with a reason, nothing is lost, it goes on when there is room."""

import errno
import sqlite3

import pytest

from data.disk import is_full
from tests.small_disk import tell


def test_a_run_meets_a_full_disk_rests_and_ends_as_if_nothing_had_happened(tmp_path):
    tell("fills_up", tmp_path)


def test_paid_calls_under_way_are_settled_when_the_disk_fills_up(tmp_path):
    tell("in_a_dry_run", tmp_path)


def test_nothing_is_begun_on_a_disk_that_is_nearly_full(tmp_path):
    tell("begins_nothing", tmp_path)


def test_a_database_that_cannot_be_written_is_waited_for_calmly(tmp_path):
    tell("not_even_the_pause", tmp_path)


def test_a_server_stops_in_time_on_a_full_disk_and_the_next_one_carries_on(tmp_path):
    tell("stops_on_a_full_disk", tmp_path)


def test_a_full_disk_is_told_from_other_trouble():
    assert is_full(OSError(errno.ENOSPC, "no space"))
    assert is_full(OSError(errno.EDQUOT, "quota"))
    assert not is_full(OSError(errno.EIO, "i/o"))
    assert not is_full(RuntimeError("os error 28"))  # anybody may write that
    limited = sqlite3.connect(":memory:")
    limited.execute("PRAGMA max_page_count=2")
    with pytest.raises(sqlite3.OperationalError) as full:
        limited.execute("CREATE TABLE a (b)")
        limited.execute("CREATE TABLE c (d)")
    assert is_full(full.value)
    with pytest.raises(sqlite3.OperationalError) as other:
        limited.execute("SELECT nonsense")
    assert not is_full(other.value)
    limited.close()
