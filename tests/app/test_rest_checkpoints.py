"""Checkpoints over REST: their files by signed links, and deleting what nothing needs."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from app import downloads
from data.tables import Project
from tests.door import Door, door

LIST = "/v1/job/checkpoints"


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Door]:
    """A run that trained twice, so that only its second candidate is the best."""
    with door(tmp_path) as opened:
        opened.start("trained", rounds=2)
        opened.pawl.wait("trained")
        yield opened


def names(doors: Door) -> dict[str, str]:
    """Checkpoint ids by version name."""
    return {
        one["tinker_path"].rpartition("/")[2]: one["checkpoint_id"]
        for one in doors.get(LIST)["items"]
    }


def signed(doors: Door, path: str, **more: str) -> dict[str, str]:
    query = "".join(f"&{name}={value}" for name, value in more.items())
    answer: dict[str, str] = doors.get(f"{LIST}/download?path={quote(path, safe='')}{query}")
    return answer


def fetch(doors: Door, url: str) -> tuple[int, bytes]:
    """A link as somebody without a key follows it."""
    answer = doors.ask("GET", url, headers={"Authorization": ""})
    return answer.status_code, answer.content


def test_every_file_comes_whole_by_its_link_and_without_a_key(doors: Door) -> None:
    item = doors.get(LIST)["items"][0]
    answer = doors.get(f"{LIST}/download?path={item['checkpoint_id']}&job_id={item['job_id']}")
    assert set(answer["urls"]) == {file["name"] for file in item["files"]}
    for file in item["files"]:
        url = answer["urls"][file["name"]]
        assert url.startswith("http://127.0.0.1:8710/v1/downloads/")
        status, content = fetch(doors, url)
        assert status == 200 and len(content) == file["size_bytes"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"]


def test_all_files_come_as_one_archive(doors: Door) -> None:
    item = doors.get(LIST)["items"][0]
    status, content = fetch(
        doors, doors.get(f"{LIST}/download?path={item['checkpoint_id']}")["zip"]
    )
    assert status == 200
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        found = {one.filename: one.file_size for one in archive.infolist()}
    assert found == {file["name"]: file["size_bytes"] for file in item["files"]}


def test_an_archive_is_named_after_its_version_whatever_a_link_says(doors: Door) -> None:
    first = names(doors)["candidate-1"]
    link = signed(doors, "trained/candidate-1")["zip"]
    unnamed = link.partition("&name=")[0]
    for url, name in (
        (link, "trained-candidate-1.zip"),
        (f"{unnamed}&name=..%2F%22%0D%0AX-Bad:%201", "X-Bad-1.zip"),
        (f"{unnamed}&name=%22%2F..", f"{first}.zip"),
        (unnamed, f"{first}.zip"),
    ):
        answer = doors.ask("GET", url, headers={"Authorization": ""})
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"', url


def test_a_checkpoint_has_five_names(doors: Door) -> None:
    first = names(doors)["candidate-1"]
    for path in (
        first,
        "trained/candidate-1",
        f"envloop://trained-r1/{first}",
        f"tinker://trained-r1/weights/{first}",
        "tinker://trained/weights/candidate-1",
    ):
        assert signed(doors, path)["checkpoint_id"] == first, path
    for path in ("candidate-1", "nobody", "tinker://other/weights/candidate-1", "a/b/c"):
        refused = doors.refusal("GET", f"{LIST}/download?path={quote(path, safe='')}")
        assert refused == (404, "CHECKPOINT_NOT_FOUND"), path
    missing = doors.refusal("GET", f"{LIST}/download?path={first}&job_id=trained-r2")
    assert missing == (404, "CHECKPOINT_NOT_FOUND")


def test_a_link_is_good_for_one_checkpoint_and_a_while(
    doors: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (names(doors)[f"candidate-{n}"] for n in (1, 2))
    url = signed(doors, first)["urls"]["adapter_config.json"]
    assert fetch(doors, url)[0] == 200
    assert fetch(doors, url.replace(first, second))[0] == 403
    assert fetch(doors, url.partition("?")[0])[0] == 403
    later = url.replace("token=", "token=9")
    assert fetch(doors, later)[0] == 403, "nobody can lengthen a link"
    monkeypatch.setattr(downloads, "LINK_SECONDS", -1)
    assert fetch(doors, signed(doors, first)["urls"]["adapter_config.json"])[0] == 403


@pytest.mark.parametrize("name", ["nothing.bin", "..%2f..%2fowner.key", "%2e%2e"])
def test_a_link_opens_no_other_file(doors: Door, name: str) -> None:
    url = signed(doors, names(doors)["candidate-1"])["urls"]["adapter_config.json"]
    other = url.replace("adapter_config.json", name)
    status, content = fetch(doors, other)
    assert status in (401, 403, 404) and b"pawl_" not in content


def test_what_nothing_needs_can_be_deleted(doors: Door) -> None:
    first = names(doors)["candidate-1"]
    told = doors.ask("DELETE", f"{LIST}/{first}?dry_run=true").json()
    assert told["dry_run"] and told["freed_bytes"] > 0 and first in names(doors).values()

    done = doors.ask("DELETE", f"{LIST}/{first}").json()
    assert done["status"] == "SUCCEEDED" and done["errors"] == []
    assert done["resources"] == [{"kind": "checkpoint", "id": first}]
    assert not (doors.pawl.home.checkpoints / first).exists()
    assert first not in names(doors).values()
    asked = doors.get(f"/v1/projects/prj_local/operations/{done['operation_id']}")
    assert asked["status"] == "SUCCEEDED"
    assert doors.refusal("DELETE", f"{LIST}/{first}") == (404, "CHECKPOINT_NOT_FOUND")


def test_the_best_of_a_run_stays(doors: Door) -> None:
    best = names(doors)["candidate-2"]
    answer = doors.ask("DELETE", f"{LIST}/{best}")
    assert (answer.status_code, answer.json()["code"]) == (409, "RESOURCE_IN_USE")
    assert "the best of trained" in answer.json()["message"]
    assert (doors.pawl.home.checkpoints / best).is_dir()


def test_only_who_may_deploy_deletes_and_others_see_nothing(doors: Door) -> None:
    first = names(doors)["candidate-1"]
    viewer = doors.with_role("viewer")
    assert viewer.refusal("DELETE", f"{LIST}/{first}") == (403, "ACCESS_DENIED")
    assert signed(viewer, first)["checkpoint_id"] == first
    foreign = Project(id="prj_other", workspace_id="ws_local", name="Other")
    doors.pawl.store.write(lambda s: s.add(foreign))
    other = doors.with_role("developer", "prj_other")
    for method, path in (("GET", f"{LIST}/download?path={first}"), ("DELETE", f"{LIST}/{first}")):
        assert other.refusal(method, path) == (404, "CHECKPOINT_NOT_FOUND")


def test_files_that_are_gone_are_said_so(doors: Door) -> None:
    first = names(doors)["candidate-1"]
    url = signed(doors, first)["urls"]["adapter_config.json"]
    (doors.pawl.home.checkpoints / first / "adapter_config.json").unlink()
    refused = doors.refusal("GET", f"{LIST}/download?path={first}")
    assert refused == (503, "CHECKPOINT_UNAVAILABLE")
    assert fetch(doors, url)[0] == 503
