"""Taking a pod off its node by the eviction API, never by force."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.clock import Clock
from remediator.errors import Ambiguous, Retry
from remediator.kube import paths
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Conflict
from remediator.kube.pods import PodView, parse_pod
from remediator.kube.session import Api


@dataclass(frozen=True)
class Removal:
    """How far a pod is gone: `pod` as read back, Terminating, or None; `wrote`: by this very call."""

    pod: PodView | None
    wrote: bool

    @property
    def gone(self) -> bool:
        """Nothing of the pod is left (another one may bear its name)."""
        return self.pod is None


class Evictor:
    """Writes with the pod's uid as precondition, reads back."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def evict(self, pod: PodView, *, deadline: float) -> Removal:
        """Evict the pod in exactly the version that was judged: a label set since is a Conflict.
        Blocked names the disruption budget; a pod that is Terminating already is only read.
        """
        until = Deadline(deadline, self._clock)
        if pod.terminating:
            return Removal(self._now(pod, until), wrote=False)
        try:
            found = self._api.post(
                paths.eviction(pod.namespace, pod.name), _eviction(pod), deadline=until.left()
            )
        except Conflict:
            now = self._now(pod, until)
            if now is not None and not now.terminating:
                raise
            return Removal(now, wrote=False)
        return Removal(None, wrote=False) if found is None else self._read_back(pod, until)

    def _now(self, pod: PodView, until: Deadline) -> PodView | None:
        raw = self._api.get(paths.pod(pod.namespace, pod.name), deadline=until.left())
        if raw is None:
            return None
        now = parse_pod(raw)
        if now is None or now.key != pod.key:
            raise Retry(f"get pod {pod.key}: the answer is not this pod")
        return now if now.uid == pod.uid else None

    def _read_back(self, pod: PodView, until: Deadline) -> Removal:
        try:
            now = self._now(pod, until)
        except Retry as error:
            raise Ambiguous(f"delete pod {pod.key}: accepted, but not read back ({error})") from error
        if now is not None and not now.terminating:
            raise Ambiguous(f"delete pod {pod.key}: accepted, but it does not show")
        return Removal(now, wrote=True)


def _eviction(pod: PodView) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid, "resourceVersion": pod.resource_version}},
    }
