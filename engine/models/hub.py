"""Fetches a base model from a hub at one pinned commit, resumable within a file.

Files lie in `models/.downloads/` until they are taken in. What can be refused by its names, config
or template is refused before any weights are fetched. The token is read from the environment for
the one download, sent to the hub alone, and kept nowhere.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.files import is_locked
from data.sizes import size_of
from engine.models.bases import (
    ADDING,
    DOWNLOADS,
    Progress,
    Say,
    alone,
    check_room,
    describe_folder,
)
from engine.models.door import check_names, check_small_files, is_taken

SHA = re.compile(r"[0-9a-f]{40}")
ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
TOKEN = "HF_TOKEN"


@dataclass(kw_only=True, slots=True, frozen=True)
class HubFile:
    """One file of a repository: its size and what its bytes must hash to."""

    name: str
    size: int
    git: str | None = None  # SHA-1 of a git blob
    sha256: str | None = None


def fetch(
    models: Path,
    repository: str,
    revision: str,
    token_env: str | None = None,
    say: Say = lambda text: None,
    progress: Progress = lambda done, total: None,
) -> Path:
    """The folder with a model's files, each as the hub says it must be; a second call goes on.

    `revision` is the full SHA of a commit: names such as main move. ValueError says what is wrong
    and what to do.
    """
    _check_address(repository, revision)
    folder = models / DOWNLOADS / f"{repository.replace('/', '--')}--{revision}"
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another command fetches {repository} already: wait for it"
    with alone(folder / ".lock", busy), _in_words(repository):
        hub = _Hub(repository, revision, _token(token_env))
        files = hub.files()
        check_names([file.name for file in files])
        taken = [file for file in files if is_taken(file.name)]
        small = [file for file in taken if not file.name.endswith(".safetensors")]
        left = sum(file.size - _there(folder, file) for file in taken)
        check_room(models, left)
        report = _Report(progress, sum(file.size for file in taken), taken, folder)
        for file in small:
            hub.fetch(file, folder, report)
        _try_small(folder)
        say("config, tokenizer and chat template are well; fetching the weights")
        for file in taken:
            hub.fetch(file, folder, report)
    return folder


def _try_small(folder: Path) -> None:
    """Refuse what can be refused without the weights; once is enough for a download."""
    tried = folder / ".tried"
    if not tried.exists():
        check_small_files(folder)
        describe_folder(folder, [])
        tried.touch()


def unfinished(models: Path) -> list[dict[str, Any]]:
    """What has not become base models, with the bytes that are there.

    `hub` is None of what a killed add-base left of a folder of this machine, under that `name`.
    """
    found = list(_cut_off(models / DOWNLOADS))
    for folder in sorted((models / DOWNLOADS).glob("*--*--*")):
        repository, _, revision = folder.name.rpartition("--")
        about = {"hub": repository.replace("--", "/", 1), "revision": revision}
        found.append(about | {"bytes": size_of(folder), "folder": str(folder)})
    return found


def _cut_off(downloads: Path) -> Iterator[dict[str, Any]]:
    for folder in sorted(downloads.glob(f"{ADDING}*")):
        if folder.is_dir() and not is_locked(folder.with_name(f"{folder.name}.lock")):
            about = {"hub": None, "name": folder.name.removeprefix(ADDING)}
            yield about | {"bytes": size_of(folder), "folder": str(folder)}


def forget(folder: Path) -> None:
    """Remove a download that was taken in."""
    shutil.rmtree(folder, ignore_errors=True)


class _Hub:
    """One repository at one commit."""

    def __init__(self, repository: str, revision: str, token: str | None) -> None:
        self._repository, self._revision = repository, revision
        self._token: str | bool = token if token is not None else False
        self._endpoint = os.environ.get("HF_ENDPOINT") or None

    def files(self) -> list[HubFile]:
        """What the repository holds."""
        from huggingface_hub import HfApi

        info = HfApi(endpoint=self._endpoint, token=self._token).model_info(
            self._repository, revision=self._revision, files_metadata=True
        )
        if info.sha != self._revision:
            raise ValueError(f"the hub has {info.sha} under {self._revision}: give that commit")
        return [_hub_file(one) for one in info.siblings or ()]

    def fetch(self, file: HubFile, folder: Path, report: "_Report") -> None:
        """Have one file, going on where an earlier try ended; its hash decides whether it is it."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import (  # type: ignore[attr-defined]
            build_hf_headers,
            disable_progress_bars,
        )

        target = folder / file.name
        if target.exists():
            return
        disable_progress_bars()
        target.parent.mkdir(exist_ok=True)
        part = _part(target)
        url = hf_hub_url(
            self._repository, file.name, revision=self._revision, endpoint=self._endpoint
        )
        with open(part, "ab") as out:
            done = out.tell()
            if done < file.size:
                http_get(
                    url,
                    _Counted(out, report),  # type: ignore[arg-type]
                    resume_size=done,
                    headers=build_hf_headers(token=self._token),
                    expected_size=file.size,
                )
        if not _is_as_told(part, file):
            part.unlink()
            raise ValueError(f"{file.name} is not what the hub says it is: the same command again")
        os.replace(part, target)


