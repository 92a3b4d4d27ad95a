"""One node: its files, its power, and the programs that run on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from deploy.lab import controlplane, dcgm, imagestore, network, nvml, sysfs
from deploy.lab.cgroups import Group
from deploy.lab.control import Control, Part, wait_until
from deploy.lab.enter import Entry
from deploy.lab.errors import LabError
from deploy.lab.layout import Layout
from deploy.lab.spec import DNS_SERVICE, GPUS_PER_NODE, NodeSpec

_SANDBOX_IMAGE = "localhost/pause:1"


class Node:
    """A node of a running lab."""

    def __init__(self, layout: Layout, spec: NodeSpec) -> None:
        self.layout = layout
        self.spec = spec
        self.folder = layout.node_dir(spec.name)
        self.control = Control(layout.node_socket(spec.name), f"node {spec.name}")
        self.group = Group.of_lab(layout.name).child(spec.name)
        self._lab = Control(layout.control_socket, f"lab {layout.name}")

    @property
    def is_on(self) -> bool:
        """True while the node's first process lives, also when it is frozen."""
        return self.control.first_pid() is not None

    def install(self) -> None:
        """A new node: an empty disk with every image on it, and its faces (kmsg, sys/, gpu-bad/)."""
        disk = self.layout.disk(self.spec.name)
        for name in ("lib/kubelet", "lib/lab", "log/pods", "log/containers", "tmp"):
            (disk / "var" / name).mkdir(parents=True)
        (disk / "cni").mkdir()
        self.layout.pod_logs(self.spec.name).mkdir(parents=True)
        imagestore.skeleton(self.layout.store, disk / "var/lib/containerd")
        (self.folder / "gpu-bad").mkdir(parents=True)
        if self.spec.gpus:
            sysfs.write_tree(self.folder / "sys")
            shutil.copyfile(nvml.library(), self.folder / nvml.NAME)
        self._write_configuration(disk)

    def _write_configuration(self, disk: Path) -> None:
        files: dict[str, Any] = {
            "kubelet.json": kubelet_config(self.layout, self.spec),
            "cni/10-lab.conflist": cni_config(self.spec),
        }
        for name, content in files.items():
            (disk / name).write_text(json.dumps(content))
        (disk / "containerd.toml").write_text(containerd_config(self.layout))
        (disk / "proxy.json").write_text(
            controlplane.proxy_config(self.layout, self.spec.name, self.spec.address)
        )

    def power_on(self) -> None:
        """Boot and start every program. LabError when the node is on already."""
        self.boot()
        self.start_programs()

    def boot(self) -> None:
        """A new boot id, an empty kernel log, a first process and containerd."""
        if self.is_on:
            raise LabError(f"node {self.spec.name} is on already")
        self.new_boot()
        self.group.remove()  # each left-over group costs the kubelet 3 s before Ready
        self.group.create()
        self._plug()
        self._lab.start(self._first_process())
        wait_until(lambda: self.is_on, 60, f"node {self.spec.name} does not boot: see {self._log('init')}")
        self.group.delegate()
        self.control.start(
            self._program("containerd", "containerd", "--config", f"{self._disk}/containerd.toml")
        )
        socket = Path(f"/proc/{self.control.first_pid()}/root/run/containerd/containerd.sock")
        wait_until(
            socket.exists, 20, f"containerd on {self.spec.name} does not start: see {self._log('containerd')}"
        )

    def start_programs(self) -> None:
        """Kubelet, kube-proxy and device plugin: best when the API server answers, else they back off."""
        for part in self._programs():
            self.control.start(part)

    def power_off(self) -> None:
        """Pull the plug: every process of the node is gone at once, a frozen one too."""
        pid = self.control.first_pid()
        self.group.thaw_all()
        if pid:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.group.processes(), 60, f"node {self.spec.name} does not go off")

    def new_boot(self) -> None:
        """A new boot id, an empty kernel log, uptime 0; DCGM has seen nothing yet, every GPU is found."""
        self.folder.mkdir(exist_ok=True)
        if self.spec.gpus:
            dcgm.clear(self.folder)
            nvml.healthy(self.folder, self.spec.name)
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / "kmsg").write_text("")
        (self.folder / "booted_at").write_text(f"{time.clock_gettime(time.CLOCK_BOOTTIME):.6f}\n")

    def _plug(self) -> None:
        """A fresh network namespace each time: what the last boot left in it is gone."""
        entry = Entry(self._lab)
        # The cable first: a namespace that is deleted gives its interfaces back some time later.
        entry.run(["ip", "link", "delete", self.spec.cable], check=False)
        entry.run(["ip", "netns", "delete", self.spec.name], check=False)
        entry.run(["ip", "-batch", "-"], stdin=network.plug_commands(self.spec))
        entry.run(["ip", "-n", self.spec.name, "-batch", "-"], stdin=network.node_commands(self.spec))

    def _first_process(self) -> Part:
        """Joins the node's control group, then makes the namespaces the node lives in."""
        join = [f"/{file.relative_to('/').as_posix()}" for file in inside_lab(self.group)]
        program = [
            sys.executable,
            "-m",
            "deploy.lab.init",
            str(self.layout.cache),
            self.layout.name,
            self.spec.name,
        ]
        script = 'n=$1; shift; while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; '
        script += 'exec nsenter --net=/run/netns/"$n" unshare -m -p -u -i -C -f --kill-child=KILL '
        script += '--propagation private "$@"'
        argv = ["sh", "-c", script, "sh", self.spec.name, *join, "--", *program]
        return Part(f"node-{self.spec.name}", argv, self._log("init"))

    def _programs(self) -> list[Part]:
        kube = str(self.layout.binary("kube"))
        parts = [
            self._program("kubelet", kube, "kubelet", *self._kubelet_flags(), revive=True),
            self._program("proxy", kube, "proxy", f"--config={self._disk}/proxy.json"),
        ]
        if self.spec.gpus:
            plugin = str(self.layout.binary("deviceplugin"))
            bad = f"{self.folder}/gpu-bad"
            parts.append(self._program("deviceplugin", plugin, "nvidia.com/gpu", str(GPUS_PER_NODE), bad))
            exporter = (sys.executable, "-m", "deploy.lab.dcgm", str(self.folder), self.spec.name)
            parts.append(self._program("dcgm-exporter", *exporter))
        return parts

    def _kubelet_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.layout.pki}/{self.spec.name}.conf",
            f"--config={self._disk}/kubelet.json",
            f"--hostname-override={self.spec.name}",
            f"--node-ip={self.spec.address}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in self.spec.labels.items())}",
        ]

    def _program(self, name: str, *argv: str, revive: bool = False) -> Part:
        return Part(name, argv, self._log(name), revive=revive)

    @property
    def _disk(self) -> Path:
        return self.layout.disk(self.spec.name)

    def _log(self, name: str) -> str:
        return str(self.layout.logs / f"{self.spec.name}.{name}.log")


def inside_lab(group: Group) -> list[Path]:
    """The member files of a node's group as the lab's own processes see them: below the lab's group."""
    below = Path(group.name).relative_to(Path(group.name).parts[0])
    return [tree.mount / below / "cgroup.procs" for tree in group.trees]


def kubelet_config(layout: Layout, spec: NodeSpec) -> dict[str, Any]:
    """The kubelet's configuration for one node."""
    taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in spec.taints]
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "providerID": f"lab://{spec.name}",
        "registerWithTaints": taints,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": "",
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 50,
    }


def cni_config(spec: NodeSpec) -> dict[str, Any]:
    """Pod network: point-to-point links, addresses of this node's own range."""
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": spec.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "0.4.0", "name": "lab", "plugins": [{"type": "ptp", "mtu": 1500, "ipam": ipam}]}


def containerd_config(layout: Layout) -> str:
    """One configuration for all nodes: usual paths, images from the local store only."""
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{_SANDBOX_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{layout.cni_plugins}"
    conf_dir = "/etc/cni/net.d"
"""
