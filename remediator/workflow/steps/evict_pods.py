"""evict-pods: the cordon a veto had kept us from, then the eviction API, budgets and finalizers honoured."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.errors import Blocked, Retry
from remediator.kube.errors import Conflict
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, is_slurm_worker, slurm_node
from remediator.model.incident import Incident
from remediator.model.plan import Again, Done, Hold, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.conditions import lost_condition
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on
from remediator.workflow.ownership import still_drained
from remediator.workflow.step import Writing
from remediator.workflow.veto import demand_no_veto

BUDGET_S = 5.0  # at least, between two tries at a pod that a disruption budget keeps
PATIENCE_S = 120.0  # how long a budget is waited for before people are asked
HELD_S = 30.0
LATE_S = 60.0  # how much longer than its grace an evicted pod may take
EVICTED = "evicted_workers"


class EvictPods(Writing):
    """The workers' budget does not protect a busy one in its first seconds: jobs are asked for again."""

    name = "evict-pods"
    bound_s = 180.0

    def check(self, context: Context) -> Outcome | None:
        """Done when only pods that belong to the node are left; Blocked by a veto, freshly read."""
        node = context.nodes.node(context.incident.node)
        if node is None:
            return _of_a_machine_that_is_gone(context)
        pods = evictable(context)
        if not pods:
            return Done(f"no pod is left on {context.incident.node}", {"proof": _proof(node)})
        if all(pod.terminating for pod in pods):
            return _while_leaving(context, node, pods)
        back = _back(context, pods)
        if back:
            return lost_condition(context, ()) or _held_back(context, back)
        if any(is_slurm_worker(pod) for pod in pods) and jobs_on(context):
            raise Blocked("a job is on the worker again: nothing is evicted")
        return lost_condition(context, _staying_workers(pods))

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """From which node."""
        return f"cordon {incident.node} and evict its pods"

    def act(self, context: Context) -> Outcome | None:
        """Every pod that is not leaving yet, in the version that was judged; a disruption budget is waited
        for, never passed by. A worker that came back onto the machine is drained again instead.
        """
        seen = demand_no_veto(context)
        pods = [pod for pod in seen.pods if _counts(pod)]
        back = _back(context, pods)
        if back:
            for name in back:
                context.slurm.drain(name, context.incident.drain_reason)
            return None
        context.nodes.fence(context.incident, seen.node, cordon=True)
        blocked: list[str] = []
        later: list[Retry] = []
        for pod in pods:
            try:
                context.nodes.evict(pod)
            except Blocked as error:
                blocked.append(str(error))
            except Conflict as error:
                later.append(error)
            except Retry as error:  # the server is throttling: the other pods have to wait as well
                later.append(error)
                break
        return _after_refusals(context, blocked, later) or _evicted(pods)

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
    return [pod for pod in demand_no_veto(context).pods if _counts(pod)]


def _counts(pod: PodView) -> bool:
    return not (pod.finished or pod.mirror or pod.of_daemon_set)


def _staying_workers(pods: list[PodView]) -> list[str]:
    """Slurm nodes whose DRAIN must stand; a worker that moved comes up elsewhere without it."""
    return [name for pod in pods if not pod.terminating and (name := slurm_node(pod)) is not None]


def _evicted(pods: Sequence[PodView]) -> Outcome | None:
    """Which workers left, so that one that comes back onto the machine is known."""
    left = {name: pod.uid for pod in pods if (name := slurm_node(pod)) is not None}
    return Wait(f"{', '.join(sorted(left))} is evicted", after=0.2, facts={EVICTED: left}) if left else None


def _back(context: Context, pods: Sequence[PodView]) -> list[str]:
    """Workers that we evicted and that run on this very machine again."""
    left: dict[str, str] = context.row.facts.get(EVICTED, {})
    found = {slurm_node(pod): pod.uid for pod in pods if not pod.terminating}
    return sorted(name for name, uid in found.items() if name in left and left[name] != uid)


def _held_back(context: Context, names: Sequence[str]) -> Hold | None:
    """None while one of them may take jobs: the operator sets a worker of DaemonSet mode IDLE."""
    seen = [context.slurm.node(name) for name in names]
    if not all(still_drained(node.is_drain, node.reason, context.incident.id) for node in seen):
        return None
    return Hold(
        f"worker {', '.join(names)} came back onto {context.incident.node} after its eviction: its pod "
        f"tolerates the taints that keep workers off"
    )


def _after_refusals(context: Context, blocked: Sequence[str], later: Sequence[Retry]) -> Outcome | None:
    pause = max((error.after for error in later), default=0.0)
    if blocked:
        said = "; ".join(blocked)
        waited = context.now - (context.row.started_at or context.now)
        if waited >= PATIENCE_S:
            return Hold(said, after=max(HELD_S, pause))
        return Again(said, after=max(BUDGET_S, pause))
    if later:
        raise max(later, key=lambda error: error.after)
    return None


def _of_a_machine_that_is_gone(context: Context) -> Outcome:
    """Kubernetes itself removes the pods of a deleted Node."""
    name = context.incident.node
    left = [pod for pod in context.nodes.pods_on(name) if _counts(pod)]
    if not left:
        return Done(f"{name} is gone, and no pod of it is left", {"proof": "the node object is gone"})
    return _while_leaving(context, None, left)


def _while_leaving(context: Context, node: NodeView | None, pods: Sequence[PodView]) -> Outcome:
    """Evicted pods on their way out; those that cannot go by themselves are told to people, never forced."""
    late = [pod for pod in pods if pod.overdue(context.now) >= LATE_S]
    stuck = next((pod for pod in late if pod.finalizers), None)
    if stuck:
        held_by = ", ".join(stuck.finalizers)
        return Hold(f"pod {stuck.key} is kept by finalizer {held_by}: its owner has to let it go")
    if late and node is not None and node.ready is not True:
        return Hold(
            f"the kubelet of {node.name} is silent and may still run pod {late[0].key}: power the machine "
            f"off and delete its Node object, or bring it back"
        )
    return Wait("; ".join(map(_leaving, pods)), after=1.0)


def _proof(node: NodeView) -> str:
    return "pods gone from a live kubelet" if node.ready is True else "none: the kubelet is silent"


def _leaving(pod: PodView) -> str:
    held = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers else ""
    return f"pod {pod.key} is leaving{held}"
