"""The published conformance suite of MCP against a server: what fails, fails for a known reason.

It needs a folder with the suite and a Node.js of version 22, named by PAWL_CONFORMANCE:

    npm install --prefix DIR node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12

The suite calls tools, resources and prompts of its own, which a server under test is to offer
beside what it is for; Pawl offers its eight tools and nothing else.
"""

import json
import os
import re
import subprocess
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.doors.keyed import Keyed
from tests.doors.wire import PATH
from tests.server.process import Server

FOLDER = os.environ.get("PAWL_CONFORMANCE")
EXPECTED = {  # why it fails -> which checks do, as SCENARIO/CHECK
    "it calls a tool of the suite's own": (
        "tools-call-*/tools-call-*",
        "elicitation-*/elicitation-*",
        "json-schema-2020-12/json-schema-2020-12-tool-found",
        "server-stateless/sep-2575-server-rejects-undeclared-capability",
        "server-stateless/sep-2575-missing-capability-http-400",
        "server-stateless/sep-2575-http-server-no-independent-requests-on-stream",
        "server-stateless/sep-2575-server-no-log-without-loglevel",
    ),
    "Pawl offers no resources": ("resources-*/resources-*", "caching/sep-2549-resources-*"),
    "Pawl offers no prompts": ("prompts-*/prompts-*", "caching/sep-2549-prompts-*"),
    "Pawl completes no arguments": ("completion-complete/completion-complete",),
    "Pawl sends no log messages": ("logging-set-level/logging-set-level",),
    "no tool asks the client for something": ("input-required-result-*/sep-2322-*",),
    "no argument travels in a header": ("http-custom-header-server-validation/sep-2243-*",),
    "an extension that Pawl does not have": ("tasks-*/tasks-*", "tasks-*/sep-2663-*"),
}
PASSED = {  # by revision: scenarios that are about what Pawl serves, with their least successes
    "2025-11-25": {
        "server-initialize": 2,
        "ping": 2,
        "tools-list": 3,
        "dns-rebinding-protection": 2,
    },
    "2026-07-28": {
        "server-stateless": 21,
        "tools-list": 4,
        "dns-rebinding-protection": 2,
        "http-header-validation": 14,
        "caching": 4,
    },
}


@pytest.mark.skipif(not FOLDER, reason="PAWL_CONFORMANCE names no folder with the suite")
@pytest.mark.parametrize("revision", PASSED)
def test_the_suite_fails_only_where_it_asks_for_what_pawl_does_not_offer(
    server: Server, key: str, tmp_path: Path, revision: str
):
    port = int(server.url.rpartition(":")[2])
    with Keyed(port, key) as way:
        checks = run_suite(way.url + PATH, revision, tmp_path)
    failed = [one for one in checks if one["status"] == "FAILURE"]
    unknown = [(name_of(one), one.get("errorMessage")) for one in failed if not reason_of(one)]
    assert unknown == []
    passed = Counter(one["scenario"] for one in checks if one["status"] == "SUCCESS")
    short = {name: passed[name] for name, n in PASSED[revision].items() if passed[name] < n}
    assert short == {}


def run_suite(url: str, revision: str, folder: Path) -> list[dict[str, Any]]:
    """Every check of every scenario that a revision of the protocol asks for."""
    suite = Path(FOLDER or "") / "node_modules"
    program = suite / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    words = ["server", "--url", url, "--requirements", revision, "-o", str(folder)]
    done = subprocess.run(
        [str(suite / ".bin" / "node"), str(program), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    checks = []
    for file in sorted(folder.glob("*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name).removeprefix("server-")
        checks += [{**check, "scenario": scenario} for check in json.loads(file.read_text())]
    assert checks, done.stdout[-2000:] + done.stderr[-2000:]
    return checks


def name_of(check: dict[str, Any]) -> str:
    return f"{check['scenario']}/{check['id']}"


def reason_of(check: dict[str, Any]) -> str | None:
    """Why a check is expected to fail."""
    for reason, patterns in EXPECTED.items():
        if any(fnmatch(name_of(check), pattern) for pattern in patterns):
            return reason
    return None