class _Report:
    """Bytes of a download that are there, told as they come."""

    def __init__(
        self, progress: Progress, total: int, files: Sequence[HubFile], folder: Path
    ) -> None:
        self._progress, self._total = progress, total
        self._done = sum(_there(folder, file) for file in files)

    def add(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._total)


class _Counted:
    """A file that tells how much is written to it."""

    def __init__(self, file: Any, report: _Report) -> None:
        self._file, self._report = file, report

    def write(self, data: bytes) -> int:
        self._report.add(len(data))
        return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, at: int) -> int:
        return int(self._file.seek(at))

    def truncate(self) -> int:
        self._report.add(-(os.fstat(self._file.fileno()).st_size - self._file.tell()))
        return int(self._file.truncate())


def _check_address(repository: str, revision: str) -> None:
    if not ID.fullmatch(repository) or ".." in repository:
        raise ValueError(f"--hub: {repository!r} is not OWNER/NAME")
    if not SHA.fullmatch(revision):
        raise ValueError(
            f"--revision: {revision!r} is not a full commit SHA (40 hex digits): branches and tags "
            "move, so copy the commit from the model's page"
        )


def _token(variable: str | None) -> str | None:
    """The token that a variable of the environment holds."""
    token = os.environ.get(variable or TOKEN)
    if variable and not token:
        raise ValueError(f"--token-env: the environment has no {variable}: export it first")
    return token


def _hub_file(sibling: Any) -> HubFile:
    lfs = sibling.lfs
    return HubFile(
        name=sibling.rfilename,
        size=int(sibling.size or 0),
        git=None if lfs else sibling.blob_id,
        sha256=lfs.sha256 if lfs else None,
    )


def _is_as_told(path: Path, file: HubFile) -> bool:
    if path.stat().st_size != file.size:
        return False
    with open(path, "rb") as data:
        if file.sha256:
            return hashlib.file_digest(data, "sha256").hexdigest() == file.sha256
        blob = hashlib.sha1(b"blob %d\0" % file.size)
        while chunk := data.read(1 << 20):
            blob.update(chunk)
    return file.git in (None, blob.hexdigest())


def _there(folder: Path, file: HubFile) -> int:
    target = folder / file.name
    for path in (target, _part(target)):
        if path.exists():
            return min(file.size, path.stat().st_size)
    return 0


def _part(target: Path) -> Path:
    return target.with_name(f".{target.name}.part")


@contextmanager
def _in_words(repository: str) -> Iterator[None]:
    """The library's errors as text that says what to do."""
    import httpx2
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError:
        text = "is gated: accept its terms on its page, then give --token-env"
        raise ValueError(f"{repository} {text}") from None
    except RevisionNotFoundError:
        raise ValueError(f"{repository} has no such commit: copy it from its page") from None
    except RepositoryNotFoundError:
        text = "is not there, or is private: check its name, or give --token-env"
        raise ValueError(f"{repository} {text}") from None
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as broken:
        first = (str(broken).splitlines() or [type(broken).__name__])[0][:200]
        text = f"the download of {repository} broke, {first}: the same command goes on with it"
        raise ValueError(text) from None
