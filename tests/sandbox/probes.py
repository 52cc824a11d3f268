"""Attempts to get out of a container. Each prints or returns "out" when it got out.

The text of a probe is the body of a function; every probe succeeds in a container without
protection, which is how it is known that it can fail.
"""

PROBES: dict[str, str] = {
    "reach the network": """
    import socket
    names = [name for _, name in socket.if_nameindex()]
    return "out" if [n for n in names if n != "lo"] else "in"
    """,
    "resolve a host name of the engine": """
    import socket
    with open("/etc/hosts") as file:
        known = [line for line in file if "probe-host" in line]
    return "out" if known else "in"
    """,
    "reach the host's loopback": """
    import socket
    probe = socket.socket()
    probe.settimeout(1)
    return "out" if probe.connect_ex(("127.0.0.1", PORT)) == 0 else "in"
    """,
    "open a raw socket": """
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "out"
    """,
    "open a packet socket": """
    import socket
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    return "out"
    """,
    "write to the root file system": """
    open("/usr/bin/probe", "w").close()
    return "out"
    """,
    "write to /etc": """
    open("/etc/probe", "w").close()
    return "out"
    """,
    "mount a file system": """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    return "out" if libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) == 0 else "in"
    """,
    "make a user namespace": """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    return "out" if libc.unshare(0x10000000) == 0 else "in"
    """,
    "make a mount namespace": """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    return "out" if libc.unshare(0x00020000) == 0 else "in"
    """,
    "make a device": """
    import os
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    os.mknod(f"{folder}/probe-{os.getpid()}", 0o60600, 0x800)
    os.unlink(f"{folder}/probe-{os.getpid()}")
    return "out"
    """,
    "see the host's devices": """
    import os
    known = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm",
             "mqueue", "core", "fd", "stdin", "stdout", "stderr"}
    return "out" if set(os.listdir("/dev")) - known else "in"
    """,
    "write to /proc/sys": """
    with open("/proc/sys/kernel/domainname", "w") as file:
        file.write("probe")
    return "out"
    """,
    "write to /sys": """
    import os
    for folder, _, files in os.walk("/sys/kernel/mm"):
        for name in files:
            path = os.path.join(folder, name)
            if os.access(path, os.W_OK):
                open(path, "r+").close()
                return "out"
    return "in"
    """,
    "write to a control group": """
    import os
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            if name in ("cgroup.procs", "tasks"):
                open(os.path.join(folder, name), "w").close()
                return "out"
    return "in"
    """,
    "become root": """
    import os
    os.setuid(0)
    return "out" if os.geteuid() == 0 and can_chown() else "in"
    """,
    "hold a capability": """
    with open("/proc/self/status") as file:
        status = file.read()
    held = [line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapPrm"))]
    return "out" if any(int(one, 16) for one in held) else "in"
    """,
    "gain privileges by a set-user-id program": """
    with open("/proc/self/status") as file:
        return "in" if "NoNewPrivs:\\t1" in file.read() else "out"
    """,
    "run without a system call filter": """
    with open("/proc/self/status") as file:
        return "in" if "Seccomp:\\t2" in file.read() else "out"
    """,
    "attach to a process of the host": """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    return "out" if libc.ptrace(0x4206, engine_of_the_host(), 0, 0) == 0 else "in"
    """,
    "read the memory of a process of the host": """
    with open(f"/proc/{engine_of_the_host()}/environ", "rb") as file:
        file.read(1)
    with open(f"/proc/{engine_of_the_host()}/mem", "rb"):
        return "out"
    """,
    "signal a process of the host": """
    import os
    os.kill(engine_of_the_host(), 0)
    return "out"
    """,
    "reach the Docker socket": """
    import os
    return "out" if os.path.exists("/var/run/docker.sock") else "in"
    """,
    "see the processes of the host": """
    import os
    return "out" if len([n for n in os.listdir("/proc") if n.isdigit()]) > 12 else "in"
    """,
    "see folders of the host": """
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4] for line in file]
    bound = [m for m in mounts if m.startswith("/host")]
    return "out" if bound else "in"
    """,
    "share memory with others": """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    shared = [line for line in open("/proc/self/mountinfo") if " /dev/shm " in line]
    return "out" if shared else "in"
    """,
    "start more processes than allowed": """
    import os, time
    for number in range(90):
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
    return "out"
    """,
    "take more memory than allowed": """
    taken = bytearray(700 << 20)
    return "out" if len(taken) else "in"
    """,
    "fill the disk": """
    import os
    place = os.environ.get("TMPDIR") or "/tmp"
    for number in range(40):
        with open(f"{place}/full-{number}", "wb") as file:
            file.write(b"x" * (1 << 20))
    return "out"
    """,
    "change the clock": """
    import time
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    return "out"
    """,
    "change the host's name": """
    import socket
    socket.sethostname("probe")
    return "out"
    """,
    "read the kernel's log": """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    return "out" if libc.klogctl(10, None, 0) >= 0 and can_chown() else "in"
    """,
}

HEAD = """
PORT = {port}

def can_chown():
    import os, tempfile
    try:
        with tempfile.NamedTemporaryFile() as file:
            os.chown(file.name, 12345, 12345)
        return True
    except OSError:
        return False

def engine_of_the_host():
    import os
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{{name}}/comm") as file:
                    if file.read().strip() == "dockerd":
                        return int(name)
            except OSError:  # it has ended meanwhile
                continue
    raise ProcessLookupError

def probe():
{body}

def f():
    try:
        return probe()
    except BaseException as error:
        return f"in, {{type(error).__name__}}"
"""


def code_of(name: str, port: int) -> str:
    """The probe as a module whose `f` says "out" or "in"."""
    lines = PROBES[name].strip("\n").splitlines()
    body = "\n".join(lines)
    return HEAD.format(port=port, body=body)
