"""The watches of the controller: nodes and worker pods, each with its thread."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from random import Random

from remediator.clock import Clock
from remediator.errors import Retry
from remediator.kube import paths, soperator
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import WORKER_SELECTOR, PodView, parse_pod
from remediator.kube.reflector import Reflector
from remediator.kube.session import Session
from remediator.model.faults import LOOKS_BACK_S
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.run.inventory import CachedInventory, Kept
from remediator.settings import GuardSettings, Pool

Watch = Reflector[NodeView] | Reflector[PodView]
STALE_S = 120.0
SYNC_S = 30.0


class Caches:
    """Starts and stops the reflectors, reports their age, and is asked for machines. `changed` is called
    when a node changes, `lost` when its kubelet is not Ready any more.
    """

    def __init__(
        self, session: Session, clock: Clock, changed: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        def tell(old: NodeView | None, new: NodeView | None) -> None:
            changed()
            if old is not None and new is not None and old.ready is True and new.ready is not True:
                lost()

        random = Random()  # noqa: S311 - jitter, not a secret
        self.nodes: Reflector[NodeView] = Reflector(
            session, paths.NODES, parse_node, clock=clock, random=random, on_change=tell
        )
        self.pods: Reflector[PodView] = Reflector(
            session,
            paths.PODS,
            parse_pod,
            clock=clock,
            random=random,
            params={"labelSelector": WORKER_SELECTOR},
        )
        self.soperator_pods: Reflector[PodView] = Reflector(
            session,
            paths.PODS,
            parse_pod,
            clock=clock,
            random=random,
            params={"labelSelector": soperator.WORKER_SELECTOR},
        )
        self._workers: Kept[tuple[PodView, ...]] = Kept(
            _joined, self.pods.objects, self.soperator_pods.objects
        )
        self._on = Kept(_by_node, self._workers)
        self._all: dict[str, Reflector[NodeView] | Reflector[PodView]] = {
            "nodes": self.nodes,
            "pods": self.pods,
            "soperator-pods": self.soperator_pods,
        }

    def workers_on(self, node: str) -> Sequence[PodView]:
        """The worker pods on a node as last seen."""
        return self._on().get(node, ())

    def inventory(
        self,
        pools: Mapping[str, Pool],
        guard: GuardSettings = GuardSettings(),  # noqa: B008 - frozen
        looks_back_s: float = LOOKS_BACK_S,
    ) -> CachedInventory:
        """Machines as these caches know them; `guard` names the labels of what they share, `looks_back_s` is
        of the rules of alerts.
        """
        return CachedInventory(
            self.nodes.named, self.nodes.objects, self._workers, pools, guard, looks_back_s
        )

    def report(self, health: Health, metrics: Metrics) -> None:
        """Show the age of each watch, and be unready while one is not synced or stale."""
        for name, reflector in self._all.items():
            metrics.watch_age(name, reflector.age)
            health.ready(f"watch-{name}", _freshness(name, reflector))

    def start(self) -> None:
        """Start all watches and wait for their first lists; Retry when the API server does not answer."""
        for name, reflector in self._all.items():
            threading.Thread(target=reflector.run, name=f"watch-{name}", daemon=True).start()
        for name, reflector in self._all.items():
            if not reflector.synced.wait(SYNC_S):
                raise Retry(f"no list of {name} from the API server within {SYNC_S:.0f} s")

    def stop(self) -> None:
        """End all watches."""
        for reflector in self._all.values():
            reflector.stop()


def _by_node(pods: Iterable[PodView]) -> dict[str, list[PodView]]:
    found: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        found[pod.node].append(pod)
    return found


def _joined(*found: Iterable[PodView]) -> tuple[PodView, ...]:
    return tuple({pod.uid: pod for pod in chain(*found)}.values())


def _freshness(name: str, reflector: Watch) -> Callable[[], str | None]:
    def check() -> str | None:
        if not reflector.synced.is_set():
            return f"no list of {name} yet"
        age = reflector.age()
        return f"the watch of {name} has been silent for {age:.0f} s" if age > STALE_S else None

    return check
