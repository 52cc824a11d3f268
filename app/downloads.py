"""Checkpoint files for whoever was given a link: signed for a quarter of an hour, whole or zipped."""

import hashlib
import hmac
import re
import secrets
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlmodel import Session, col, select

from app import job_shapes as shapes
from app.caller import Caller
from app.checkpoints import item_of
from app.errors import AccessDenied, CheckpointNotFound, CheckpointUnavailable
from data.files import read_manifest
from data.home import Home
from data.tables import Checkpoint, Version

LINK_SECONDS = 900
CHUNK = 256 * 1024
REFERENCE = re.compile(
    r"(?:(?:(?P<scheme>envloop|tinker)://)?(?P<where>[^/]+)/(?:weights/)?)?(?P<name>[^/]+)"
)
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")  # in the name of a file that a browser saves
LONGEST_NAME = 100


class Links:
    """Signs links to checkpoints; they end with this process, as a client asks anew after a 403."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def token(self, checkpoint: str) -> str:
        """Opens the files of one checkpoint for a quarter of an hour."""
        until = str(int(time.time()) + LINK_SECONDS)
        return f"{until}.{self._sign(checkpoint, until)}"

    def check(self, checkpoint: str, token: str) -> None:
        """AccessDenied unless the token was made here for this checkpoint and is still good."""
        until, _, signature = token.partition(".")
        right = hmac.compare_digest(signature.encode(), self._sign(checkpoint, until).encode())
        if not right or int(until) < time.time():
            raise AccessDenied("this link is not good any more: ask for the download again")

    def _sign(self, checkpoint: str, until: str) -> str:
        text = f"{checkpoint}|{until}".encode()
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()


def links_to(
    session: Session,
    caller: Caller,
    home: Home,
    links: Links,
    base: str,
    *,
    path: str,
    job: str | None,
    run: str | None,
) -> shapes.CheckpointDownload:
    """Where the files of a checkpoint can be had, below the server's address `base`."""
    version, item = find_checkpoint(session, caller, home, path, job, run)
    token = links.token(item.checkpoint_id)
    folder = f"{base}/v1/downloads/{item.checkpoint_id}"
    urls = {one.name: f"{folder}/{quote(one.name)}?token={token}" for one in item.files}
    return shapes.CheckpointDownload(
        checkpoint_id=item.checkpoint_id,
        urls=urls,
        zip=f"{folder}?token={token}&name={file_name(public_name(version))}",
    )


def public_name(version: Version) -> str:
    """How people call a version: RUN/candidate-1, or its own name where no run made it."""
    return f"{version.run}/{version.name}" if version.run else version.name


def file_name(name: str | None) -> str:
    """A name as part of a file's name; empty when nothing of it is left."""
    return UNSAFE.sub("-", name or "")[:LONGEST_NAME].strip("-.")


def find_checkpoint(
    session: Session,
    caller: Caller,
    home: Home,
    path: str,
    job: str | None = None,
    run: str | None = None,
) -> tuple[Version, shapes.CheckpointItem]:
    """The newest version that a reference names and that is whole on disk.

    A reference is an id, RUN/candidate-1, envloop://JOB/ID, tinker://RUN/weights/NAME, or the name
    of one that was brought here.
    """
    match = REFERENCE.fullmatch(path)
    broken = False
    for version in session.exec(_named(caller, match, run)) if match else ():
        item = item_of(session, home, version)
        broken = broken or item is None
        if item is None or (job is not None and item.job_id != job):
            continue
        if match and match["where"] in (None, item.job_id, item.training_run_id):
            return version, item
    if broken:
        raise CheckpointUnavailable(f"the files of {path} are not whole on this server's disk")
    raise CheckpointNotFound(f"there is no checkpoint {path}; see the list of checkpoints")


def _named(caller: Caller, match: re.Match[str], run: str | None) -> Any:
    """Versions that have the id or name in a reference, newest first."""
    name = match["name"]
    query = (
        select(Version)
        .join(Checkpoint, col(Checkpoint.id) == col(Version.adapter))
        .where(Version.project_id == caller.project_id, col(Checkpoint.deleted_at).is_(None))
    )
    if match["where"] is None:  # candidate-1 is in every run, so that it alone names none
        brought = col(Version.run).is_(None) & (col(Version.name) == name)
        query = query.where((col(Version.adapter) == name) | brought)
    else:
        query = query.where((col(Version.adapter) == name) | (col(Version.name) == name))
    query = query if run is None else query.where(Version.run == run)
    return query.order_by(col(Version.id).desc())


def file_of(home: Home, links: Links, checkpoint: str, name: str, token: str) -> Path:
    """One file of a checkpoint, for the holder of a link."""
    links.check(checkpoint, token)
    if name not in _files(home, checkpoint):
        raise CheckpointNotFound(f"checkpoint {checkpoint} has no file {name}")
    path = home.checkpoints / checkpoint / name
    if not path.is_file():
        raise CheckpointUnavailable(f"the file {name} of checkpoint {checkpoint} is gone")
    return path


def zip_of(home: Home, links: Links, checkpoint: str, token: str) -> Iterator[bytes]:
    """All files of a checkpoint as one archive, piece by piece, for the holder of a link."""
    links.check(checkpoint, token)
    return zipped(home.checkpoints / checkpoint, sorted(_files(home, checkpoint)))


def _files(home: Home, checkpoint: str) -> dict[str, Any]:
    """What a checkpoint's manifest lists. The name is safe: a token was made for it here."""
    try:
        files: dict[str, Any] = read_manifest(home.checkpoints / checkpoint)["files"]
    except (OSError, ValueError):
        raise CheckpointUnavailable(f"checkpoint {checkpoint} is not on the disk now") from None
    return files


def zipped(folder: Path, names: list[str]) -> Iterator[bytes]:
    """An archive of some files of a folder, made while it is sent; weights do not shrink."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for name in names:
            with open(folder / name, "rb") as file, archive.open(name, "w", force_zip64=True) as to:
                while piece := file.read(CHUNK):
                    to.write(piece)
                    yield sink.take()
    yield sink.take()


class _Sink:
    """What an archive is written to: it cannot seek, and hands over what it has."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += data
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""

    def take(self) -> bytes:
        data = bytes(self._held)
        self._held.clear()
        return data
