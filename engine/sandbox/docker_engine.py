"""The Docker engine of this machine: found, asked who it is, and its containers made and ended."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.sandbox.flags import LABEL, NOBODY, ONE_SHOT, SCRATCH, WARM, flags_hash

CALL_SECONDS = 10
IMAGE = "pawl-sandbox:1"
SOCKET = "unix:///var/run/docker.sock"  # where an engine listens when DOCKER_HOST says nothing


class SandboxUnavailable(Exception):
    """Docker cannot be used here; the text has the engine's own words and the mend."""


class SandboxLost(Exception):
    """A container or the engine went away in the middle: no verdict comes of it."""


@dataclass(kw_only=True, slots=True, frozen=True)
class Receipt:
    """How an evaluation was isolated, kept with its scores."""

    runtime: str
    engine: str
    image: str
    flags: str


class DockerEngine:
    """One connection to the engine.

    `instance` is written on every container (`owner.instance_of` says it for a home folder), so
    that what a server leaves behind when it dies is found and removed. `runtime` is another one
    than the engine's own, such as gVisor's runsc (default: PAWL_SANDBOX_RUNTIME).
    """

    def __init__(self, instance: str, image: str = IMAGE, runtime: str | None = None) -> None:
        self._instance, self._image_name = instance, image
        self._runtime = runtime or os.environ.get("PAWL_SANDBOX_RUNTIME")
        self._client = connect()
        try:
            self._check_runtime()
            self.image = self._image_id()
        except SandboxUnavailable:
            self.close()
            raise

    def receipt(self, kind: str) -> Receipt:
        """What stands beside every score of a container of this kind: "one-shot" or "warm"."""
        flags = {"one-shot": ONE_SHOT, "warm": WARM}[kind]
        with lost_when_gone():
            runtime = self._runtime or str(self._client.info()["DefaultRuntime"])
            engine = str(self._client.version()["Version"])
        return Receipt(
            runtime=runtime,
            engine=engine,
            image=self.image,
            flags=flags_hash(flags, self._runtime),
        )

    def create(self, kind: str, command: list[str], run: str, seconds: float) -> str:
        """A container that is not started yet; its label says when it must be gone."""
        flags = dict(ONE_SHOT if kind == "one-shot" else WARM)
        if self._runtime:
            flags["runtime"] = self._runtime
        user = f"{NOBODY}:{NOBODY}" if kind == "one-shot" else "0:0"
        with lost_when_gone():
            made = self._client.api.create_container(
                self.image,
                command,
                user=user,
                stdin_open=True,
                working_dir=SCRATCH,
                environment={"TMPDIR": SCRATCH},
                labels=self._labels(run, seconds),
                host_config=self._client.api.create_host_config(**flags),
            )
        return str(made["Id"])

    def start(self, container: str) -> Any:
        """Start it; the socket on which its streams come and go."""
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        with lost_when_gone():
            attached = self._client.api.attach_socket(container, params=streams)
            try:
                self._client.api.start(container)
            except Exception:
                attached.close()
                raise
        return attached

    def state(self, container: str) -> dict[str, Any]:
        """Docker's own record of how it stands: Running, ExitCode, OOMKilled."""
        with lost_when_gone():
            found: dict[str, Any] = self._client.api.inspect_container(container)["State"]
        return found

    def state_at_end(self, container: str) -> dict[str, Any]:
        """Its state once the engine has noticed the end, which its streams run ahead of."""
        deadline = time.monotonic() + CALL_SECONDS
        while (state := self.state(container))["Running"]:
            if time.monotonic() > deadline:
                raise SandboxLost("a container closed its streams and did not end")
            time.sleep(0.01)
        return state

    def remove(self, container: str) -> bool:
        """Kill and remove, whatever it is doing; False when the engine could not be asked."""
        try:
            _knock()
            self._client.api.remove_container(container, force=True, v=True)
        except Exception as error:  # noqa: BLE001  the reaper comes round again
            return "No such container" in str(error) or "already in progress" in str(error)
        return True

    def remove_all(self) -> None:
        """Remove every container that this server has made and not removed yet."""
        wanted = {"label": [f"app={LABEL}", f"instance={self._instance}"]}
        with lost_when_gone():
            found = self._client.api.containers(all=True, filters=wanted)
        for one in found:
            self.remove(str(one["Id"]))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _labels(self, run: str, seconds: float) -> dict[str, str]:
        deadline = str(int(time.time() + seconds))
        return {"app": LABEL, "instance": self._instance, "run": run, "deadline": deadline}

    def _check_runtime(self) -> None:
        known = self._client.info()["Runtimes"] if self._runtime else ()
        if self._runtime and self._runtime not in known:
            raise SandboxUnavailable(
                f"the Docker engine has no runtime {self._runtime} (it has {', '.join(known)}): "
                "register it, or unset PAWL_SANDBOX_RUNTIME"
            )

    def _image_id(self) -> str:
        try:
            return str(self._client.images.get(self._image_name).id)
        except Exception as error:  # noqa: BLE001  the engine's own words are what counts
            raise SandboxUnavailable(
                f"the sandbox image {self._image_name} is not there ({first_line(error)}): make it "
                "with python3 run.py sandbox build"
            ) from None


def connect() -> Any:
    """A client of a Docker engine that answers; SandboxUnavailable with its words otherwise."""
    import docker

    try:
        _knock()
        client = docker.from_env(version="auto", timeout=CALL_SECONDS)
    except Exception as error:  # noqa: BLE001  the engine's own words are what counts
        raise SandboxUnavailable(_why(error)) from None
    return client


def _knock() -> None:
    """OSError when nobody listens: the client library leaves its socket open in that case."""
    host = os.environ.get("DOCKER_HOST") or SOCKET
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(host.removeprefix("unix://"))


def _why(error: Exception) -> str:
    words = str(error)
    if "Permission denied" in words or "PermissionError" in words:
        mend = "add this user to the group docker, or use rootless Docker"
    elif "FileNotFoundError" in words or "No such file" in words:
        mend = "install Docker and start it (apt-get install docker.io)"
    else:
        mend = "start it (systemctl start docker), then see `docker version`"
    if named := os.environ.get("DOCKER_HOST"):
        mend = f"{mend}, or unset DOCKER_HOST, which says {named}"
    return f"no Docker engine answers: {first_line(error)}; {mend}"


@contextlib.contextmanager
def lost_when_gone() -> Iterator[None]:
    """Whatever goes wrong between here and the engine is a loss, never a verdict."""
    try:
        _knock()
        yield
    except SandboxLost:
        raise
    except Exception as error:  # noqa: BLE001  of many kinds, from three libraries
        raise SandboxLost(f"the Docker engine failed: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """What an error says, short enough for a sentence; of the engine's errors its own words."""
    words = str(getattr(error, "explanation", None) or error)
    return (words.splitlines() or [type(error).__name__])[0][:300]
