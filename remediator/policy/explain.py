"""What a code, a kind or a rule is, what each vendor says about it, and what this service does. Pure."""

from __future__ import annotations

from pydantic import Field

from remediator.model.base import Ours
from remediator.model.incident import RESTART_JOB, Tier
from remediator.model.timing import Timing
from remediator.policy.catalogue import SxidRow, XidRow
from remediator.policy.decide import STRIKE, WORDS
from remediator.policy.rule import Rule
from remediator.policy.rules import BUILTIN, Rules

_VENDORS = {
    "nvidia_action": "NVIDIA",
    "gpud_action": "gpud",
    "nvsentinel_action": "NVSentinel",
    "azhpc_action": "azurehpc-health-checks",
    "dcgm_health": "DCGM health",
}
UNSAID = "nothing: policies/inference.yaml does not say otherwise"
_HARMLESS = {
    "record": "written down, nothing is done",
    "restart-job": "written down; a job that crashes within 60 s is restarted and counts against the node",
}


class RuleSays(Ours):
    """One rule that may speak about the code."""

    name: str
    place: str
    when: str
    tier: Tier
    plan: str
    timing: Timing
    page: bool
    cause: str
    does: str
    why: str
    source: str
    serves: str = ""
    """What the machine may serve meanwhile; for rules that take it out."""


class Explained(Ours):
    """Everything there is to say; an unknown code has no vendors and no rules."""

    what: str
    known: bool
    meaning: str
    vendors: dict[str, str] = Field(default_factory=dict)
    our_action: str = ""
    repeat: str = ""
    disagreement: str = ""
    source: str = ""
    rules: tuple[RuleSays, ...] = ()
    unruled: str = ""


def explain_name(rules: Rules, name: str) -> Explained | None:
    """All about a rule, or about a kind of signals, of this name; None when there is none."""
    if name in rules.rules:
        rule = rules.rules[name]
        return Explained(
            what=f"rule {name}", known=True, meaning=rule.cause, rules=(_says(rules, name, rule),)
        )
    kind = rules.kinds.get(name)
    if kind is None:
        return None
    facts = ", ".join(kind.facts) or "none of its own"
    speaking = tuple(_says(rules, one, rule) for one, rule in rules.rules.items() if name in rule.kinds)
    return Explained(
        what=name,
        known=True,
        meaning=f"a kind of signals; its facts: {facts}",
        rules=speaking,
        unruled="no rule speaks about it: recorded",
    )


def explain(rules: Rules, table: str, code: int) -> Explained:
    """All about a code of the table `xid` or `sxid`."""
    what = f"{'XID' if table == 'xid' else 'SXid'} {code}"
    row = rules.catalogue.row(table, code)
    speaking = tuple(_says(rules, name, rule) for name, rule in rules.about(table, code))
    if row is None:
        return Explained(
            what=what,
            known=False,
            meaning="is in no catalogue",
            rules=speaking,
            unruled="no rule speaks about it: recorded, and people are told once an hour",
        )
    return Explained(
        what=what,
        known=True,
        meaning=f"{row.name} ({_nature(row)})",
        vendors=_vendors(row),
        our_action=row.our_action,
        repeat=row.needs_repeat,
        disagreement=row.disagreement,
        source=rules.catalogue.sources[row.source],
        rules=speaking,
        unruled=f"no rule speaks about it: recorded ({row.why})",
    )


def _nature(row: XidRow | SxidRow) -> str:
    return f"{row.severity}; {row.origin}" if isinstance(row, XidRow) else f"gpud: {row.gpud_event}"


def _vendors(row: XidRow | SxidRow) -> dict[str, str]:
    """What each vendor does, and the table's own proposal with its reason."""
    said = {
        who: str(getattr(row, field)).replace(" ; ", "; ")
        for field, who in _VENDORS.items()
        if hasattr(row, field)
    }
    repeat = "" if row.needs_repeat == "no" else f", again: {row.needs_repeat}"
    return said | {"our table proposes": f"{row.our_action}{repeat} ({row.why})"}


def _does(rules: Rules, rule: Rule) -> str:
    if rule.plan == RESTART_JOB and not any(rules.kinds[kind].evidence for kind in rule.kinds):
        return STRIKE
    return _HARMLESS.get(rule.plan) or WORDS[rule.plan]


def _says(rules: Rules, name: str, rule: Rule) -> RuleSays:
    told = "; people are told once an hour" if rule.page else ""
    does = f"{_does(rules, rule)}{told}"
    fields = rule.model_dump(include={"when", "tier", "plan", "timing", "page", "cause", "why", "source"})
    place = rules.places[name].removeprefix(f"{BUILTIN.parent}/")
    serves = str(rules.inference.get(name, UNSAID)) if rule.acts else ""
    return RuleSays(name=name, place=place, does=does, serves=serves, **fields)
