"""The server as a process: light at start, alone on its home, ended in order."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from app.serving import listen
from tests.server.process import ROOT, Server, environment_for

HEAVY = ("torch", "transformers", "peft", "vllm", "docker", "openai", "mcp")


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.close()


def test_nothing_heavy_is_loaded_when_the_first_page_is_served(tmp_path):
    # The interpreter writes down every import of the server's process and of no other one.
    server = Server(tmp_path, PYTHONPROFILEIMPORTTIME="1")
    try:
        with urllib.request.urlopen(f"{server.url}/sign-in", timeout=10) as page:
            assert page.status == 200 and b"Pawl" in page.read()
        imported = {
            line.rpartition("|")[2].strip().split(".")[0]
            for line in server.log.read_text().splitlines()
            if line.startswith("import time:")
        }
    finally:
        server.close()
    assert "nicegui" in imported and "sqlmodel" in imported
    assert not imported & set(HEAVY)


def test_it_listens_on_loopback_alone_and_wants_a_key(server):
    port = int(server.url.rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {f[1] for f in lines if f[3] == "0A" and int(f[1].rpartition(":")[2], 16) == port}
    assert listening == {f"0100007F:{port:04X}"}
    with urllib.request.urlopen(server.url, timeout=10) as page:
        assert "/sign-in" in page.url
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.url}/v1/runs", timeout=10)
    refused.value.close()
    assert refused.value.code == 401


def test_the_link_command_gives_a_new_way_in(server):
    command = [sys.executable, str(ROOT / "run.py"), "link", "--home", str(server.home.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(done.stdout.strip(), timeout=10).close()
    with opener.open(server.url, timeout=10) as page:
        assert page.url.rstrip("/") == server.url and page.status == 200


def test_a_second_server_on_the_same_home_says_who_holds_it(server):
    command = [sys.executable, str(ROOT / "run.py"), "serve", "--no-browser"]
    environment = environment_for(server.home.path)
    second = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert second.returncode == 2
    assert str(server.process.pid) in second.stderr and server.url in second.stderr


def test_a_taken_port_is_an_error_that_says_who_holds_it(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        command = [sys.executable, str(ROOT / "run.py"), "--port", str(port), "--no-browser"]
        environment = environment_for(tmp_path)
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 3
    assert f"port {port} is taken (process {os.getpid()})" in done.stderr


def test_a_port_that_is_none_is_an_error_that_says_so(capsys):
    with pytest.raises(SystemExit) as ended:
        listen("127.0.0.1", 99999, range(1))
    assert ended.value.code == 3
    assert capsys.readouterr().err == (
        "99999 is no port; ports go up to 65535; choose another one with --port\n"
    )


def test_sigterm_ends_it_with_exit_code_zero(server):
    assert server.terminate() == 0
    assert not server.home.admin_socket.exists()
