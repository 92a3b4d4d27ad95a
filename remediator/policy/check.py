"""What is checked before a policy is used: fields, types, conditions on samples, ways out, contradictions."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from remediator.policy.catalogue import Catalogue
from remediator.policy.conditions import Condition, FactType, NotCel
from remediator.policy.facts import Kind
from remediator.policy.files import Merged
from remediator.policy.inference import Fitness, misfits
from remediator.policy.rule import HARMLESS, LEFT_OUT, Rule

Key = tuple[str, int | None]
Entry = TypeVar("Entry", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Book:
    """Rules with their compiled conditions, in an order in which each stands before those it goes `over`.

    `below` are all that a rule goes before, directly or by way of others; `index` has the rules that
    may speak about signals of a kind and code.
    """

    rules: Mapping[str, Rule]
    kinds: Mapping[str, Kind]
    conditions: Mapping[str, Condition]
    ranked: tuple[str, ...]
    below: Mapping[str, frozenset[str]]
    catalogue: Catalogue
    inference: Mapping[str, Fitness]
    index: Mapping[Key, Sequence[str]]


def keys(rule: Rule) -> list[Key]:
    """Kind and code of all signals a rule may speak about."""
    codes: Sequence[int | None] = rule.codes or (None,)
    return [(kind, code) for kind in rule.kinds for code in codes]


def checked(merged: Merged, catalogue: Catalogue) -> Book:
    """The policy ready for use; PolicyError names everything that is wrong with it."""
    kinds, rules = _typed(merged, "kinds", Kind), _typed(merged, "rules", Rule)
    inference = _typed(merged, "inference", Fitness)
    merged.raise_any()
    for name, kind in kinds.items():
        for index, fact, text in kind.misfits():
            merged.blame(("kinds", name, "samples", index, fact), text)
    for name, rule in rules.items():
        _check_rule(merged, name, rule, kinds)
        _check_codes(merged, name, rule, kinds, catalogue)
    merged.raise_any()
    conditions = _compiled(merged, rules, kinds)
    ranked, below = _ordered(merged, rules)
    merged.raise_any()
    fit, by_key = _fit(merged, inference, rules), _indexed(rules, ranked)
    book = Book(rules, kinds, conditions, ranked, below, catalogue, fit, by_key)
    _try(merged, book)
    merged.raise_any()
    return book


def _typed(merged: Merged, section: str, model: type[Entry]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    raw: Mapping[str, Any] = getattr(merged, section)
    for name, entry in raw.items():
        try:
            found[name] = model.model_validate(entry)
        except ValidationError as error:
            for one in error.errors(include_url=False):
                near = _meant(name, raw) if (one["type"], one["loc"]) == ("missing", ("kinds",)) else ""
                merged.blame((section, name, *one["loc"]), f"{_text(one, model)}{near}")
    return found


def _meant(name: str, entries: Iterable[str]) -> str:
    """A rule that is no whole one is most likely a change to another, its name misspelt."""
    near = difflib.get_close_matches(name, [one for one in entries if one != name], n=1)
    return f"; did you mean to change {near[0]}?" if near else ""


def _text(error: ErrorDetails, model: type[BaseModel]) -> str:
    """A validation error in one sentence, with the fields there are when it names one that is none."""
    if error["type"] != "extra_forbidden":
        return error["msg"]
    known = list(model.model_fields)
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
    return (
        f"no such field; did you mean {near[0]}?" if near else f"no such field; there are {', '.join(known)}"
    )


def _fit(merged: Merged, rows: Mapping[str, Fitness], rules: Mapping[str, Rule]) -> Mapping[str, Fitness]:
    """The rows that stand. One that allows too much is refused, or goes where an overlay changed its rule."""
    for name in rows.keys() - rules.keys() - merged.removed:
        merged.blame(("inference", name), "is no rule")
    wrong = misfits(rows, rules)
    for name, why in wrong.items():
        if name in merged.granted or name not in merged.overlaid:
            merged.blame(("inference", name), why)
    return {name: row for name, row in rows.items() if name in rules and name not in wrong}


def _check_rule(merged: Merged, name: str, rule: Rule, kinds: Mapping[str, Kind]) -> None:
    """A rule on its own: kinds that exist, a way out, names in `over` that are rules."""
    where = ("rules", name)
    for index, kind in enumerate(rule.kinds):
        known = kinds.get(kind)
        if known is None:
            merged.blame((*where, "kinds", index), f"no such kind; there are {', '.join(sorted(kinds))}")
        elif rule.acts and not known.evidence:
            text = f"{kind} is no evidence against a node: {' or '.join(sorted(HARMLESS))}"
            merged.blame((*where, "plan"), text)
    if rule.plan in LEFT_OUT and not rule.way_out:
        text = f"{rule.plan} takes a node out and nothing brings it back: way_out has to say who does"
        merged.blame((*where, "plan"), text)
    for index, other in enumerate(rule.over):
        if other not in merged.rules and other not in merged.removed:
            merged.blame((*where, "over", index), "is no rule")


def _check_codes(
    merged: Merged, name: str, rule: Rule, kinds: Mapping[str, Kind], catalogue: Catalogue
) -> None:
    """Codes of a rule against what its kinds have: none at all, or those of a catalogue."""
    where = ("rules", name)
    for kind in rule.kinds:
        table = kinds[kind].codes if kind in kinds else "any"
        if rule.codes and table == "none":
            merged.blame((*where, "codes"), f"signals of kind {kind} have no code")
        elif not rule.codes and table not in {"none", "any"}:
            merged.blame(where, f"names no codes, so it speaks about no signal of kind {kind}")
        unknown = [code for code in rule.codes if not catalogue.knows(table, code)]
        if unknown:
            merged.blame((*where, "codes"), f"{unknown[0]} has no row in policies/catalogue/{table}.csv")


def _compiled(merged: Merged, rules: Mapping[str, Rule], kinds: Mapping[str, Kind]) -> dict[str, Condition]:
    """Conditions by rule; each may only ask what all kinds of its rule know."""
    found = {}
    for name, rule in rules.items():
        if not rule.when:
            continue
        try:
            found[name] = Condition(rule.when, _shared(kinds[kind].types for kind in rule.kinds))
        except NotCel as error:
            merged.blame(("rules", name, "when"), str(error), error.line, error.column, inside=True)
    return found


def _shared(all_types: Iterable[Mapping[str, FactType]]) -> dict[str, FactType]:
    first, *others = all_types
    return {name: kind for name, kind in first.items() if all(other.get(name) == kind for other in others)}


def _ordered(merged: Merged, rules: dict[str, Rule]) -> tuple[tuple[str, ...], dict[str, frozenset[str]]]:
    """All rules, each before those it goes over, and what stands below each."""
    over = {name: [other for other in rules[name].over if other in rules] for name in reversed(rules)}
    try:
        upwards = tuple(TopologicalSorter(over).static_order())
    except CycleError as error:
        circle = error.args[1]
        merged.blame(("rules", circle[0], "over"), f"goes in a circle: {' over '.join(circle)}")
        return (), {}
    below: dict[str, frozenset[str]] = {}
    for name in upwards:
        below[name] = frozenset(over[name]).union(*(below[other] for other in over[name]))
    return upwards[::-1], below


def _indexed(rules: Mapping[str, Rule], ranked: Iterable[str]) -> Mapping[Key, Sequence[str]]:
    found: dict[Key, list[str]] = defaultdict(list)
    for name in ranked:
        for key in keys(rules[name]):
            found[key].append(name)
    return found


def _try(merged: Merged, book: Book) -> None:
    """Every condition on the sample inputs: it must hold for one, and no two rules may contradict there."""
    speak = _indexed(book.rules, book.rules)
    seen: set[str] = set()
    clashes: dict[tuple[str, str], str] = {}
    for (kind, code), names in speak.items():
        for facts in book.kinds[kind].inputs(kind, code):
            holding = [name for name in names if _holds(book, name, facts)]
            seen.update(holding)
            for pair in combinations(holding, 2):
                if _clash(book, *pair):
                    clashes.setdefault(pair, f"{kind} {'' if code is None else code}".strip())
    for name in book.conditions.keys() - seen:
        merged.blame(
            ("rules", name, "when"),
            "holds for no sample input: mend it, or add one under kinds.KIND.samples",
        )
    for (one, other), what in clashes.items():
        text = f"contradicts {one} about {what}: name one in `over` of the other, or part their conditions"
        merged.blame(("rules", other), text)


def _holds(book: Book, name: str, facts: Mapping[str, Any]) -> bool:
    condition = book.conditions.get(name)
    return condition is None or condition.holds(facts) is True


def _clash(book: Book, one: str, other: str) -> bool:
    ordered = other in book.below[one] or one in book.below[other]
    return not ordered and not book.rules[one].agrees(book.rules[other])
