"""Where a lab keeps its files, and where the programs it runs are. Paths only."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.setup.cache import cache_root

REPO = Path(__file__).resolve().parents[2]
DEFAULT_NAME = "lab"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Layout:
    """The files of one lab. `cache` holds what was built once, `root` what belongs to this lab alone."""

    cache: Path
    name: str

    @classmethod
    def of(cls, name: str) -> Layout:
        """The layout of the lab with this name in the user's cache; LabError when the name is not usable."""
        if not _NAME.fullmatch(name):
            raise LabError(f"{name!r} is no lab name: use lower-case letters, digits and dashes, at most 31")
        return cls(cache_root(), name)

    @property
    def root(self) -> Path:
        """The lab's own folder."""
        return self.cache / "labs" / self.name

    @property
    def logs(self) -> Path:
        """The logs of every part, one file each."""
        return self.root / "logs"

    def pod_logs(self, node: str) -> Path:
        """What the containers of a node print."""
        return self.logs / "pods" / node

    @property
    def control_socket(self) -> Path:
        """Unix socket of the lab's first process."""
        return self.root / "control.sock"

    @property
    def pki(self) -> Path:
        """Keys, certificates, tokens and kubeconfigs (mode 700)."""
        return self.root / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; its server address exists in the lab's network only."""
        return self.pki / "admin.conf"

    @property
    def slurm_etc(self) -> Path:
        """Slurm's configuration and keys, /etc/slurm in Slurm's root."""
        return self.root / "slurm"

    @property
    def shared(self) -> Path:
        """The folder that is /shared on every node and in Slurm's root."""
        return self.root / "shared"

    @property
    def settings(self) -> Path:
        """What the lab was started with, and how far the start got (JSON)."""
        return self.root / "lab.json"

    @property
    def store(self) -> Path:
        """This lab's copy of the images, from which its nodes bind the layers."""
        return self.root / "store"

    def node_dir(self, node: str) -> Path:
        """A node's faces to the outside: kmsg, sys/, boot_id, gpu-bad/; /var/lib/lab on the node."""
        return self.root / "nodes" / node

    def disk(self, node: str) -> Path:
        """What a node's programs write: kubelet, containerd, pod logs."""
        return self.root / "disks" / node

    def node_socket(self, node: str) -> Path:
        """Unix socket of a node's first process."""
        return self.disk(node) / "control.sock"

    def binary(self, name: str) -> Path:
        """One of the programs built from Go: kube, kubectl, coredns, deviceplugin."""
        return self.cache / "bin" / name

    @property
    def debian(self) -> Path:
        """Where Debian packages were unpacked: containerd, runc, CNI plugins, Prometheus, Alertmanager."""
        return self.cache / "debs" / "root"

    @property
    def cni_plugins(self) -> Path:
        """The folder of the CNI plugins, as seen inside (Debian's packages are laid over /usr there)."""
        return Path("/usr/lib/cni")

    @property
    def slurm_root(self) -> Path:
        """The read-only root that holds Slurm."""
        return self.cache / "roots" / "slurm"

    def environment(self) -> dict[str, str]:
        """The whole environment of a process inside the lab: nothing of the user's own."""
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {
            "PATH": f"{self.cache / 'bin'}:{system}",
            "HOME": "/run/home",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPO),
            "PYTHONDONTWRITEBYTECODE": "1",
            "KUBECONFIG": str(self.kubeconfig),
        }

    def kept(self) -> list[Path]:
        """The folders that must stay visible inside, wherever on the machine they are."""
        named = (
            self.cache,
            REPO,
            Path(sys.prefix),
            Path(sys.base_prefix),
            Path(sys.executable).resolve().parent,
        )
        return sorted({Path(os.path.abspath(path)) for path in named})
