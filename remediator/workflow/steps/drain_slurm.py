"""drain-slurm: DRAIN with our reason on every Slurm node of the machine, one literal name per request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

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
        if not context.incident.slurm_nodes:
            return Done("no Slurm worker on this node: nothing to drain")
        config = self._started(context)
        return self._judge(context, _nodes(context), config)

    def _started(self, context: Context) -> SlurmConfig:
        """When slurmctld started, asked before the nodes: it is never that of a later slurmctld than the one
        that shows the DRAIN. What the poll has seen will do, once.
        """
        known = None if SEEN in context.row.facts else context.watched.slurm()
        return known or context.slurm.config()

    def _judge(
        self, context: Context, nodes: Sequence[SlurmNode], config: SlurmConfig | None = None
    ) -> Outcome | None:
        """What stands without a `config` that was asked before is looked at anew."""
        theirs = self._theirs(context, nodes)
        if SEEN in context.row.facts:
            return self._again(context, nodes, config, theirs)
        before: dict[str, str] = context.row.facts.get(THEIRS, {})
        if not before.keys() <= theirs.keys():
            were = _quoted({name: why for name, why in before.items() if name not in theirs})
            return Yield(f"{were}, and somebody has resumed it: it is not drained again", "slurm")
        if self._to_drain(context, nodes):
            return None
        if theirs:
            return _held(theirs)
        return self._stands(context, nodes, config)

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
        nodes = _nodes(context) if early is None else early
        if not nodes:
            return self.check(context)
        said = self._judge(context, nodes)
        return self._write(context) if said is None else said

    def verify(self, context: Context) -> Outcome:
        """A DRAIN that was accepted and does not show is judged as one that stood: somebody may have lifted
        it while the fence was set, which takes seconds when the API server hangs.
        """
        config = self._started(context)
        context.go_on()
        seen = _nodes(context)
        done = self._done(context, seen, config)
        if all(is_our_drain(node, context.incident) for node in seen):
            return done
        stood = replace(context.row, facts=context.row.facts | done.facts)
        return self._judge(replace(context, row=stood), seen, config) or NOT_SEEN

    def _write(self, context: Context) -> Hold | None:
        """The owner of a single node was read right before, that of more than one is read again: Hold when
        one is somebody else's, and no fence goes straight on.
        """
        names, theirs = list(context.incident.slurm_nodes), {}
        if len(names) > 1:
            nodes = _nodes(context)
            names, theirs = [one.name for one in self._to_drain(context, nodes)], self._theirs(context, nodes)
        for name in names:
            context.slurm.drain(name, context.incident.drain_reason)
        return _held(theirs) if theirs else None

    def _theirs(self, context: Context, nodes: Iterable[SlurmNode]) -> dict[str, str]:
        return {node.name: node.reason for node in nodes if somebody_elses(node, context.incident)}

    def _to_drain(self, context: Context, nodes: Iterable[SlurmNode]) -> list[SlurmNode]:
        incident = context.incident
        return [n for n in nodes if not is_our_drain(n, incident) and not somebody_elses(n, incident)]

    def _stands(
        self, context: Context, nodes: Iterable[SlurmNode], config: SlurmConfig | None
    ) -> Outcome | None:
        return self._done(context, nodes, config) if config else self.check(context)

    def _done(self, context: Context, nodes: Iterable[SlurmNode], config: SlurmConfig) -> Done:
        names = list(context.incident.slurm_nodes)
        facts = {SEEN: context.now, STOOD: names, "ctld_started": config.started_at}
        facts[OUTLIVED] = outlived(context.row.facts, nodes, config.clock or context.now)
        facts[KEPT] = bool(context.row.facts.get(KEPT)) and context.row.state != "running"
        return Done(f"Slurm drains {', '.join(names)}", facts)

    def foresee(self, context: Context) -> Outcome:
        """Blocked by somebody else's reason as ever."""
        return self.check(context) or super().foresee(context)

    def _again(
        self,
        context: Context,
        nodes: Sequence[SlurmNode],
        config: SlurmConfig | None,
        theirs: dict[str, str],
    ) -> Outcome | None:
        """The DRAIN was seen before. What stands stays as it is, also under a reason of the system."""
        if theirs:
            return Yield(_quoted(theirs), "slurm")
        missing = [n for n in nodes if not still_drained(n.is_drain, n.reason, context.incident.id)]
        if not missing:
            return self._stands(context, nodes, config)
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


def _held(theirs: dict[str, str]) -> Hold:
    return Hold(f"{_quoted(theirs)}: held, nothing is overwritten", facts={THEIRS: theirs})


def _nodes(context: Context) -> list[SlurmNode]:
    return [context.slurm.node(name) for name in context.incident.slurm_nodes]


def _quoted(theirs: dict[str, str]) -> str:
    return ", ".join(f"{name} has somebody else's reason {quoted(reason)}" for name, reason in theirs.items())
