"""drain-slurm: DRAIN with our reason on every Slurm node of the machine, one literal name per request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Wait, Yield
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.judged import Nodes
from remediator.workflow.ownership import is_our_drain, somebody_elses, still_drained
from remediator.workflow.remade import OUTLIVED, outlived, went_with_restart
from remediator.workflow.step import NOT_SEEN, Hurried
from slurm_bridge.model import SlurmConfig, SlurmNode
from slurm_bridge.reasons import quoted

FORGET_S = 5.0  # how long slurmctld may forget what it acknowledged, when it is killed
SAVED_S = 10.0  # by then it has surely saved it
SEEN, STOOD, THEIRS = "seen_at", "stood_on", "theirs"
KEPT = "kept"
"""Fact: the DRAIN was seen to stand after slurmctld had saved it, so only a person can have lifted it."""


class DrainSlurm(Hurried):
    """No new job may start there; running jobs go on. The engine looks again whenever a DRAIN vanishes."""

    name = "drain-slurm"
    then = "fence-node"
    bound_s = 5.0
    judges = True

    def check(self, context: Context) -> Outcome | None:
        """Done once every Slurm node has DRAIN and our reason; Hold on somebody else's.

        A DRAIN that was there and is gone was forgotten by slurmctld, went with its worker's restart, or was
        lifted by a person.
        """
        return self._judge(context, _nodes(context))

    def _judge(self, context: Context, nodes: Sequence[SlurmNode]) -> Outcome | None:
        if not context.incident.slurm_nodes:
            return Done("no Slurm worker on this node: nothing to drain")
        theirs = {node.name: node.reason for node in nodes if somebody_elses(node, context.incident)}
        if SEEN in context.row.facts:
            return self._again(context, nodes, theirs)
        before: dict[str, str] = context.row.facts.get(THEIRS, {})
        if not before.keys() <= theirs.keys():
            were = _quoted({name: why for name, why in before.items() if name not in theirs})
            return Yield(f"{were}, and somebody has resumed it: it is not drained again", "slurm")
        if self._to_drain(context, nodes):
            return None
        if theirs:
            return Hold(f"{_quoted(theirs)}: held, nothing is overwritten", facts={THEIRS: theirs})
        return self._done(context, nodes, context.slurm.config())

    def look_early(self, context: Context) -> Nodes:
        """Whose they are, which decides whether they are drained."""
        return tuple(_nodes(context))

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which nodes, and the reason they get."""
        return f"set DRAIN on {', '.join(incident.slurm_nodes)}, reason {incident.drain_reason!r}"

    def act(self, context: Context) -> Outcome | None:
        """One DRAIN per node that is nobody else's, also when another worker of the machine is. Once our
        reason is accepted slurm-operator stands aside, and the fence need not wait for the look at it.
        """
        early = context.early.take(context.now) if context.early else None
        said = self._judge(context, _nodes(context) if early is None else early)
        if said is None:
            self._write(context)
        return said

    def verify(self, context: Context) -> Outcome:
        """When slurmctld started is asked before the nodes are, so that it is never that of a later slurmctld
        than the one that shows the DRAIN. One that the poll has seen will do, once.
        """
        context.go_on()
        known = None if SEEN in context.row.facts else context.watched.slurm()
        config, seen = known or context.slurm.config(), _nodes(context)
        if all(is_our_drain(node, context.incident) for node in seen):
            return self._done(context, seen, config)
        return self._judge(context, seen) or NOT_SEEN

    def _write(self, context: Context) -> None:
        """The owner of a single node was read right before, that of more than one is read again."""
        names = list(context.incident.slurm_nodes)
        if len(names) > 1:
            names = [node.name for node in self._to_drain(context, map(context.slurm.node, names))]
        for name in names:
            context.slurm.drain(name, context.incident.drain_reason)

    def _to_drain(self, context: Context, nodes: Iterable[SlurmNode]) -> list[SlurmNode]:
        incident = context.incident
        return [n for n in nodes if not is_our_drain(n, incident) and not somebody_elses(n, incident)]

    def _done(self, context: Context, nodes: Iterable[SlurmNode], config: SlurmConfig) -> Done:
        names = list(context.incident.slurm_nodes)
        facts = {SEEN: context.now, STOOD: names, "ctld_started": config.started_at}
        facts[OUTLIVED] = outlived(context.row.facts, nodes, config.clock or context.now)
        facts[KEPT] = bool(context.row.facts.get(KEPT)) and context.row.state != "running"
        return Done(f"Slurm drains {', '.join(names)}", facts)

    def foresee(self, context: Context) -> Outcome:
        """Blocked by somebody else's reason as ever."""
        return self.check(context) or super().foresee(context)

    def _again(self, context: Context, nodes: Sequence[SlurmNode], theirs: dict[str, str]) -> Outcome | None:
        """The DRAIN was seen before. What stands stays as it is, also under a reason of the system."""
        if theirs:
            return Yield(_quoted(theirs), "slurm")
        missing = [n for n in nodes if not still_drained(n.is_drain, n.reason, context.incident.id)]
        if not missing:
            return self._done(context, nodes, context.slurm.config())
        names = [node.name for node in missing]
        moved = [name for name in names if self._moved(context, name)]
        if moved:
            left = [name for name in context.incident.slurm_nodes if name not in moved]
            return Wait(f"{', '.join(moved)} runs on another machine now", 0.0, {"workers": left})
        facts = context.row.facts
        came_later = set(names).isdisjoint(facts.get(STOOD, names))
        if came_later or self._forgotten(context) or all(went_with_restart(facts, node) for node in missing):
            return None
        return Yield(f"somebody resumed {', '.join(names)}", "slurm")

    def _moved(self, context: Context, name: str) -> bool:
        """A rollout, say, has made its pod anew: on another machine it is not ours to drain."""
        pod = context.nodes.worker(name)
        return pod is not None and pod.node not in {"", context.incident.node}

    def _forgotten(self, context: Context) -> bool:
        facts = context.row.facts
        before, now = facts["ctld_started"], context.slurm.config().started_at
        if facts.get(KEPT):
            return False
        if before is None or now is None:
            return bool(context.now - facts[SEEN] <= FORGET_S)
        return bool(before != now)


def _nodes(context: Context) -> list[SlurmNode]:
    return [context.slurm.node(name) for name in context.incident.slurm_nodes]


def _quoted(theirs: dict[str, str]) -> str:
    return ", ".join(f"{name} has somebody else's reason {quoted(reason)}" for name, reason in theirs.items())
