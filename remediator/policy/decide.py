"""The one function that decides; it sees only its arguments and explains itself in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remediator.model.decision import Decision
from remediator.model.incident import VALIDATE, VALIDATE_ONLY, Tier
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.rules import Rules

WORDS = {
    "replace": "drain, fence, move its jobs and replace it",
    "move-jobs": "drain, fence and move its jobs",
    "drain-only": "drain and fence; its jobs stay",
    VALIDATE: "drain it, test it when its jobs have ended, replace it if it fails",
    VALIDATE_ONLY: "drain it, test it when its jobs have ended",
}
STRIKES = "strikes"


def room(_tier: Tier) -> str | None:
    """No budget refuses anything."""
    return None


@dataclass(frozen=True, slots=True)
class Situation:
    """What the store says: the machine's last closed incident, and why budgets `refuse` to drain another
    node of its pool for evidence of some tier (None: they do not).
    """

    last_closed: str | None
    refuse: Callable[[Tier], str | None] = room
    dry_run: bool = False


def decide(signal: Signal, node: Machine | None, rules: Rules, situation: Situation) -> Decision:
    """What to do about one signal. Unknown never acts."""
    if node is None:
        return _record(
            rules, f"{signal.node} is not an exact name in the inventory: recorded, nothing is written"
        )
    if node.pool is None:
        return _record(rules, f"{node.name} is in no pool: recorded, never written")
    found = rules.find(signal)
    if found is None:
        return _record(rules, f"no rule speaks about {signal.what}: recorded")
    name, rule = found
    if rule.plan == "record":
        return _record(rules, f"{rule.cause}: recorded ({rule.why})", name)
    if rule.plan == "restart-job":
        then = (
            f"a job that crashes on {node.name} within 60 s counts against it, one that runs on is left alone"
        )
        return _record(rules, f"{rule.cause}: recorded; {then} ({rule.why})", name)
    if node.fenced_by is not None and node.fenced_by == situation.last_closed:
        return _record(rules, f"{node.name} is already out of service by incident {node.fenced_by}", name)
    stage = node.stage_for(rule.tier)
    plan = stage if stage in {"drain-only", "move-jobs"} else rule.plan
    decision = Decision(
        action="act",
        plan=plan,
        tier=rule.tier,
        rule=name,
        cause=rule.cause,
        policy=rules.digest,
        sentence=f"{rule.cause} on {node.name}: {_would(situation)}{WORDS[plan]}, because {rule.why}",
    )
    return _limited(decision, node, situation)


def suspect(node: Machine, why: str, rules: Rules, situation: Situation) -> Decision:
    """What to do about a machine that crashes speak against: no job is interrupted for a suspicion."""
    plan = VALIDATE if node.stage_for("T3") == "full" else VALIDATE_ONLY
    decision = Decision(
        action="act",
        plan=plan,
        tier="T3",
        rule=STRIKES,
        cause=f"suspect: {why}",
        policy=rules.digest,
        sentence=f"{node.name} is suspect, {why}: {_would(situation)}{WORDS[plan]}",
    )
    return _limited(decision, node, situation)


def _would(situation: Situation) -> str:
    return "would " if situation.dry_run else ""


def _limited(decision: Decision, node: Machine, situation: Situation) -> Decision:
    if node.stage_for(decision.tier) == "observe":
        sentence = f"{decision.cause}: pool {node.pool} only observes {decision.tier}"
        if node.of_soperator:
            sentence = (
                f"{decision.cause}: pool {node.pool} is only observed, Soperator treats its nodes itself"
            )
        return decision.model_copy(update={"action": "hold", "sentence": sentence})
    refused = situation.refuse(decision.tier)
    if refused is not None:
        return decision.model_copy(update={"action": "hold", "sentence": f"{decision.cause}: {refused}"})
    return decision


def _record(rules: Rules, sentence: str, rule: str = "") -> Decision:
    return Decision(action="record", sentence=sentence, policy=rules.digest, rule=rule)
