"""Brings a lab up: control plane, nodes and Slurm side by side, then what runs on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

from deploy.lab import cluster, controlplane, imagestore, monitoring, pki, slurm
from deploy.lab.cgroups import Group
from deploy.lab.control import Control, wait_until
from deploy.lab.enter import Entry
from deploy.lab.kubeapi import KubeApi, condition
from deploy.lab.layout import Layout
from deploy.lab.node import Node
from deploy.lab.phases import Phases
from deploy.lab.spec import NODES, SLURM_NAMESPACE, WORKERS

_SERVICE_PODS = "?labelSelector=app.kubernetes.io%2Fname+in+%28remediator%2Cremediator-agent%29"


@dataclass(frozen=True)
class Options:
    """How a lab is started: `kill_wait` in seconds; `service` False leaves our own service out, `gpu_alerts`
    False the rules that tell it of GPU faults.
    """

    kill_wait: int = slurm.GRACE_SECONDS
    service: bool = True
    gpu_alerts: bool = True


class Start:
    """One start of one lab whose folder is empty."""

    def __init__(self, layout: Layout, options: Options, golden: Path, phases: Phases) -> None:
        self._layout = layout
        self._options = options
        self._golden = golden
        self._phases = phases
        self._control = Control(layout.control_socket, f"lab {layout.name}")
        self._entry = Entry(self._control, layout.environment())
        self._api = KubeApi(layout, self._control)
        self._api_ready = Event()
        self._failed = Event()

    def run(self) -> None:
        """Everything, in order; returns when every node is Ready and every worker is idle in Slurm."""
        with self._phases.phase("files"):
            write_files(self._layout, self._options)
        with self._phases.phase("namespaces"):
            self._launch()
        with ThreadPoolExecutor(max_workers=len(NODES) + 4) as pool:
            tasks: list[Callable[[], None]] = [self._control_plane, self._slurm, self._monitoring]
            tasks += [lambda spec=spec: self._node(Node(self._layout, spec)) for spec in NODES]  # type: ignore[misc]
            self._images = pool.submit(self._guarded, self._copy_images)
            futures = [self._images, *(pool.submit(self._guarded, task) for task in tasks)]
        for future in futures:
            future.result()
        with self._phases.phase("nodes ready"):
            wait_until(
                lambda: len(self._api.ready_nodes()) == len(NODES), 180, "not every node is Ready", every=0.1
            )
        with self._phases.phase("workers idle"):
            self._await_workers()
        if self._options.service and cluster.has_service():
            with self._phases.phase("service ready"):
                log = self._layout.logs / "pods"
                wait_until(
                    self._service_ready, 240, f"the service's pods are not Ready: see {log}", every=0.2
                )

    def _guarded(self, task: Callable[[], None]) -> None:
        """One failure must not leave the others waiting."""
        try:
            task()
        except BaseException:
            self._failed.set()
            self._api_ready.set()
            raise

    def _launch(self) -> None:
        group = Group.of_lab(self._layout.name)
        group.open_parent()
        group.create()
        launch(self._layout, group)
        log = self._layout.logs / "init.log"
        wait_until(
            lambda: self._control.first_pid() is not None,
            60,
            f"the lab's namespaces do not come up: see {log}",
        )
        group.delegate()

    def _control_plane(self) -> None:
        with self._phases.phase("api server"):
            self._control.start(controlplane.etcd(self._layout))
            self._control.start(controlplane.apiserver(self._layout))
            wait_until(
                self._api.is_ready, 180, f"the API server is not ready: see {self._layout.logs}/apiserver.log"
            )
            self._api_ready.set()
        with self._phases.phase("manifests"):
            for part in (controlplane.controllers, controlplane.scheduler, controlplane.proxy):
                self._control.start(part(self._layout))
            cluster.apply_all(self._layout, self._entry, self._control, service=self._options.service)

    def _slurm(self) -> None:
        with self._phases.phase("slurm"):
            self._control.start(slurm.slurmctld(self._layout))
            ping = slurm.chroot("scontrol", "ping")
            wait_until(
                lambda: "UP" in self._entry.run(ping, check=False).stdout, 120,
                f"slurmctld does not answer: see {self._layout.logs}/slurmctld.out.log", every=0.2,
            )  # fmt: skip
            self._control.start(slurm.slurmrestd(self._layout))

    def _monitoring(self) -> None:
        self._api_ready.wait()
        if not self._failed.is_set():
            self._control.start(monitoring.prometheus(self._layout))
            self._control.start(monitoring.alertmanager(self._layout))

    def _copy_images(self) -> None:
        with self._phases.phase("images"):
            imagestore.copy_store(self._golden, self._layout.store)

    def _node(self, node: Node) -> None:
        self._images.result()
        node.install()
        node.boot()
        self._api_ready.wait()
        if not self._failed.is_set():
            node.start_programs()

    def _service_ready(self) -> bool:
        pods = self._api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods{_SERVICE_PODS}")["items"]
        expected = 1 + sum(node.gpus > 0 for node in NODES)
        return len(pods) >= expected and all(condition(pod) == "True" for pod in pods)

    def _await_workers(self) -> None:
        command = slurm.chroot("sinfo", "-h", "-N", "-o", "%T")

        def idle() -> bool:
            return self._entry.run(command, check=False).stdout.split().count("idle") >= WORKERS

        wait_until(
            idle, 180, "not every worker is idle in Slurm: see `kubectl get pods -A` in the lab", every=0.2
        )


def write_files(layout: Layout, options: Options) -> None:
    """Everything the lab's programs read, in the lab's own folder."""
    for folder in (layout.logs, layout.shared):
        folder.mkdir(parents=True)
    layout.shared.chmod(0o1777)
    layout.settings.write_text(json.dumps({"ready": False, **asdict(options)}))
    pki.make(layout)
    controlplane.write_files(layout)
    slurm.write_files(layout, options.kill_wait)
    monitoring.write_files(layout, gpu_alerts=options.gpu_alerts)


def launch(layout: Layout, group: Group) -> None:
    """Start the lab's first process in its control group and namespaces, detached from the caller."""
    script = (
        'while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; '
        'exec setsid --fork unshare -m -n -p -u -i -C -f --kill-child=KILL --propagation private "$@"'
    )
    program = [sys.executable, "-m", "deploy.lab.init", str(layout.cache), layout.name]
    argv = ["sh", "-c", script, "sh", *map(str, group.member_files), "--", *program]
    environment = layout.environment()
    with (layout.logs / "init.log").open("ab") as log:
        subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=os.sep,
            check=True,
            timeout=60,
        )
