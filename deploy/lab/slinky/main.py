"""The operator's loop: a pass when the bell rings, when a lag ends, and every 30 s."""

from __future__ import annotations

import argparse
import logging
import random
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import issuer, plan, tokens
from .kube import CUSTOM, Doorbell, Kube, KubeError
from .lag import BusyLag, Span
from .model import Json, NodeSet, WorkerPod
from .slurm import SlurmError, SlurmRest
from .sync import WORKERS, Habits, NodeSetPass

log = logging.getLogger("slinky")
OWN_LIFETIME = 900.0
FOREVER = float("inf")
FIRST_RETRY = 0.5


class OwnToken:
    """The operator's own token for one controller, signed anew when 80 % of it is over."""

    def __init__(self, kube: Kube, namespace: str, ref: Json) -> None:
        self._kube = kube
        self._namespace = namespace
        self._ref = ref
        self._token = ""
        self._due = 0.0

    def __call__(self) -> str:
        """A token that is still good."""
        now = time.time()
        if now >= self._due:
            key = issuer.read_key(self._kube, self._namespace, self._ref["name"], self._ref["key"])
            self._token = tokens.issue(key, "slurm", OWN_LIFETIME, now)
            self._due = now + OWN_LIFETIME * 4 / 5
        return self._token


class Operator:
    """All NodeSets of the cluster, and all Token resources."""

    def __init__(self, kube: Kube, bell: Doorbell, options: argparse.Namespace) -> None:
        self._kube = kube
        self._bell = bell
        self._options = options
        self._habits = Habits(options.adopt, options.register_grace, tuple(options.propagate))
        self._lag = BusyLag(options.protect_on, options.protect_off, random.Random(options.seed))  # noqa: S311 - no secret
        self._clients: dict[str, SlurmRest] = {}
        self._shown: dict[str, bool] = {}
        self._patience = FIRST_RETRY
        self._pass_at = 0.0
        self._urgent = True
        self._look_at = 0.0
        self._token_at = 0.0
        self._adopt_at = FOREVER

    def forever(self) -> None:
        """Runs until the process is ended."""
        while True:
            now = time.time()
            wake = min(self._pass_at, self._look_at, self._token_at, self._adopt_at, self._lag.next_due())
            if self._bell.wait(min(wake - now, self._options.resync)):
                self.rush(time.time() + self._options.react)
            try:
                self.turn(time.time())
            except KubeError as error:
                log.warning("pass failed: %s", error)
                self._pass_at = self._look_at = self._token_at = self._back_off(time.time())

    def turn(self, now: float) -> None:
        """Does what is due at `now`."""
        if now >= self._token_at:
            self._token_at = issuer.renew_all(self._kube, now)
        if now >= self._look_at:
            self._look_at = now + self._options.slurm_poll
            self._look(now)
        if now >= min(self._lag.next_due(), self._adopt_at):
            self._pass_at = now
        if now >= self._pass_at:
            self._pass(now, urgent=self._urgent)

    def rush(self, when: float) -> None:
        """A change in Kubernetes: a pass soon, which also shows what Slurm says by then."""
        if not self._urgent:
            self._pass_at = min(self._pass_at, when)
        self._urgent = True
        self._token_at = min(self._token_at, when)

    def _pass(self, now: float, *, urgent: bool) -> None:
        self._urgent = False
        self._pass_at, self._adopt_at = now + self._options.resync, FOREVER
        failed = False
        for raw in self._kube.items(f"{CUSTOM}/nodesets"):
            nodeset = NodeSet.from_json(raw)
            if not self._pass_one(nodeset, now, urgent):
                failed = True
        self._lag.settle(now)
        if failed:
            self._pass_at = self._back_off(now)
        else:
            self._patience = FIRST_RETRY

    def _back_off(self, now: float) -> float:
        """When to try again: soon at first, then more and more seldom."""
        self._patience = min(2 * self._patience, self._options.retry)
        return now + self._patience

    def _pass_one(self, nodeset: NodeSet, now: float, urgent: bool) -> bool:
        controller = self._kube.get(
            f"{CUSTOM}/namespaces/{nodeset.namespace}/controllers/{nodeset.controller}"
        )
        if controller is None:
            log.warning("nodeset %s: no Controller %s", nodeset.name, nodeset.controller)
            return False
        rest = self._client(nodeset.namespace, controller)
        work = NodeSetPass(
            self._kube, rest, nodeset=nodeset, controller=controller, habits=self._habits, now=now
        )

        def may_show(pod: WorkerPod, busy: bool) -> bool:
            self._lag.observe(pod.slurm_name, busy, plan.shows_busy(pod.slurm_conditions), now)
            return urgent or not self._lag.holds(pod.slurm_name, now)

        fine = work.run(may_show)
        self._shown.update(work.shows_busy)
        if fine:
            self._adopt_at = min(self._adopt_at, max(work.next_adoption(), now + 0.5))
        return fine

    def _look(self, now: float) -> None:
        """Notes starts and ends of work, so that they show on the pods after their lag."""
        try:
            records = {name: node for rest in self._clients.values() for name, node in rest.nodes().items()}
        except SlurmError:
            return  # the next pass says so in an Event
        for name, shown in self._shown.items():
            if record := records.get(name):
                self._lag.observe(name, plan.is_busy(record), shown, now)

    def _client(self, namespace: str, controller: Json) -> SlurmRest | None:
        """The client of the oldest RestApi of a controller; None when it has none."""
        name = controller["metadata"]["name"]
        apis = self._kube.items(f"{CUSTOM}/namespaces/{namespace}/restapis")
        ours = [a for a in apis if a["spec"]["controllerRef"]["name"] == name]
        if not ours:
            self._clients.clear()
            return None
        oldest = min(ours, key=lambda a: str(a["metadata"]["creationTimestamp"]))
        url = self._options.slurm_url or f"http://{oldest['metadata']['name']}-restapi.{namespace}:6820"
        if url not in self._clients:
            token = OwnToken(self._kube, namespace, controller["spec"]["jwtKeyRef"])
            self._clients[url] = SlurmRest(url, token)
        return self._clients[url]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; the defaults are what was measured on v1.2.1."""
    cli = argparse.ArgumentParser(prog="slinky", description=__doc__)
    seconds: dict[str, Any] = {"type": float, "metavar": "SECONDS"}
    span: dict[str, Any] = {"type": Span.parse, "metavar": "LOW:HIGH"}
    cli.add_argument("--react", default=0.9, help="from a change in Kubernetes to the pass", **seconds)
    cli.add_argument("--resync", default=30.0, help="from pass to pass without a change", **seconds)
    cli.add_argument("--retry", default=10.0, help="at most to the next pass after failed ones", **seconds)
    cli.add_argument("--slurm-poll", default=1.5, help="between two looks at Slurm", **seconds)
    cli.add_argument("--register-grace", default=3.0, help="a Ready pod may lack its record", **seconds)
    cli.add_argument("--protect-on", default=Span(2.0, 8.0), help="job start to pod-protect", **span)
    cli.add_argument("--protect-off", default=Span(24.0, 27.5), help="job end to its removal", **span)
    cli.add_argument("--adopt", default=Span(3.5, 5.5), help="pod Ready to its record's comment", **span)
    cli.add_argument("--propagate", action="append", default=[], help="node condition told as the reason")
    cli.add_argument("--slurm-url", help="instead of the RestApi's Service")
    cli.add_argument("--seed", type=int, help="of the lags, for a run that repeats")
    return cli.parse_args(arguments)


def node_part(node: Json) -> object:
    """What of a node makes the operator look: cordon, annotations, labels; not its heartbeats."""
    meta = node["metadata"]
    return (node["spec"].get("unschedulable"), meta.get("annotations"), meta.get("labels"))


def main() -> None:
    """Runs in a pod, where it is process 1 and would not heed SIGTERM by itself."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    kube = Kube.in_cluster()
    bell = Doorbell(kube)
    bell.listen("/api/v1/nodes", node_part)
    bell.listen("/api/v1/pods", WorkerPod.from_json, labelSelector=WORKERS)
    for kind in ("nodesets", "tokens", "controllers", "restapis"):
        bell.listen(f"{CUSTOM}/{kind}", lambda o: o["metadata"].get("generation"))
    Operator(kube, bell, options).forever()
