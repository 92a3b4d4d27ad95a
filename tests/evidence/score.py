"""What was done, beside what was really wrong: the table, the goals and the worst misses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import sqlalchemy as sa
from rich.table import Table

from remediator.model.incident import GIVE_BACK, HOLD_JOB, RESTART_JOB, Incident
from remediator.model.plan import StepRow
from remediator.policy.decide import STRIKES
from remediator.run.trace import TruthRow
from remediator.store import incidents, schema, steps
from remediator.store.engine import Store
from remediator.workflow.suspects import AFTER_FAILURE

MOST = 1_000_000
EARLY_S = 60.0
OF_JOBS = frozenset({RESTART_JOB, HOLD_JOB, GIVE_BACK})
QUIET = frozenset(
    {
        "impossible temperature", "exporter restart", "agent restart", "xid 45 alone", "unknown code",
        "cooling",
        "partition", "xid 45 storm", "GPU thermal interface or sensor: broken sensor",
    }
)  # fmt: skip
"""Labels of glitches, silence and follow-ons: nothing at all may be done about them."""


@dataclass(frozen=True)
class Act:
    """One incident in which a machine was drained, and the label it was about; None: nothing was wrong."""

    incident: Incident
    truth: TruthRow | None
    drained_at: float
    replaced: bool

    @property
    def is_test(self) -> bool:
        """It took no job from anybody: the machine was tested once its jobs had ended."""
        return self.incident.plan in AFTER_FAILURE and not self.replaced

    @property
    def right(self) -> bool:
        """The machine itself was at fault."""
        return self.truth is not None and self.truth.hardware != "well"


@dataclass
class Line:
    """A label's row in the table."""

    hardware: str
    faults: int = 0
    treated: int = 0
    right: int = 0
    wrong: int = 0
    tested: int = 0
    replaced: int = 0
    delays: list[float] = field(default_factory=list)

    @property
    def missed(self) -> int:
        """Faults of a machine about which nothing was done."""
        return self.faults - self.treated if self.hardware != "well" else 0


@dataclass(frozen=True)
class Goal:
    """What must hold, and whether it does."""

    text: str
    holds: bool
    found: str


