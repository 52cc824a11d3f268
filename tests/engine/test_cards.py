"""Cards and the processes on them, from recorded words of nvidia-smi; and real processes here."""

import os
import pwd
import subprocess
import sys

import pytest

from data.memory import memory
from engine.cards import parse_cards, parse_uses, read_cards, visible
from engine.device import find_device
from engine.neighbours import in_words, is_ours, largest, neighbour, resident
from engine.spots import card_spot, main_memory

GIB = 1024**3
CARDS = """\
0, GPU-5c1d3b6e-0a41-7f0e-2a6b-1f6f0f1c9a11, NVIDIA GeForce RTX 4090, 24564, 18211
1, GPU-9b7e51aa-7d0c-9b32-55a1-3de5c8a0b702, NVIDIA RTX 6000 Ada Generation, 49140, 48672
"""
USES = """\
GPU-5c1d3b6e-0a41-7f0e-2a6b-1f6f0f1c9a11, 4711, 5120
GPU-5c1d3b6e-0a41-7f0e-2a6b-1f6f0f1c9a11, 4712, [Insufficient Permissions]
GPU-9b7e51aa-7d0c-9b32-55a1-3de5c8a0b702, [N/A], 12
"""


def test_cards_with_their_memory_are_read_from_the_drivers_tool():
    first, second = parse_cards(CARDS)
    assert (first.index, first.name) == (0, "NVIDIA GeForce RTX 4090")
    assert first.total == 24564 * 1024**2 and first.free == 18211 * 1024**2
    assert second.uuid.startswith("GPU-9b7e51aa")


def test_a_card_that_shares_main_memory_has_what_the_machine_has():
    (card,) = parse_cards("0, GPU-1a2b, NVIDIA GB10, [N/A], [N/A]\n")
    assert card.total == memory()[0] and card.free > 0


@pytest.mark.parametrize("said", ["", "No devices were found\n", "Failed to initialize NVML\n"])
def test_a_driver_without_cards_has_none(said):
    assert parse_cards(said) == []


def test_processes_are_read_with_what_they_hold_where_that_is_told():
    first, second = parse_uses(USES)
    assert (first.pid, first.bytes) == (4711, 5 * GIB)
    assert (second.pid, second.bytes) == (4712, None)


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (None, [0, 1]),
        ("", []),
        ("1,0", [1, 0]),
        ("GPU-9b7e51aa", [1]),
        ("1,7,0", [1]),  # as in CUDA: what is behind an unknown one is not seen
        ("-1", []),
    ],
)
def test_cards_are_counted_as_the_environment_lets_torch_count_them(chosen, names):
    environment = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert [card.index for card in visible(parse_cards(CARDS), environment)] == names


def test_a_machine_without_the_drivers_tool_has_the_processor(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_cards() == []
    assert find_device().name == "cpu" and "cores" in find_device().label


def test_a_tool_that_fails_or_answers_is_believed(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '%s' '{CARDS}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("engine.cards.SECONDS", 60.0)
    assert find_device().label == "NVIDIA GeForce RTX 4090"
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n")
    assert find_device().name == "cpu"


@pytest.fixture
def other():
    """A process that is somebody's, with some memory."""
    code = "held = b'x' * 30_000_000; print('up', flush=True); input()"
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    started.stdout.readline()
    yield started
    started.stdin.close()
    started.stdout.close()
    started.wait()


def test_a_process_of_somebody_else_is_named_with_its_owner_and_left_alone(other):
    found = neighbour(other.pid, 2 * GIB)
    me = pwd.getpwuid(os.getuid()).pw_name
    assert found.owner == me and found.command.startswith("python")
    assert str(found) == f"{found.command} of {me} (pid {other.pid}) with 2.1 GB"
    assert resident(other.pid) > 30_000_000
    seen = card_spot(0, parse_cards(CARDS)[0], parse_uses(USES.replace("4711", str(other.pid))), {})
    assert [one.pid for one in seen.neighbours] == [other.pid, 4712]
    assert other.poll() is None


def test_a_process_that_cannot_be_seen_is_still_told_of():
    assert str(neighbour(2**22 + 1, 5 * GIB)) == f"a process (pid {2**22 + 1}) with 5.4 GB"


def test_our_own_processes_and_what_they_started_are_not_others(other):
    ours = os.getpid()
    assert is_ours(other.pid, {ours}) and not is_ours(ours, {other.pid})
    uses = parse_uses(USES.replace("4711", str(other.pid)))
    seen = card_spot(0, parse_cards(CARDS)[0], uses, {other.pid: "worker", ours: "server"})
    assert [one.pid for one in seen.neighbours] == [4712]
    assert (seen.room.worker, seen.room.serving) == (5 * GIB, 0)
    seen = card_spot(0, parse_cards(CARDS)[0], uses, {other.pid: "vllm", ours: "server"})
    assert (seen.room.worker, seen.room.serving) == (0, 5 * GIB)


def test_who_holds_most_of_main_memory_is_found(other):
    found = largest(lambda pid: pid != other.pid, 20_000_000)
    assert [one.pid for one in found] == [other.pid]
    assert f"(pid {other.pid})" in in_words(found)
    assert largest(lambda pid: True, 0) == []


def test_main_memory_counts_what_our_processes_hold(other):
    room = main_memory({other.pid: "worker", os.getpid(): "server"}).room
    assert 0 < room.free < room.total and room.worker > 30_000_000 and room.serving == 0


def test_many_neighbours_are_counted_beyond_the_largest():
    many = [neighbour(2**22 + number, number * GIB) for number in range(1, 6)]
    assert in_words(many).endswith("with 3.2 GB, 2 more")
