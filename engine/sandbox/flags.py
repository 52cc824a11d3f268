"""How containers are locked up: the flags of one-shot containers and of warm ones, as one record."""

import hashlib
import json
from typing import Any

SCRATCH = "/scratch"
NOBODY = 65532
MEMORY = 256 << 20
PIDS = 64
OUTPUT = 1 << 20
LABEL = "pawl"

_COMMON: dict[str, Any] = {
    "network_mode": "none",
    "read_only": True,
    "ipc_mode": "none",
    "mem_limit": MEMORY,
    "memswap_limit": MEMORY,  # no swap
    "nano_cpus": 10**9,  # one CPU
    "pids_limit": PIDS,
    "init": True,
    "security_opt": ["no-new-privileges"],  # and the engine's default seccomp profile
    "log_config": {"Type": "none"},
    "ulimits": [
        {"Name": "nofile", "Soft": 256, "Hard": 256},
        {"Name": "fsize", "Soft": 16 << 20, "Hard": 16 << 20},
        {"Name": "core", "Soft": 0, "Hard": 0},
        {"Name": "msgqueue", "Soft": 0, "Hard": 0},  # one would outlive its case
    ],
}

ONE_SHOT: dict[str, Any] = {
    **_COMMON,
    "cap_drop": ["ALL"],
    "tmpfs": {SCRATCH: f"rw,noexec,nosuid,nodev,size=16m,uid={NOBODY},gid={NOBODY},mode=0700"},
}

# The parent inside a warm container needs three capabilities to give every case a user of its own;
# the cases have none.
WARM: dict[str, Any] = {
    **_COMMON,
    "cap_drop": ["ALL"],
    "cap_add": ["SETUID", "SETGID", "KILL"],
    "tmpfs": {SCRATCH: "rw,noexec,nosuid,nodev,size=16m,mode=1777"},
}


def flags_hash(flags: dict[str, Any], runtime: str | None) -> str:
    """16 hex digits that name a way of locking up; part of every isolation receipt."""
    text = json.dumps([flags, runtime], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
