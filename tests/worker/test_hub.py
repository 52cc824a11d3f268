"""A base model from a hub: pinned, resumed where it broke, its token sent and never kept."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.models.base_files import BaseFiles
from engine.models.hub import fetch
from engine.models.registry import find_base
from engine.types import ModelRef

REPOSITORY, COMMIT = "lab/tiny-instruct", "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = "model.safetensors"


class Hub(ThreadingHTTPServer):
    """What of a hub's protocol a download needs; `breaks_at` cuts the weights off there once."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files = files
        self.asked: list[tuple[str, str, str]] = []  # path, range, authorization
        self.breaks_at: int | None = None
        self.lies_about = ""
        self.needs_token = self.away = False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        token = self.headers.get("Authorization", "")
        self.server.asked.append((path, self.headers.get("Range", ""), token))
        if self.server.away:
            self._send(503, b"", {})
        elif self.server.needs_token and token != "Bearer CANARY-token":
            self._send(401, b"{}", {"X-Error-Code": "GatedRepo"})
        elif path == f"/api/models/{REPOSITORY}/revision/{COMMIT}":
            self._send(200, json.dumps(self._listing()).encode(), {})
        else:
            self._send_file(path.rpartition("/")[2])

    def _listing(self) -> dict[str, Any]:
        return {
            "id": REPOSITORY,
            "sha": COMMIT,
            "siblings": list(map(self._sibling, self.server.files)),
        }

    def _sibling(self, name: str) -> dict[str, Any]:
        data = self.server.files[name]
        told = {"rfilename": name, "size": len(data)}
        if name == WEIGHTS:
            digest = hashlib.sha256(data).hexdigest()
            return told | {"lfs": {"sha256": digest, "size": len(data), "pointerSize": 1}}
        told_of = b"other" if name == self.server.lies_about else data
        return told | {"blobId": hashlib.sha1(b"blob %d\0" % len(data) + told_of).hexdigest()}

    def _send_file(self, name: str) -> None:
        if name not in self.server.files:
            self._send(404, b"", {})
            return
        data = self.server.files[name]
        start = int((self.headers.get("Range") or "bytes=0-")[6:].split("-")[0])
        body, cut = data[start:], self.server.breaks_at
        status = 206 if start else 200
        if name == WEIGHTS and cut is not None:
            self.server.breaks_at = None
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.server.away = self.close_connection = True
            return
        self._send(status, body, {"Accept-Ranges": "bytes"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hub(tiny: ModelRef, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    names = [path for path in Path(tiny.path).iterdir() if path.name != "manifest.json"]
    server = Hub({path.name: path.read_bytes() for path in names})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server
    server.shutdown()
    server.server_close()


def test_a_broken_download_goes_on_where_it_ended_and_becomes_a_base_model(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 16)
    half = len(hub.files[WEIGHTS]) // 2
    hub.breaks_at, hub.needs_token = half, True
    monkeypatch.setenv("LAB_TOKEN", "CANARY-token")
    files = BaseFiles(models=tmp_path)
    seen: list[tuple[int, int]] = []

    def add() -> dict[str, Any]:
        return files.add_from_hub(
            "mine", REPOSITORY, COMMIT, "LAB_TOKEN", lambda text: None, lambda *at: seen.append(at)
        )

    with pytest.raises(ValueError, match="the same command goes on with it"):
        add()
    assert files.list_all() == []
    hub.away = False
    seen.clear()
    made = add()
    ranges = [asked for path, asked, _ in hub.asked if path.endswith(WEIGHTS) and asked]
    assert half - (1 << 16) < int(ranges[-1].removeprefix("bytes=").rstrip("-")) <= half
    assert seen[0][0] > half - (1 << 16) and seen[-1][0] == seen[-1][1]
    assert made["source"] == f"hub {REPOSITORY} at {COMMIT}"
    assert find_base(tmp_path, "mine").revision == made["revision"]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"CANARY" not in kept
    assert not list(tmp_path.rglob(f"*{COMMIT}*"))


def test_a_repository_is_pinned_and_its_troubles_are_told_in_words(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for repository, revision, says in (
        (REPOSITORY, "main", "not a full commit SHA"),
        ("nowhere", COMMIT, "is not OWNER/NAME"),
        ("../../etc/x", COMMIT, "is not OWNER/NAME"),
    ):
        with pytest.raises(ValueError, match=says):
            fetch(tmp_path, repository, revision)
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(ValueError, match="the environment has no NO_SUCH_TOKEN: export it"):
        fetch(tmp_path, REPOSITORY, COMMIT, "NO_SUCH_TOKEN")
    hub.needs_token = True
    with pytest.raises(ValueError, match="is gated: accept its terms"):
        fetch(tmp_path, REPOSITORY, COMMIT)
    hub.needs_token = False
    hub.files = {"config.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": b"x"}
    with pytest.raises(ValueError, match="pytorch_model.bin is not safetensors"):
        fetch(tmp_path, REPOSITORY, COMMIT)
    asked = [path for path, _, _ in hub.asked]
    assert not any("resolve" in path for path in asked), "nothing was fetched"


def test_a_file_that_is_not_what_the_hub_says_is_thrown_away(hub: Hub, tmp_path: Path) -> None:
    hub.lies_about = "config.json"
    with pytest.raises(ValueError, match=r"config\.json is not what the hub says it is"):
        fetch(tmp_path, REPOSITORY, COMMIT)
    assert not list(tmp_path.rglob("*config.json*part"))
