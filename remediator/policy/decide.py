"""The one function that decides; it sees only its arguments and explains itself in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from remediator.model.decision import Decision, Reason
from remediator.model.faults import JOB_STALLED
from remediator.model.incident import VALIDATE, VALIDATE_ONLY, Tier
from remediator.model.machine import Machine, Stage
from remediator.model.signal import Signal
from remediator.model.timing import CAP_S, Timing, timing_for
from remediator.policy.rule import RulePlan
from remediator.policy.rules import Reading, Rules

WORDS = {
    "replace": "drain, fence, move its jobs and replace it",
    "move-jobs": "drain, fence and move its jobs",
    "drain-only": "drain and fence; its jobs stay",
    VALIDATE: "drain it, test it when its jobs have ended, replace it if it fails",
    VALIDATE_ONLY: "drain it, test it when its jobs have ended",
}
STRIKE = "a strike against its nodes, and the job is restarted where its pool and its owner let it"
STRIKES = "strikes"
LATER: dict[Timing, str] = {
    "now": "",
    "at-checkpoint": f"; each job moves when it has saved next, {CAP_S / 60:.0f} min from now at the latest",
    "at-job-end": "; its jobs are left to end by themselves",
}
"""What the timing adds to a plan that moves jobs."""
MOVES_JOBS = frozenset({"replace", "move-jobs"})


def room(_tier: Tier) -> str | None:
    """No budget refuses anything."""
    return None


def fresh(_rule: str, _tier: Tier, _plan: str) -> None:
    """Nothing is remembered of the machine."""


def alone(_rule: str) -> str | None:
    """The machine is in no group."""
    return None


def settled(_kind: str) -> str | None:
    """It has held for long enough."""
    return None


class Remembered(Protocol):
    """What a machine's past makes of a plan."""

    @property
    def plan(self) -> str:
        """The plan instead."""

    @property
    def why(self) -> str:
        """Half a sentence."""

    @property
    def stop(self) -> bool:
        """Whether a person has to look."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the store says: the machine's last closed incident, why budgets `refuse` to drain another node of
    its pool for evidence of some tier (None: they do not), and why a rule's fault is `grouped`, if it is: on
    many machines at once, so that only T0 drains are done. `settles` says why a kind of fault has to hold for
    longer first, if it has. `recall` says what the machine's past makes of a plan, by rule and tier.
    """

    last_closed: str | None
    refuse: Callable[[Tier], str | None] = room
    grouped: Callable[[str], str | None] = alone
    settles: Callable[[str], str | None] = settled
    recall: Callable[[str, Tier, str], Remembered | None] = fresh
    dry_run: bool = False


def decide(signal: Signal, node: Machine | None, rules: Rules, situation: Situation) -> Decision:
    """What to do about one signal. Unknown never acts."""
    if node is None:
        sentence = (
            f"{signal.node} is not an exact name in the inventory: recorded, nothing is written (no-node)"
        )
        return _record(rules, sentence, "no-node")
    if node.pool is None:
        return _record(rules, f"{node.name} is in no pool: recorded, never written (no-pool)", "no-pool")
    found = rules.read(signal, node)
    name, rule = found.name, found.rule
    if rule is None:
        return _record(rules, _unsaid(signal, found), found.reason, tell=found.reason == "unknown-code")
    if rule.plan == "record":
        return _record(rules, f"{rule.cause}: recorded ({rule.why})", "rule", name, tell=rule.page)
    if rule.plan == "restart-job":
        then = _then(signal, node, evidence=rules.kinds[signal.kind].evidence)
        sentence = f"{rule.cause}: recorded; {then} ({rule.why})"
        return _record(rules, sentence, "rule", name, tell=rule.page)
    if node.fenced_by is not None and node.fenced_by == situation.last_closed:
        sentence = f"{node.name} is already out of service by incident {node.fenced_by}"
        return _record(rules, sentence, "already-out", name)
    wanted = plan_at(rule.plan, node.stage_for(rule.tier))
    recalled = situation.recall(name, rule.tier, wanted)
    plan = recalled.plan if recalled else wanted
    timing = timing_for(rule.tier, rule.timing, node.timing)
    later = LATER[timing] if plan in MOVES_JOBS else ""
    decision = Decision(
        action="act",
        plan=plan,
        tier=rule.tier,
        timing=timing,
        rule=name,
        cause=rule.cause,
        policy=rules.digest,
        sentence=f"{rule.cause} on {node.name}: {_would(situation)}{WORDS[plan]}{later}, because {rule.why}"
        f"{_and(recalled)}",
        page=bool(recalled and recalled.stop),
    )
    limited = _limited(decision, node, situation)
    # one that is out already takes no job, and a site that says `now` waits for no other node
    if limited.action != "act" or node.fenced_by is not None or timing == "now":
        return limited
    settles = situation.settles(signal.kind)
    return _held(decision, f"{rule.cause}: {settles}", "settles") if settles else limited


