"""What the lab looks like: its nodes, addresses and ports. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy.lab.errors import LabError

CONTROL_PLANE = "10.99.0.1"
"""Address of the control plane, Slurm's controllers, Prometheus and Alertmanager."""
BRIDGE_CIDR = "10.99.0.1/24"
CLUSTER_CIDR = "10.99.0.0/16"
SERVICE_CIDR = "10.98.0.0/24"
KUBERNETES_SERVICE = "10.98.0.1"
DNS_SERVICE = "10.98.0.10"
API_PORT = 6443
SLURMCTLD_PORT = 6817
SLURMRESTD_PORT = 6820
PROMETHEUS_PORT = 9090
ALERTMANAGER_PORT = 9093
DCGM_PORT = 9400
GPUS_PER_NODE = 8
KUBERNETES_VERSION = "v1.37.2"
SLURM_NAMESPACE = "slurm"

# The PCI address of each GPU, as a two-socket 8-GPU board has them.
GPU_PCI = (
    "0000:18:00",
    "0000:2a:00",
    "0000:3a:00",
    "0000:5d:00",
    "0000:9a:00",
    "0000:ab:00",
    "0000:ba:00",
    "0000:db:00",
)

SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""The machine-wide values a kubelet wants; it is shown them, so that it never writes the machine's own."""


@dataclass(frozen=True)
class Taint:
    """A Kubernetes taint with effect NoSchedule."""

    key: str
    value: str


@dataclass(frozen=True)
class NodeSpec:
    """One node: its number (part of its addresses), labels, taints and GPUs."""

    name: str
    index: int
    gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def address(self) -> str:
        """The node's own IPv4 address on the lab's bridge."""
        return f"10.99.0.{10 + self.index}"

    @property
    def pod_cidr(self) -> str:
        """The addresses of the node's pods."""
        return f"10.99.{10 + self.index}.0/24"

    @property
    def cable(self) -> str:
        """The interface at the bridge's end of the node's cable."""
        return f"cable{self.index}"

    @property
    def machine_id(self) -> str:
        """32 hexadecimal digits, the same at every power-on."""
        return f"1ab{self.index:029d}"


WORKER_TAINT = Taint("remediator.dev/worker", "true")
SPARE_TAINT = Taint("remediator.dev/spare", "true")


def _worker(index: int) -> NodeSpec:
    labels = {"remediator.dev/pool": "training"}
    return NodeSpec(f"gpu-{index - 1}", index, GPUS_PER_NODE, labels, (WORKER_TAINT,))


def _spare(index: int) -> NodeSpec:
    labels = {"remediator.dev/pool": "training", "remediator.dev/spare": "true"}
    return NodeSpec(f"gpu-{index - 1}", index, GPUS_PER_NODE, labels, (SPARE_TAINT,))


NODES: tuple[NodeSpec, ...] = (
    NodeSpec("sys-0", 0, labels={"remediator.dev/lab-role": "system"}),
    *(_worker(index) for index in range(1, 5)),
    _spare(5),
)
"""One node for services, four GPU workers, one GPU spare."""

WORKERS = 4
"""Slurm nodes in the default NodeSet."""


def node(name: str) -> NodeSpec:
    """The node with this name; LabError names the ones there are."""
    for spec in NODES:
        if spec.name == name:
            return spec
    raise LabError(f"no node {name!r} in the lab; there are {', '.join(spec.name for spec in NODES)}")
