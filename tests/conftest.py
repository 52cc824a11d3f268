"""What all tests share: a home of their own, the browser, and when long tests run."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

pytest_plugins = ["nicegui.testing.user_plugin", "tests.models"]

hypothesis.settings.register_profile("pawl", database=None, deadline=None, derandomize=True)
hypothesis.settings.load_profile("pawl")

# A job in the background of a script ignores Ctrl-C, and would hand that on to every process that
# a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


# With `-n 2` what needs the device for itself is done by one process, one after the other, and so is
# what needs the sandboxes; everything else goes file by file to whoever is free.
SANDBOXES = ("tests/sandbox/", "tests/worker/test_code_loop.py")
SERVERS = ("asleep", "demo", "endpoints", "hand_jobs", "kill", "wake")
DEVICE = ("tests/worker/", "tests/serving/", *(f"tests/server/test_{name}.py" for name in SERVERS))


def lane_of(nodeid: str) -> str:
    """Which tests stay together; the longest lanes sort first."""
    if nodeid.startswith(SANDBOXES):
        return "2 sandboxes"
    return "1 device" if nodeid.startswith(DEVICE) else f"3 {nodeid.split('::')[0]}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of a lane stay in one process, in the order below."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return lane_of(nodeid)

    config.option.loadscopereorder = False  # which would go by how many there are
    return Lanes(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first."""
    items.sort(key=lambda item: lane_of(item.nodeid)[0])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what this run is not meant for, with the reason."""
    if item.get_closest_marker("long") and os.environ.get("PAWL_LONG") != "1":
        pytest.skip("takes minutes: python3 run.py test --long")
    if item.get_closest_marker("browser"):
        find_chromium()


def find_chromium() -> str:
    """The browser's path. Skips the test without one; in CI a missing browser is a failure."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return found
    message = "Chromium is not installed (Debian: apt-get install chromium)"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path, for tests marked `browser`."""
    return find_chromium()


@pytest.fixture(scope="session")
def embedded_gguf() -> Path:
    """The embedded model's file, as set-up lays it into the environment."""
    found = list(Path(sys.prefix).glob("share/pawl/*.gguf"))
    if not found:
        pytest.skip("the embedded model is not here: start the tests with python3 run.py test")
    return found[0]


@pytest.fixture(autouse=True, scope="session")
def own_home() -> Iterator[Path]:
    """A PAWL_HOME of its own for the whole run, so that no test can touch a person's."""
    with (
        tempfile.TemporaryDirectory(prefix="pawl-tests-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PAWL_HOME", folder)
        yield Path(folder)
