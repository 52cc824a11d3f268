"""Makes the sandbox image: from a pinned base where a registry is there, or from a local folder."""

import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from engine.sandbox.docker_engine import (
    IMAGE,
    SandboxUnavailable,
    connect,
    first_line,
)

# The official Python 3.11 on Debian's slim base, the index of all its architectures.
BASE = "python@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
BUILD_SECONDS = 600
MADE = "pawl.made"  # the label that says how an image of ours was made
NEEDED = ("json", "ctypes", "resource", "decimal", "select")  # some small Pythons lack them
CHECK = f"import {', '.join(NEEDED)}, sys; print(sys.version_info >= (3, 10))"


def build(folder: Path | None, say: Callable[[str], object], base: str = BASE) -> str:
    """Make the image from a root file system where one is given, else from a base; its id."""
    if folder is not None:
        return build_from_folder(folder, say)
    return build_from_image(base, say)


def build_from_folder(folder: Path, say: Callable[[str], object], image: str = IMAGE) -> str:
    """Import a root file system (such as debootstrap makes) as the image; its id."""
    if not (folder / "usr").is_dir():
        raise SandboxUnavailable(f"{folder} is no root file system: it has no folder usr")
    client = connect()
    repository, _, tag = image.partition(":")
    made = f'LABEL {MADE}="from a root file system, {_system(folder)}"'
    with tempfile.TemporaryFile() as archive:
        say(f"packing {folder}")
        _pack(folder, archive)
        say("handing it to Docker")
        client.api.timeout = BUILD_SECONDS
        try:
            client.api.import_image_from_data(archive, repository, tag=tag, changes=[made])
        except Exception as error:  # noqa: BLE001  the engine's own words are what counts
            why = first_line(error)
            raise SandboxUnavailable(f"Docker does not take {folder} as {image}: {why}") from None
    return check_image(image)


def _pack(folder: Path, archive: IO[bytes]) -> None:
    try:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(folder, arcname=".", filter=_without_contents)
    except OSError as error:
        raise SandboxUnavailable(f"{folder} cannot be packed: {error}; try it as root") from None
    archive.seek(0)


def build_from_image(reference: str, say: Callable[[str], object]) -> str:
    """Pull a base by its digest and use it as the image; its id."""
    if "@sha256:" not in reference:
        raise SandboxUnavailable(f"{reference}: name the base by its digest, NAME@sha256:...")
    client = connect()
    client.api.timeout = BUILD_SECONDS
    repository, _, tag = IMAGE.partition(":")
    say(f"pulling {reference}")
    try:
        client.images.pull(reference).tag(repository, tag)
    except Exception as error:  # noqa: BLE001  the engine's own words are what counts
        raise SandboxUnavailable(
            f"the base cannot be had: {first_line(error)}; without a registry, make the image from "
            "a root file system: python3 run.py sandbox build --rootfs DIR"
        ) from None
    return check_image()


def check_image(image: str = IMAGE) -> str:
    """The image's id when its Python can do what a sandbox needs; SandboxUnavailable otherwise."""
    client = connect()
    try:
        said = _output(client, image, ["python3", "-I", "-S", "-c", CHECK])
    except Exception as error:  # noqa: BLE001  the engine's own words are what counts
        why = first_line(error)
        raise SandboxUnavailable(f"{image} does not run Python as needed: {why}") from None
    if said.strip() != b"True":
        wanted = f"no Python 3.10 or newer with {', '.join(NEEDED)}"
        raise SandboxUnavailable(f"{image} has {wanted}: {said!r}")
    found = str(client.images.get(image).id)
    client.close()
    return found


def _output(client: Any, image: str, command: list[str]) -> bytes:
    """The first 300 bytes that a command in a container says, which goes in any case."""
    container = client.containers.create(image, command, network_mode="none")
    try:
        container.start()
        container.wait(timeout=BUILD_SECONDS)
        return bytes(container.logs())[:300]
    finally:
        container.remove(force=True)


def standing() -> list[str]:
    """How sandboxes stand here: the engine, the image and how it was made, a line each."""
    client = connect()
    engine, system = client.version()["Version"], client.info()
    try:
        found = client.images.get(IMAGE)
    except Exception as error:  # noqa: BLE001  the engine's own words are what counts
        raise SandboxUnavailable(
            f"engine {engine}, but no image {IMAGE} ({first_line(error)}): make it with "
            "python3 run.py sandbox build"
        ) from None
    finally:
        client.close()
    return [
        f"engine   {engine}, runtime {system['DefaultRuntime']}",
        f"image    {IMAGE}, {found.id.removeprefix('sha256:')[:12]}, {made_how(found)}",
    ]


def made_how(image: Any) -> str:
    """How an image of ours was made, in words."""
    digests: list[str] = image.attrs.get("RepoDigests") or []
    return str(image.labels.get(MADE) or (digests[0] if digests else "made by hand"))


def _system(folder: Path) -> str:
    """What a root file system calls itself."""
    try:
        lines = (folder / "etc/os-release").read_text().splitlines()
    except OSError:
        return "of no name"
    fields = dict(line.partition("=")[::2] for line in lines)
    return fields.get("PRETTY_NAME", "of no name").strip('"').replace('"', "'")


def _without_contents(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Everything but the contents of /proc, /sys and /dev, which Docker brings."""
    top = member.name.removeprefix("./").split("/")
    return None if len(top) > 1 and top[0] in ("proc", "sys", "dev") else member