def plan_at(wanted: RulePlan, stage: Stage) -> str:
    """How much of a rule's plan a stage allows; what waits for jobs to end never becomes more than that."""
    if wanted == VALIDATE:
        return VALIDATE if stage == "full" else VALIDATE_ONLY
    return stage if wanted == "replace" and stage in {"drain-only", "move-jobs"} else wanted


def _then(signal: Signal, node: Machine, *, evidence: bool) -> str:
    """What comes of a rule that only restarts jobs."""
    if signal.kind == JOB_STALLED:
        return "the restart policy of the job's pool has the word"
    if evidence:
        return (
            f"a job that crashes on {node.name} within 60 s counts against it, one that runs on is left alone"
        )
    return STRIKE


def _unsaid(signal: Signal, found: Reading) -> str:
    """Why no rule has the word."""
    names = " and ".join(found.about)
    if found.reason == "rules-contradict":
        return f"rules {names} contradict each other about {signal.what}: recorded ({found.reason})"
    if found.reason == "condition-unknown":
        return (
            f"what the condition of {names} asks about {signal.what} is not known: recorded ({found.reason})"
        )
    if found.reason == "unknown-code":
        return f"{signal.what} is in no catalogue, so nobody knows what it means: recorded ({found.reason})"
    return f"no rule speaks about {signal.what}: recorded"


def acting_rule(signal: Signal, node: Machine, rules: Rules) -> tuple[Tier, str, Timing] | None:
    """Tier, plan and timing of the rule that would do something about this signal; None without one."""
    found = rules.find(signal, node)
    if found is None or node.pool is None or not found[1].acts:
        return None
    rule = found[1]
    timing = timing_for(rule.tier, rule.timing, node.timing)
    return rule.tier, plan_at(rule.plan, node.stage_for(rule.tier)), timing


def suspect(node: Machine, why: str, rules: Rules, situation: Situation) -> Decision:
    """What to do about a machine that crashes speak against: no job is interrupted for a suspicion."""
    plan = VALIDATE if node.stage_for("T3") == "full" else VALIDATE_ONLY
    recalled = situation.recall(STRIKES, "T3", plan)
    plan = recalled.plan if recalled else plan
    decision = Decision(
        action="act",
        plan=plan,
        tier="T3",
        rule=STRIKES,
        cause=f"suspect: {why}",
        policy=rules.digest,
        reason="strikes",
        sentence=f"{node.name} is suspect, {why}: {_would(situation)}{WORDS[plan]}{_and(recalled)}",
        page=bool(recalled and recalled.stop),
    )
    return _limited(decision, node, situation)


def _and(recalled: Remembered | None) -> str:
    return f"; {recalled.why}" if recalled else ""


def _would(situation: Situation) -> str:
    return "would " if situation.dry_run else ""


def _limited(decision: Decision, node: Machine, situation: Situation) -> Decision:
    if node.stage_for(decision.tier) == "observe":
        sentence = f"{decision.cause}: pool {node.pool} only observes {decision.tier}"
        if node.of_soperator:
            sentence = (
                f"{decision.cause}: pool {node.pool} is only observed, Soperator treats its nodes itself"
            )
        return _held(decision, sentence, "observed")
    group = None if decision.tier == "T0" else situation.grouped(decision.rule)
    if group is not None:
        return _held(decision, f"{decision.cause}: {group}", "common-cause")
    refused = situation.refuse(decision.tier)
    if refused is not None:
        return _held(decision, f"{decision.cause}: {refused}", "budget")
    return decision


def _held(decision: Decision, sentence: str, reason: Reason) -> Decision:
    return decision.model_copy(update={"action": "hold", "sentence": sentence, "reason": reason})


def _record(rules: Rules, sentence: str, reason: Reason, rule: str = "", *, tell: bool = False) -> Decision:
    return Decision(
        action="record", sentence=sentence, policy=rules.digest, rule=rule, reason=reason, tell=tell
    )
