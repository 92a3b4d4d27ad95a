"""evict-pods: the cordon a veto had kept us from, then the eviction API, budgets and finalizers honoured."""

from __future__ import annotations

from remediator.errors import Blocked
from remediator.kube.pods import PodView, is_slurm_worker, slurm_node
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.conditions import lost_condition
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on
from remediator.workflow.step import Writing
from remediator.workflow.veto import demand_no_veto


class EvictPods(Writing):
    """The workers' budget does not protect a busy one in its first seconds: jobs are asked for again."""

    name = "evict-pods"
    bound_s = 180.0

    def check(self, context: Context) -> Outcome | None:
        """Done when only pods that belong to the node are left; Blocked by a veto, freshly read."""
        pods = evictable(context)
        if not pods:
            return Done(
                f"no pod is left on {context.incident.node}", {"proof": "pods gone from a live kubelet"}
            )
        leaving = [pod for pod in pods if pod.terminating]
        if len(leaving) == len(pods):
            return Wait("; ".join(map(_leaving, leaving)), after=1.0)
        if any(is_slurm_worker(pod) for pod in pods) and jobs_on(context):
            raise Blocked("a job is on the worker again: nothing is evicted")
        return lost_condition(context, _staying_workers(pods))

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """From which node."""
        return f"cordon {incident.node} and evict its pods"

    def act(self, context: Context) -> Outcome | None:
        """Every pod that is not leaving yet, in the version that was judged; a disruption budget is waited
        for, never passed by.
        """
        pods = evictable(context)
        context.nodes.fence(context.incident, cordon=True)
        blocked = []
        for pod in pods:
            try:
                context.nodes.evict(pod)
            except Blocked as error:
                blocked.append(str(error))
        return Wait("; ".join(blocked), after=2.0) if blocked else None

    def foresee(self, context: Context) -> Outcome:
        """Blocked by a veto as ever."""
        demand_no_veto(context)
        return super().foresee(context)

    def verify(self, context: Context) -> Outcome:
        """Evicted pods need their grace: look again soon."""
        return self.check(context) or Wait("more pods came", after=1.0)


def evictable(context: Context) -> list[PodView]:
    """Pods that no veto keeps (else Blocked) and that are not the node's own: no finished, mirror or
    DaemonSet pods. Vetoes are judged on the very list that is returned.
    """
    pods = demand_no_veto(context)
    return [pod for pod in pods if not (pod.finished or pod.mirror or pod.of_daemon_set)]


def _staying_workers(pods: list[PodView]) -> list[str]:
    """Slurm nodes whose DRAIN must stand; a worker that moved comes up elsewhere without it."""
    return [name for pod in pods if not pod.terminating and (name := slurm_node(pod)) is not None]


def _leaving(pod: PodView) -> str:
    held = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers else ""
    return f"pod {pod.key} is leaving{held}"
