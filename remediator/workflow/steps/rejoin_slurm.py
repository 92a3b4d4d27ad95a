"""rejoin-slurm: the worker runs on the admitted spare and Slurm gives it jobs again."""

from __future__ import annotations

from remediator.errors import GiveUp
from remediator.kube.pods import slurm_node
from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.clocks import slurms_now
from remediator.workflow.context import Context
from remediator.workflow.holds import HELD_SINCE
from remediator.workflow.ownership import ours_or_systems
from remediator.workflow.step import Writing
from remediator.workflow.successors import (
    JOINED,
    Successor,
    stranded,
    successors,
    widen_places,
    widened_places,
)
from slurm_bridge.model import SlurmNode
from slurm_bridge.reasons import quoted

PLACED_S = 60.0  # after that people are asked why a worker finds no node
IDLE_S = 10.0  # the operator sets IDLE 4 to 6 s after the pod runs; before that a RESUME would race with it


class RejoinSlurm(Writing):
    """Slinky sets a moved worker IDLE by itself; one that came back DOWN wants a RESUME."""

    name = "rejoin-slurm"
    bound_s = 120.0

    def check(self, context: Context) -> Outcome | None:
        """Done when every worker is up on the spare; None when a DOWN or DRAIN of ours is in the way, or a
        job's place lacks a worker that has another name now.
        """
        if context.spare is None:
            return Done("no spare: nothing rejoins")
        now = successors(context, context.spare.node)
        if self._renamed(context, now):
            return None
        places: list[str] = []
        for one in now:
            found = self._one(context, one, context.spare.node)
            if not isinstance(found, str):
                return found
            places.append(found)
        return self._done(context, now, places)

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which Slurm nodes."""
        return f"keep what replaces {', '.join(incident.slurm_nodes)} for the job, resume it where it is DOWN"

    def act(self, context: Context) -> Outcome | None:
        """Widen places first; then RESUME what is DOWN or drained by us or by the system."""
        now = successors(context, context.the_spare.node)
        renamed = self._renamed(context, now)
        if renamed:
            widen_places(context, renamed)
            return Wait(f"{', '.join(renamed.values())} joined Slurm", 0.5, {JOINED: list(renamed.values())})
        for one in now:
            node = _record(context, one.name) if one.is_off(context.incident.node) else None
            stands = node is not None and (node.is_down or node.is_drain)
            if node is not None and stands and ours_or_systems(node, context.incident):
                context.slurm.resume(one.name)
        return None

    def _renamed(self, context: Context, now: list[Successor]) -> dict[str, str]:
        """Successors under another name, known to Slurm, that a job's place lacks and was not offered yet."""
        offered = set(context.row.facts.get(JOINED, ()))
        new = {one.was: one.name for one in now if one.name not in {one.was, *offered}}
        known = {was: name for was, name in new.items() if _record(context, name) is not None}
        return known if known and widened_places(context, known) else {}

    def _one(self, context: Context, one: Successor, spare: str) -> str | Outcome | None:
        """The half-sentence of a worker that takes jobs again; else what the step comes to."""
        if not one.is_off(context.incident.node):
            return self._not_placed(context, one, spare)
        node = _record(context, one.name)
        if node is None or not _is_new(context, node) or node.is_silent or node.is_powering:
            return Wait(f"slurmd of {one.name} has not registered yet", after=1.0)
        if node.is_down or node.is_drain:
            return self._in_the_way(context, node)
        stead = f" in place of {one.was}" if one.name != one.was else ""
        return f"{one.name} takes jobs again on {one.pod.node if one.pod else '?'}{stead}"

    def _not_placed(self, context: Context, one: Successor, spare: str) -> str | Outcome:
        """Workers go where there is room: two that wait at once may take each other's spare."""
        others = [slurm_node(pod) for pod in context.nodes.pods_on(spare) if not pod.finished]
        taken_by = [other for other in others if other and other not in context.incident.slurm_nodes]
        if taken_by:
            return f"{spare} runs worker {taken_by[0]} in its stead: {one.was} waits for a node"
        waited = context.now - (context.row.started_at or context.now)
        if waited < PLACED_S and HELD_SINCE not in context.row.facts:
            return Wait(f"worker {one.was} waits for a node", after=1.0)
        return Hold(f"worker {one.was} has no new node after {PLACED_S:.0f} s: {_why(one)}")

    def _in_the_way(self, context: Context, node: SlurmNode) -> Outcome | None:
        if not ours_or_systems(node, context.incident):
            return Wait(f"{node.name} carries somebody else's reason {quoted(node.reason)}", after=10.0)
        now = slurms_now(context)
        since = now - (node.slurmd_start_time or now)
        return Wait(f"{node.name} is not IDLE yet", after=1.0) if since < IDLE_S else None

    def _done(self, context: Context, now: list[Successor], places: list[str]) -> Done:
        gone = frozenset(one.was for one in now if one.name != one.was)
        waiting = stranded(context, gone) if gone else []
        said = "; ".join(places) or f"no worker was on {context.incident.node}"
        if gone:
            said += f"; the record of {', '.join(sorted(gone))} stays DOWN in Slurm"
        asks = "".join(f"; job {address} asks for it by name" for address, _ in waiting)
        return Done(said + asks, {"stranded": [list(job) for job in waiting]} if waiting else {})


def _is_new(context: Context, node: SlurmNode) -> bool:
    """Its slurmd has started since the incident was opened; both counted back by their own clocks."""
    if node.slurmd_start_time is None:
        return False
    runs_for = slurms_now(context) - node.slurmd_start_time
    return runs_for <= context.now - context.incident.opened_at


def _record(context: Context, name: str) -> SlurmNode | None:
    """The Slurm node, or None before a new one has registered."""
    try:
        return context.slurm.node(name)
    except GiveUp:
        return None


def _why(one: Successor) -> str:
    if one.pod is None:
        return "slurm-operator has made no pod for it"
    if one.pod.node:
        return f"its pod is back on {one.pod.node}, whose taints it tolerates"
    pin = f"it is pinned to {one.pod.pinned_to} (pinToNode); " if one.pod.pinned_to else ""
    return f"{pin}{one.pod.unscheduled or 'the scheduler has not said why'}"
