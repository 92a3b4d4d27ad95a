"""Leadership shown as a coordination.k8s.io Lease for people; the truth is the row in the store."""

from __future__ import annotations

from remediator.clock import Clock, rfc3339
from remediator.kube import paths
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Json
from remediator.kube.read import table, text
from remediator.kube.session import Api


class LeaseMirror:
    """Writes holder and epoch into one Lease; never over a newer epoch."""

    def __init__(self, api: Api, namespace: str, name: str, *, duration: int, clock: Clock) -> None:
        self._api, self._clock, self._duration = api, clock, duration
        self._collection = paths.leases(namespace)
        self._path = paths.lease(namespace, name)
        self._name = name

    def show(self, holder: str, epoch: int, *, deadline: float) -> bool:
        """Write the present leader; False when a newer epoch is already shown. Callers may drop errors."""
        until = Deadline(deadline, self._clock)
        current = self._api.get(self._path, deadline=until.left())
        if current is None:
            self._api.post(self._collection, self._object(holder, epoch), deadline=until.left())
            return True
        spec, meta = table(current, "spec"), table(current, "metadata")
        shown = spec.get("leaseTransitions")
        if isinstance(shown, int) and shown > epoch:
            return False
        body: Json = {
            "metadata": {"resourceVersion": text(meta, "resourceVersion")},
            "spec": self._spec(holder, epoch, fresh=shown != epoch),
        }
        self._api.patch(self._path, body, deadline=until.left())
        return True

    def _object(self, holder: str, epoch: int) -> Json:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": self._spec(holder, epoch, fresh=True),
        }

    def _spec(self, holder: str, epoch: int, *, fresh: bool) -> Json:
        now = rfc3339(self._clock.now())[:-1] + "000Z"  # MicroTime wants six digits
        spec: Json = {
            "holderIdentity": holder,
            "leaseTransitions": epoch,
            "leaseDurationSeconds": self._duration,
            "renewTime": now,
        }
        return {**spec, "acquireTime": now} if fresh else spec
