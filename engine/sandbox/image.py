"""Makes the sandbox image: from a pinned base where a registry is there, or from a local folder."""

import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.sandbox.docker_engine import CALL_SECONDS, IMAGE, SandboxUnavailable, connect

BUILD_SECONDS = 600
NEEDED = ("json", "ctypes", "resource", "decimal", "select")  # some small Pythons lack them
CHECK = f"import {', '.join(NEEDED)}, sys; print('%d.%d' % sys.version_info[:2])"


def build_from_folder(folder: Path, say: Callable[[str], None], image: str = IMAGE) -> str:
    """Import a root file system (such as debootstrap makes) as the image; its id."""
    if not (folder / "usr").is_dir():
        raise SandboxUnavailable(f"{folder} is no root file system: it has no folder usr")
    client = connect()
    repository, _, tag = image.partition(":")
    with tempfile.TemporaryFile() as archive:
        say(f"packing {folder}")
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(folder, arcname=".", filter=_without_sockets)
        archive.seek(0)
        say("handing it to Docker")
        client.api.timeout = BUILD_SECONDS
        client.api.import_image_from_data(archive, repository=repository, tag=tag)
        client.api.timeout = CALL_SECONDS
    return check_image(image)


def build_from_image(reference: str, image: str = IMAGE) -> str:
    """Pull a base by its digest and use it as the image; its id."""
    if "@sha256:" not in reference:
        raise SandboxUnavailable(f"{reference}: name the base by its digest, NAME@sha256:...")
    client = connect()
    client.api.timeout = BUILD_SECONDS
    repository, _, tag = image.partition(":")
    client.images.pull(reference).tag(repository, tag)
    return check_image(image)


def check_image(image: str = IMAGE) -> str:
    """The image's id when its Python can do what a sandbox needs; SandboxUnavailable otherwise."""
    client = connect()
    try:
        said = client.containers.run(
            image, ["python3", "-I", "-S", "-c", CHECK], remove=True, network_mode="none"
        )
    except Exception as error:  # noqa: BLE001  the engine's own words are what counts
        raise SandboxUnavailable(f"{image} does not run Python as needed: {error}") from None
    if not said.startswith(b"3."):
        raise SandboxUnavailable(f"{image} has no Python 3: {said[:80]!r}")
    return str(client.images.get(image).id)


def _without_sockets(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Everything but the contents of /proc, /sys and /dev, which Docker brings."""
    top = member.name.removeprefix("./").split("/")
    return None if len(top) > 1 and top[0] in ("proc", "sys", "dev") else member
