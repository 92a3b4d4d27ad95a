"""Other NodeSets than one worker a node in StatefulSet mode, for the river."""

from __future__ import annotations

import itertools
from typing import Any

from remediator.kube.errors import Json
from remediator.kube.pods import SCALING_MODE
from tests.fakes.river import WORKER, River

UNSCHEDULED = "0/6 nodes are available: 5 node(s) didn't match Pod's node affinity/selector."


class CrowdedRiver(River):
    """Two workers share each machine (`oversubscribeNode`)."""

    per_node = 2

    def workers_of(self, node: str) -> tuple[str, ...]:
        """See River."""
        return (f"v-{node}", f"w-{node}")


class DaemonRiver(River):
    """DaemonSet mode: one worker on every node that takes workers, named after it; its pods have names of
    chance. Slurm keeps the record of a worker that is gone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._numbers = itertools.count(1)
        self.pods: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    def workers_of(self, node: str) -> tuple[str, ...]:
        """See River."""
        return (node,)

    def add_worker(self, worker: str, node: str) -> None:
        """See River."""
        self.pods[worker] = f"d-{next(self._numbers)}"
        labels = {**WORKER, SCALING_MODE: "DaemonSet"}
        self.kube.add_pod("slurm", self.pods[worker], node, labels=labels, hostname=worker)

    def worker_node(self, worker: str) -> str | None:
        """See River."""
        pod = self.kube.pod("slurm", self.pods.get(worker, "none"))
        return pod.node if pod else None

    def slinky(self) -> None:
        """The operator: no pod is made on a node that is cordoned or bears a taint that workers fear."""
        for name in self.names:
            if name in self.pods and self.worker_node(name) is None:
                del self.pods[name]
                self.slurm.stop_worker(name)
            if name not in self.pods and self.takes_workers(name):
                self.add_worker(name, name)
                if name in self.workers:
                    self.slurm.move_worker(name)
                else:
                    self.workers.append(name)
                    self.slurm.register(name)


class PinnedRiver(River):
    """pinToNode with a template that fits every node: a worker that is made again waits for its old one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pinned = True
        super().__init__(*args, **kwargs)

    def unpin(self) -> None:
        """A person ends that; the operator makes the pod anew."""
        self._pinned = False
        for worker in sorted(self.homeless):
            self.kube.remove_pod("slurm", worker)

    def takes_workers(self, name: str) -> bool:
        """See River."""
        return not self._pinned and super().takes_workers(name)

    def slinky(self) -> None:
        """See River."""
        super().slinky()
        for worker in self.homeless if self._pinned else ():
            if self.kube.pod("slurm", worker) is None:
                self.kube.add_pod("slurm", worker, "", labels=WORKER)
                self.kube.change_pod("slurm", worker, _pending(self.homes[worker]))


def _pending(node: str) -> Json:
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
    why = {"type": "PodScheduled", "status": "False", "message": UNSCHEDULED}
    return {
        "spec": {"affinity": {"nodeAffinity": required}},
        "status": {"phase": "Pending", "conditions": [why]},
    }
