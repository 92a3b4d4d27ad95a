"""Faults, the way hardware and networks make them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from deploy.lab import dcgm, kmsg, sysfs
from deploy.lab.cgroups import Group
from deploy.lab.control import Control, wait_until
from deploy.lab.enter import Entry
from deploy.lab.errors import LabError
from deploy.lab.layout import Layout
from deploy.lab.node import Node
from deploy.lab.nvml import FILE, FakeGpus
from deploy.lab.spec import API_PORT, CONTROL_PLANE, GPUS_PER_NODE, node

_PARTITION = f"""table inet lab_partition {{
  chain out {{
    type filter hook output priority 10;
    ip daddr {CONTROL_PLANE} tcp dport {API_PORT} drop
  }}
  chain through {{
    type filter hook forward priority 10;
    ip daddr {CONTROL_PLANE} tcp dport {API_PORT} drop
  }}
}}
"""
_STATES_AFTER = {int(signal.SIGSTOP): {"T", "t"}, int(signal.SIGKILL): {"", "Z", "X"}}


class Injector:
    """Breaks and mends one lab. Every method has had its effect when it returns."""

    def __init__(self, layout: Layout, control: Control) -> None:
        self._layout = layout
        self._control = control

    def _node(self, name: str) -> Node:
        return Node(self._layout, node(name))

    def _gpus(self, name: str) -> FakeGpus:
        return FakeGpus(self._node(name).folder / FILE)

    def kernel_line(self, node_name: str, text: str) -> int:
        """Append a record to a node's kernel log; returns its sequence number."""
        return kmsg.append(self._node(node_name).folder, text)

    def xid(self, node_name: str, code: int, gpu: int = 0) -> int:
        """The exact line the driver prints for an XID; returns its sequence number."""
        return self.kernel_line(node_name, kmsg.xid_line(code, gpu))

    def counter(self, node_name: str, device: str, counter: str, value: int) -> None:
        """Set a counter of a node's HCA, such as mlx5_0 symbol_error 7."""
        sysfs.set_counter(self._node(node_name).folder / "sys", device, counter, value)

    def port(self, node_name: str, device: str, **files: str) -> None:
        """Set what a node's HCA says of its port: state="1: DOWN", phys_state="3: Disabled", rate="..."."""
        sysfs.set_port(self._node(node_name).folder / "sys", device, **files)

    def hca_gone(self, node_name: str, device: str) -> None:
        """An HCA falls off the bus."""
        sysfs.unplug(self._node(node_name).folder / "sys", device)

    def hca_back(self, node_name: str, device: str) -> None:
        """The HCA that was gone is back."""
        sysfs.plug(self._node(node_name).folder / "sys", device)

    def heat(self, node_name: str, gpu: int, celsius: float) -> None:
        """Set a GPU's temperature."""
        sysfs.set_temperature(self._node(node_name).folder / "sys", gpu, celsius)
        self._gpus(node_name).heat(gpu, celsius)

    def nvml(self, node_name: str, gpu: int, name: str, value: int) -> None:
        """Set what the driver says of a GPU, such as field.230 2; nvml/libnvidia-ml.c names all."""
        self._gpus(node_name).gpu(gpu, name, value)

    def dcgm(self, node_name: str, gpu: int, gauge: str, value: int) -> None:
        """Set what dcgm-exporter shows of a GPU: its last "xid", a check such as PCIE (20: failed), or
        "utilization" and "tensor" in percent.
        """
        dcgm.set_gauge(self._node(node_name).folder, gpu, gauge, value)

    def gpu_lost(self, node_name: str, gpu: int) -> None:
        """The device plugin sees a GPU gone, and the driver says so, in the log and when it is asked."""
        self.gpu_unhealthy(node_name, gpu)
        self._gpus(node_name).gpu(gpu, "lost")
        self.xid(node_name, 79, gpu)

    def gpu_unhealthy(self, node_name: str, gpu: int) -> None:
        """The device plugin sees a GPU gone; nobody says why."""
        found = self._node(node_name)
        if not 0 <= gpu < found.spec.gpus:
            raise LabError(f"no GPU {gpu} on {node_name}: GPU nodes have 0 to {GPUS_PER_NODE - 1}")
        (found.folder / "gpu-bad" / str(gpu)).touch()

    def gpu_found(self, node_name: str, gpu: int) -> None:
        """The GPU is back for the device plugin and the driver."""
        self._gpus(node_name).forget(f"gpu {gpu} lost")
        (self._node(node_name).folder / "gpu-bad" / str(gpu)).unlink(missing_ok=True)

    def kubelet_hung(self, node_name: str, on: bool) -> None:
        """The kubelet hangs; its pods run on."""
        self._node(node_name).control.signal("kubelet", signal.SIGSTOP if on else signal.SIGCONT)

    def cable(self, node_name: str, plugged: bool) -> None:
        """Cut or plug the node's network cable."""
        state = "up" if plugged else "down"
        Entry(self._control).run(["ip", "link", "set", node(node_name).cable, state])

    def power(self, node_name: str, on: bool) -> None:
        """Pull the plug, or boot with a new boot id and an empty kernel log."""
        found = self._node(node_name)
        if on:
            found.power_on()
        else:
            found.power_off()

    def new_boot(self, node_name: str) -> None:
        """What a reboot changes for those who watch the node; its pods run on. The agent sees it at
        once; the kubelet reads its boot id when it starts, so it is restarted.
        """
        found = self._node(node_name)
        found.new_boot()
        found.control.signal("kubelet", signal.SIGKILL)

    def freeze(self, node_name: str, on: bool) -> None:
        """Every process of the node stands still, slurmd and the jobs too."""
        self._node(node_name).group.set_frozen(on)

    def slurmd(self, node_name: str, signal_number: int) -> None:
        """Kill, stop or continue the slurmd processes on a node; LabError when there are none."""
        pids = processes_named(self._node(node_name).group, "slurmd")
        if not pids:
            raise LabError(f"no slurmd runs on {node_name}")
        for pid in pids:
            os.kill(pid, signal_number)
        ends = _STATES_AFTER.get(signal_number, set())
        wait_until(lambda: all(_state(pid) in ends for pid in pids) or not ends, 10, "slurmd takes no signal")

    def api_partition(self, node_name: str, on: bool) -> None:
        """Packets from the node and its pods to the API server are lost; everything else passes."""
        entry = Entry(self._control)
        inside = ["ip", "netns", "exec", node(node_name).name, "nft"]
        entry.run([*inside, "delete", "table", "inet", "lab_partition"], check=False)
        if on:
            entry.run([*inside, "-f", "-"], stdin=_PARTITION)

    def kill(self, part: str) -> None:
        """SIGKILL a part of the control plane: apiserver, slurmctld, slurmrestd, ... Its state stays."""
        self._control.stop(part, signal.SIGKILL)

    def start(self, part: str) -> None:
        """Start a part that has ended, as it was."""
        self._control.again(part)

    def restart(self, part: str) -> None:
        """Kill a part and start it again."""
        self.kill(part)
        self.start(part)


def processes_named(group: Group, name: str) -> list[int]:
    """Processes of a group whose program is `name`, Debian's -wlm ending apart."""
    return sorted(pid for pid in group.processes() if _program(pid) in {name, f"{name}-wlm"})


def processes_running(group: Group, argument: str) -> list[int]:
    """Processes of a group whose command line has this argument, such as a Python module's name."""
    return sorted(pid for pid in group.processes() if argument.encode() in _arguments(pid))


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _state(pid: int) -> str:
    """A process's state letter; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
