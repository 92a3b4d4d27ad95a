"""Which faults leave a machine fit for inference: rows by rule, checked that no grave one is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from remediator.model.base import Ours
from remediator.policy.rule import Codes, Rule

NOTHING = "nothing"
WORDS = {
    NOTHING: NOTHING,
    "single-gpu": "pods with one GPU",
    "single-node": "what needs one node",
    "anything": "anything",
}


class Fitness(Ours):
    """What a machine with this fault may serve, and what has to be shown `once` before it does. XIDs in
    `codes` of a row that serves nothing serve nothing, whatever rule speaks about them.
    """

    serves: Literal["nothing", "single-gpu", "single-node", "anything"]
    codes: Codes = ()
    once: str = Field(default="", max_length=200)
    why: str = Field(min_length=3)
    source: str = Field(min_length=3)

    def __str__(self) -> str:
        once = f", once {self.once}" if self.once else ""
        return f"{WORDS[self.serves]}{once}: {self.why}"


def misfits(rows: Mapping[str, Fitness], rules: Mapping[str, Rule]) -> dict[str, str]:
    """Rows that may not stand as they are, and why: nothing final serves, nor a code that never does."""
    never = {code: name for name, row in rows.items() if row.serves == NOTHING for code in row.codes}
    found = {name: _misfit(row, rules[name], never) for name, row in rows.items() if name in rules}
    return {name: why for name, why in found.items() if why}


def _misfit(row: Fitness, rule: Rule, never: Mapping[int, str]) -> str:
    if row.serves == NOTHING:
        return ""
    if row.codes:
        return "only a row that serves nothing has codes"
    if rule.tier == "T0":
        return "its rule is final (T0), so it serves nothing"
    if not rule.acts:
        return f"its rule takes no node out ({rule.plan}), so there is nothing to allow"
    taken = [code for code in rule.codes if code in never and "xid" in rule.kinds]
    return f"XID {taken[0]} serves nothing, by {never[taken[0]]}" if taken else ""
