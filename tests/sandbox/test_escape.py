"""Nothing gets out of a container; every probe gets out of one without protection."""

import socket

import pytest

from engine.sandbox.docker_engine import DockerEngine
from engine.sandbox.judge import read_line
from engine.sandbox.one_shot import run_once
from tests.sandbox.conftest import run
from tests.sandbox.probes import PROBES, code_of

# All that root has on any machine; a virtual machine's root may lack others.
CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "NET_ADMIN",
    "NET_RAW",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_ADMIN",
    "SYS_TIME",
    "MKNOD",
    "SYSLOG",
]


@pytest.fixture(scope="module")
def port():
    """A port that something listens on, on this machine's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def unprotected(docker_engine: DockerEngine, port: int):
    """What each probe says in a container that is locked up in no way at all."""
    api = docker_engine._client.api
    config = api.create_host_config(
        network_mode="host",
        pid_mode="host",
        ipc_mode="host",
        cap_add=CAPABILITIES,
        security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        extra_hosts={"probe-host": "127.0.0.1"},
        binds=["/var/run/docker.sock:/var/run/docker.sock", "/tmp:/host:ro", "/sys:/sys"],
        devices=["/dev/kmsg:/dev/kmsg:r"],
    )
    made = api.create_container(
        docker_engine.image,
        ["sleep", "3600"],
        host_config=config | {"MaskedPaths": [], "ReadonlyPaths": []},
        labels={"app": "pawl", "instance": "control", "deadline": "0"},
    )
    container = docker_engine._client.containers.get(made["Id"])
    container.start()

    def say(name: str) -> str:
        code = code_of(name, port) + "\nprint(f())"
        # On a busy machine the stream of an exec may close before its last output: asked again.
        said = (container.exec_run(["python3", "-c", code]).output for _ in range(3))
        return next(filter(None, said), b"").decode().strip()

    yield say
    container.remove(force=True)


def test_there_are_probes_enough():
    assert len(PROBES) >= 25


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_stays_in_both_kinds_of_container(name, pool, docker_engine, port, unprotected):
    assert unprotected(name) == "out", "a probe that cannot get out proves nothing"
    code = code_of(name, port)
    warm = run(pool, code)
    first = read_line(warm.output.splitlines()[0]) if warm.output else None
    assert not (first and str(first.get("returned")).startswith("out")), warm
    once = run_once(docker_engine, ["python3", "-c", code + "\nprint(f())"], b"", 5.0)
    assert not once.output.decode().startswith("out"), once


def test_a_case_sees_nothing_of_its_siblings_nor_of_its_parent(pool):
    keep = "import os\ndef f():\n    open('kept', 'w').write('x')\n    return os.getcwd()"
    folder = read_line(run(pool, keep).output)["returned"]
    look = f"""
import os
def f():
    found = []
    for path in ("{folder}", "/scratch"):
        try:
            found += os.listdir(path)
        except OSError:
            pass
    own = os.path.basename(os.getcwd())
    return [name for name in found if name != own]
"""
    for _ in range(3):  # whichever of the containers it meets
        assert read_line(run(pool, look).output)["returned"] == []


def test_the_parent_cannot_be_read_signalled_or_talked_to(pool):
    code = """
import os
def f():
    parent, told = os.getppid(), []
    for path in ("mem", "environ", "fd", "maps"):
        try:
            name = f"/proc/{parent}/{path}"
            os.listdir(name) if path == "fd" else open(name, "rb").read(1)
            told.append(path)
        except OSError:
            pass
    try:
        os.kill(parent, 0)
        told.append("kill")
    except OSError:
        pass
    kinds = {os.readlink(f"/proc/self/fd/{one}").split(":")[0] for one in (0, 1, 2)}
    return [told, sorted(kinds)]
"""
    assert read_line(run(pool, code).output)["returned"] == [[], ["/dev/null"]]
