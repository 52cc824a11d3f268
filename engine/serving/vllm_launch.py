"""Runs vLLM's API server so that nothing of it outlives Pawl; started with vLLM's interpreter.

Each process of vLLM loads this file: the server as its program, those that it spawns because they
load their parent's program first. Each asks the kernel, at that moment, to be killed when its
parent is gone, so that the end of Pawl, or of any process in between, takes all below it along.
"""

import os
import runpy
import signal
import sys

SERVER = "vllm.entrypoints.openai.api_server"


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    if sys.platform != "linux":
        return
    import ctypes

    set_death_signal = 1
    if ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_PDEATHSIG) failed")


def leave_pawl() -> None:
    """Forget where Pawl's own modules are: vLLM has some of the same names."""
    ours = os.path.dirname(os.path.abspath(__file__))
    root = os.environ.pop("PYTHONPATH", ours)
    sys.path[:] = [place for place in sys.path if place not in (ours, root)]


die_with_parent()

if __name__ == "__main__":
    leave_pawl()
    # "NAME=VALUE" words up to "--" are for vLLM's environment; the rest are its own arguments.
    end = sys.argv.index("--")
    for name, _, value in (word.partition("=") for word in sys.argv[1:end]):
        os.environ[name] = value
    sys.argv[1 : end + 1] = []
    runpy.run_module(SERVER, run_name="__main__")
