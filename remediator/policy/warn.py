"""What is no error in a policy and still not wise. Pure."""

from __future__ import annotations

import re

from remediator.policy.rule import Rule
from remediator.policy.rules import Rules

UTILISATION = re.compile(r"(?i)gpu[_ -]?util|util(?:is|iz)ation|duty[_ -]?cycle")


def warnings(rules: Rules) -> list[str]:
    """One line each, with the place of the rule."""
    return [
        f"{rules.places[name]}: {name}: {doubt}"
        for name, rule in rules.rules.items()
        for doubt in _doubts(rule)
    ]


def _doubts(rule: Rule) -> list[str]:
    found = []
    if UTILISATION.search(f"{rule.when} {rule.cause} {' '.join(rule.kinds)}"):
        found.append("trusts GPU utilisation, which is 100 % while a GPU only waits; use its tensor activity")
    if rule.page and rule.acts:
        found.append("page does nothing here: people hear of every incident")
    return found
