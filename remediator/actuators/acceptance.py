"""The acceptance test of a node: the driver that runs it as a pod, and the guard in front of it.

Whoever lets a node take jobs asks here first: a spare that comes in, a node that is given back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from remediator.clock import Clock
from remediator.guard import Guard
from remediator.kube import acceptance, paths
from remediator.kube.acceptance import TestPod, Trial
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Conflict, Json
from remediator.kube.nodes import NodeView
from remediator.kube.patch import IdentityChanged, NodeWriter
from remediator.kube.pods import is_slurm_worker, parse_pod
from remediator.kube.session import Api


class Bench(Protocol):
    """Where acceptance tests run; `tag` (an incident's id) makes a test one of its kind on that machine.
    `deadline` is in seconds and covers the whole call.
    """

    def look(self, node: str, uid: str, tag: str, *, deadline: float) -> Trial:
        """Where the node's test stands; a machine that is gone has failed."""

    def start(self, node: str, uid: str, tag: str, *, deadline: float) -> None:
        """Start the test, once: one that is there already stays the only one."""

    def prove(self, node: str, uid: str, tag: str, sentence: str, *, deadline: float) -> None:
        """Write the proof of a passed test onto the node."""

    def clear(self, uid: str, tag: str, *, deadline: float) -> None:
        """Delete the test's pod; none is success."""


class PodBench:
    """Tests as pods on the node itself. Without a test pod a node's own word is all there is."""

    def __init__(self, api: Api, clock: Clock, test: TestPod | None) -> None:
        self._api = api
        self._clock = clock
        self._test = test
        self._nodes = NodeWriter(api, clock)

    def look(self, node: str, uid: str, tag: str, *, deadline: float) -> Trial:
        """See the port."""
        until = Deadline(deadline, self._clock)
        now = self._clock.now()
        try:
            view = self._nodes.same(node, uid, deadline=until.left())
        except IdentityChanged as error:
            return Trial("failed", str(error))
        shown = acceptance.fitness(view)
        pod = self._pod(uid, tag, self._test, until) if self._test else None
        if shown.state != "passed":
            return replace(shown, pod=pod is not None)
        if self._test is None:
            return replace(shown, state="proven")
        if acceptance.is_proven(view, now):
            return Trial("proven", acceptance.proof_of(view), pod is not None)
        if pod is None:
            return self._untested(view, shown, until)
        return acceptance.judged(pod, self._test, now)

    def _untested(self, view: NodeView, shown: Trial, until: Deadline) -> Trial:
        """A Slurm worker that is still there holds the GPUs: no test could get them, so the node's own word
        has to do.
        """
        on_node = {"fieldSelector": f"spec.nodeName={paths.name(view.name, 'node')}"}
        listing = self._api.list(paths.PODS, params=on_node, deadline=until.left())
        pods = [pod for pod in map(parse_pod, listing.items) if pod is not None]
        holders = [pod.key for pod in pods if pod.holds_gpus and is_slurm_worker(pod)]
        if not holders:
            return Trial("untested", f"{view.name} has yet to be tested")
        return replace(
            shown, state="proven", sentence=f"{shown.sentence}; its worker {holders[0]} holds them"
        )

    def start(self, node: str, uid: str, tag: str, *, deadline: float) -> None:
        """See the port."""
        until = Deadline(deadline, self._clock)
        if self._test is None:
            return
        view = self._nodes.same(node, uid, deadline=until.left())
        body = acceptance.manifest(view, tag, self._test)
        with suppress(Conflict):
            self._api.post(paths.pods(self._test.namespace), body, deadline=until.left())

    def prove(self, node: str, uid: str, tag: str, sentence: str, *, deadline: float) -> None:
        """See the port."""

        def build(view: NodeView) -> Json | None:
            return acceptance.prove_patch(view, f"{tag}: {sentence}", self._clock.now())

        self._nodes.apply(node, uid, build, deadline=deadline)

    def clear(self, uid: str, tag: str, *, deadline: float) -> None:
        """See the port."""
        until = Deadline(deadline, self._clock)
        pod = self._pod(uid, tag, self._test, until) if self._test else None
        if pod is not None and self._test is not None:
            path = paths.pod(self._test.namespace, acceptance.pod_name(tag, uid))
            self._api.delete(path, str(pod["metadata"]["uid"]), deadline=until.left(), grace=0)

    def _pod(self, uid: str, tag: str, test: TestPod, until: Deadline) -> Json | None:
        path = paths.pod(test.namespace, acceptance.pod_name(tag, uid))
        return self._api.get(path, deadline=until.left())


class Acceptance:
    """What workflow steps may ask of the test bench: every call asks for its deadline before it leaves."""

    def __init__(self, bench: Bench, guard: Guard) -> None:
        self._bench = bench
        self._guard = guard

    def look(self, node: str, uid: str, tag: str) -> Trial:
        """Where the node's test stands."""
        return self._bench.look(node, uid, tag, deadline=self._guard.call(f"read the test of {node}"))

    def start(self, node: str, uid: str, tag: str) -> None:
        """Start the node's test, once for this tag."""
        self._bench.start(node, uid, tag, deadline=self._guard.write(f"test {node}", node=node))

    def prove(self, node: str, uid: str, tag: str, sentence: str) -> None:
        """Write the proof of a passed test onto the node."""
        deadline = self._guard.write(f"prove {node}", node=node)
        self._bench.prove(node, uid, tag, sentence, deadline=deadline)

    def clear(self, node: str, uid: str, tag: str) -> None:
        """Delete the test's pod."""
        self._bench.clear(uid, tag, deadline=self._guard.write(f"clear the test of {node}", node=node))
