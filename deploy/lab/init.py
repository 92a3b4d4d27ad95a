"""Runs first inside a lab or a node: `python -m deploy.lab.init CACHE NAME [NODE]`. Standard library only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from deploy.lab import mounts, network
from deploy.lab.layout import Layout
from deploy.lab.spec import NodeSpec, node
from deploy.lab.supervisor import Supervisor


def main(arguments: list[str]) -> None:
    """Set the namespaces up, then serve requests until killed; the listening socket says that it is ready."""
    layout = Layout(Path(arguments[0]), arguments[1])
    if len(arguments) > 2:
        _become_node(layout, node(arguments[2]))
        Supervisor(layout.node_socket(arguments[2])).run()
    else:
        _become_lab(layout)
        Supervisor(layout.control_socket).run()


def _become_lab(layout: Layout) -> None:
    socket.sethostname("lab")
    mounts.enter_lab_root(layout)
    mounts.mount_slurm_root(layout)
    subprocess.run(["ip", "-batch", "-"], input=network.lab_commands(), text=True, check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _become_node(layout: Layout, spec: NodeSpec) -> None:
    socket.sethostname(spec.name)
    mounts.mount("-t", "proc", "proc", "/proc")
    mounts.enter_node_root(layout, spec)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


if __name__ == "__main__":
    os.umask(0o022)
    main(sys.argv[1:])
