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


# What needs the device, or the sandboxes of this machine, for itself: with `-n 2` one process does
# these one after the other while the other one does the rest, file by file.
ONE_AT_A_TIME = ("tests/worker/", "tests/server/", "tests/sandbox/", "tests/serving/")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which tests of several processes stay together."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "device" if nodeid.startswith(ONE_AT_A_TIME) else nodeid.split("::")[0]

    config.option.loadscopereorder = False  # in the order below, not by how many there are
    return Lanes(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that use the device come first: they take the longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(ONE_AT_A_TIME))


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
