"""A pyslurm worker without pyslurm: the real loop, and operations that go wrong in every way there is."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from slurm_bridge.pyslurm import worker


class SlurmError(Exception):
    """As pyslurm.RPCError."""

    def __init__(self, errno: int) -> None:
        super().__init__(f"Slurm error with {os.environ['SLURM_JWT']} in it")
        self.errno = errno


def hang() -> None:
    """As libslurm does: in C, with the interpreter locked, deaf to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(600)


def hang_deaf() -> None:
    """Not even its own alarm ends it."""
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    hang()


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "late"


def say(text: str) -> None:
    """Past the loop, on the very socket of the answers: the one a child has."""
    sockets = (fd for fd in range(3, 64) if Path(f"/proc/self/fd/{fd}").is_socket())
    os.write(next(sockets), text.encode())


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(errno: int) -> None:
    raise SlurmError(errno)


def chatter() -> int:
    """What C code prints to stdout."""
    os.write(1, b"slurm_load_jobs error: noise\n")
    return os.getpid()


OPERATIONS: worker.Operations = {
    "pid": os.getpid,
    "token": lambda: os.environ["SLURM_JWT"],
    "echo": lambda text: text,
    "chatter": chatter,
    "hang": hang,
    "hang_deaf": hang_deaf,
    "sleep": sleep,
    "say": say,
    "die": die,
    "fail": fail,
}

if __name__ == "__main__":
    worker.main(OPERATIONS, sys.argv[1])
