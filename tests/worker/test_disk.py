"""A training on a disk that fills up."""

from pathlib import Path

from engine.types import ModelRef
from tests.small_disk import tell


def test_a_checkpoint_that_finds_no_room_leaves_the_one_before(
    tiny: ModelRef, tmp_path: Path
) -> None:
    tell("last_good_checkpoint", tmp_path, tiny.path)
