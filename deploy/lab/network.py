"""The lab's network: one bridge, a cable to each node, no uplink; the commands for it, and the way in."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from deploy.lab.errors import LabError
from deploy.lab.spec import BRIDGE_CIDR, CONTROL_PLANE, NODES, SERVICE_CIDR, NodeSpec

_CLONE_NEWNET = 0x40000000
_Result = TypeVar("_Result")


def lab_commands() -> str:
    """The bridge, the routes to every node's pods, and the service addresses (which kube-proxy rewrites)."""
    lines = [
        "link set lo up",
        "link add br0 type bridge",
        f"addr add {BRIDGE_CIDR} dev br0",
        "link set br0 up",
        f"route add {SERVICE_CIDR} dev br0",
        *(f"route add {node.pod_cidr} via {node.address}" for node in NODES),
    ]
    return "\n".join(lines) + "\n"


def plug_commands(node: NodeSpec) -> str:
    """A new network namespace for a node with a cable to the bridge; run in the lab's namespaces."""
    return (
        f"netns add {node.name}\n"
        f"link add {node.cable} type veth peer name eth0 netns {node.name}\n"
        f"link set {node.cable} master br0 up\n"
    )


def node_commands(node: NodeSpec) -> str:
    """Addresses and routes; run in the node's network namespace."""
    others = [other for other in NODES if other != node]
    lines = [
        "link set lo up",
        f"addr add {node.address}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {CONTROL_PLANE}",
        *(f"route add {other.pod_cidr} via {other.address}" for other in others),
    ]
    return "\n".join(lines) + "\n"


def enter(pid: int) -> None:
    """Move the calling thread into the network namespace of a process; threads it starts later follow."""
    try:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(f"the lab's network is gone ({error.strerror}): is the lab up?") from None
    try:
        _set_namespace(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def visit(pid: int) -> Iterator[None]:
    """Be in the network namespace of a process for a while, and come back; for the calling thread."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(pid)
        yield
    finally:
        _set_namespace(home)
        os.close(home)


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise LabError(f"cannot enter the lab's network: {os.strerror(ctypes.get_errno())}; run as root")


def inside(pid: int, function: Callable[[], _Result]) -> _Result:
    """Call a function in a thread of its own inside that network, and hand back what it returns or raises."""
    results: list[_Result] = []
    failures: list[BaseException] = []

    def body() -> None:
        try:
            enter(pid)
            results.append(function())
        except BaseException as error:  # noqa: BLE001 (handed to the caller's thread, where it is raised)
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