class Score:
    """Everything that a run shows, from its store and its labels."""

    def __init__(self, store: Store, truths: Sequence[TruthRow]) -> None:
        self._by_node: dict[str, list[TruthRow]] = defaultdict(list)
        for truth in truths:
            for node in truth.nodes:
                self._by_node[node].append(truth)
        with store.read() as connection:
            self.acts = list(self._acts(connection))
            self._verdicts = _verdicts(connection)
        self.truths = truths
        self.lines = self._lines()

    def _acts(self, connection: sa.Connection) -> Iterable[Act]:
        for incident in incidents.recent(connection, MOST):
            if incident.plan in OF_JOBS:
                continue
            rows = steps.of_incident(connection, incident.id)
            drained = next((row for row in rows if row.name == "drain-slurm" and row.acted_at), None)
            if drained is not None:
                yield Act(incident, self._cause(incident), drained.acted_at or 0.0, _is_replaced(rows))

    def _cause(self, incident: Incident) -> TruthRow | None:
        """The label it is about: one of bad hardware before any other, then the latest."""
        found = [
            truth
            for truth in self._by_node[incident.node]
            if truth.at - EARLY_S <= max(incident.fault_at, incident.opened_at - EARLY_S) <= truth.until
        ]
        return max(found, key=lambda truth: (truth.hardware != "well", truth.at), default=None)

    def _lines(self) -> dict[str, Line]:
        lines: dict[str, Line] = {}
        for truth in self.truths:
            line = lines.setdefault(truth.label, Line(truth.hardware))
            line.faults += 1
            line.treated += self._is_treated(truth)
        for act in self.acts:
            label = act.truth.label if act.truth else "nothing"
            line = lines.setdefault(label, Line("well"))
            line.right += act.right
            line.wrong += not act.right and not act.is_test
            line.tested += not act.right and act.is_test
            line.replaced += act.replaced
            if act.right and act.truth:
                line.delays.append(act.drained_at - act.truth.at)
        return dict(sorted(lines.items(), key=lambda item: (_ORDER.index(item[1].hardware), -item[1].faults)))

    def _is_treated(self, truth: TruthRow) -> bool:
        """Its machine was drained for it, or was out of service already when it came."""
        return any(
            act.incident.node in truth.nodes
            and act.incident.opened_at <= truth.until
            and (act.incident.closed_at or MOST * 1e4) >= truth.at - EARLY_S
            for act in self.acts
        )

    def goals(self) -> list[Goal]:
        """The four that issue and README promise."""
        final = [line for line in self.lines.values() if line.hardware == "dead"]
        faults, treated = sum(line.faults for line in final), sum(line.treated for line in final)
        suspect = [act for act in self.acts if act.incident.tier == "T1"]
        wrong = sum(not act.right for act in suspect)
        healthy = sum(act.replaced and not act.right for act in self.acts)
        quiet = sum(  # that a job crashed there too is another matter
            act.truth is not None and act.truth.label in QUIET and act.incident.rule != STRIKES
            for act in self.acts
        )
        return [
            Goal("0 replacements of machines that were well", healthy == 0, str(healthy)),
            Goal("0 actions on glitches, silence and follow-ons", quiet == 0, str(quiet)),
            Goal("≥ 99 % of final faults acted on", treated >= 0.99 * faults, f"{treated} of {faults}"),
            Goal("≤ 1 % of the actions on a suspicion of T1 wrong", wrong <= 0.01 * len(suspect),
                 f"{wrong} of {len(suspect)}"),
        ]  # fmt: skip

    def table(self) -> Table:
        """Per label what there was and what was done."""
        table = Table(
            "what was wrong", "machine", "faults", "acted right", "acted wrong", "tested though well",
            "replaced", "missed", "median s to drain", box=None,
        )  # fmt: skip
        for label, line in self.lines.items():
            delay = f"{median(line.delays):.1f}" if line.delays else "–"
            numbers = (line.faults, line.right, line.wrong, line.tested, line.replaced, line.missed)
            table.add_row(label, line.hardware, *(str(number) for number in numbers), delay)
        return table

    def worst(self, most: int = 20) -> list[str]:
        """Wrong actions first, then faults that were missed, the final ones before the others."""
        found = [_wrong(act) for act in self.acts if not act.right and not act.is_test]
        missed = [truth for truth in self.truths if truth.hardware != "well" and not self._is_treated(truth)]
        missed.sort(key=lambda truth: _ORDER.index(truth.hardware))
        found += [f"missed: {one.label} on {one.nodes[0]}: {self._said(one)}" for one in missed]
        tested: dict[str, list[Act]] = defaultdict(list)
        for act in self.acts:
            if not act.right and act.is_test:
                tested[act.incident.rule].append(act)
        found += [f"{len(acts)} machines tested though well, {_wrong(acts[0])}" for acts in tested.values()]
        more = [f"and {len(found) - most} more"] if len(found) > most else []
        return [*found[:most], *more]

    def _said(self, truth: TruthRow) -> str:
        said = [
            sentence
            for at, sentence in self._verdicts.get(truth.nodes[0], ())
            if truth.at - EARLY_S <= at <= truth.until
        ]
        return said[0] if said else "nothing of it was seen"


_ORDER = ("dead", "degraded", "well")


def _is_replaced(rows: Iterable[StepRow]) -> bool:
    return any(row.name in {"detach-node", "evict-pods"} and row.acted_at is not None for row in rows)


def _wrong(act: Act) -> str:
    about = act.truth.label if act.truth else "nothing"
    done = "replaced" if act.replaced else "drained"
    return (
        f"wrong: {act.incident.node} {done} by rule {act.incident.rule} for {about}: {act.incident.sentence}"
    )


def _verdicts(connection: sa.Connection) -> dict[str, list[tuple[float, str]]]:
    query = sa.select(schema.signal.c.node, schema.signal.c.seen_at, schema.signal.c.verdict)
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for row in connection.execute(query.order_by(schema.signal.c.id)):
        found[row.node].append((row.seen_at, row.verdict or "not judged"))
    return found
