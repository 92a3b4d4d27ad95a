"""Rules: loaded from YAML, checked at load, named in every decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from remediator.model.decision import Reason
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy import catalogue
from remediator.policy.check import Book, checked
from remediator.policy.facts import facts_of
from remediator.policy.files import gather
from remediator.policy.rule import Rule

BUILTIN = Path(__file__).resolve().parents[2] / "policies"


@dataclass(frozen=True, slots=True)
class Reading:
    """What the rules say of a signal: the rule that speaks, or why none does and of which it is the fault."""

    name: str = ""
    rule: Rule | None = None
    reason: Reason = "rule"
    about: tuple[str, ...] = ()


_SILENCE, _UNKNOWN = Reading(reason="no-rule"), Reading(reason="unknown-code")


class Rules:
    """All rules, where each was written, and the hash of their files, which every decision quotes."""

    def __init__(self, book: Book, digest: str, places: Mapping[str, str]) -> None:
        self._take(book, digest, places)

    def _take(self, book: Book, digest: str, places: Mapping[str, str]) -> None:
        self.rules: Mapping[str, Rule] = book.rules
        self.kinds = book.kinds
        self.catalogue = book.catalogue
        self.inference = book.inference
        self.digest = digest
        self.places = places
        self._book = book

    def adopt(self, newer: Rules) -> None:
        """Say what another policy says, to all who hold this one; done by the core, between signals."""
        self._take(newer._book, newer.digest, newer.places)

    def read(self, signal: Signal, machine: Machine | None = None) -> Reading:
        """What the rules say about the signal; what cannot be told, or is told twice, is never acted on."""
        book = self._book  # another thread may adopt a newer one meanwhile
        names = book.index.get((signal.kind, signal.code))
        if not names:
            kind = book.kinds.get(signal.kind)
            known = kind is None or book.catalogue.knows(kind.codes, signal.code)
            return _SILENCE if known else _UNKNOWN
        facts: dict[str, Any] | None = None
        said: dict[str, bool | None] = {}
        for name in names:
            condition = book.conditions.get(name)
            if condition is not None and facts is None:
                facts = facts_of(signal, machine, book.kinds[signal.kind])
            said[name] = True if condition is None else condition.holds(facts or {})
        return _weigh(book, said)

    def find(self, signal: Signal, machine: Machine | None = None) -> tuple[str, Rule] | None:
        """The rule that speaks about the signal, and its name."""
        found = self.read(signal, machine)
        return None if found.rule is None else (found.name, found.rule)

    def leads(self, signal: Signal, machine: Machine | None = None) -> bool:
        """Whether anything comes of the signal: for its machine, or for the jobs there."""
        rule = self.read(signal, machine).rule
        return rule is not None and rule.plan != "record"

    def about(self, kind: str, code: int | None) -> list[tuple[str, Rule]]:
        """All rules that may speak about signals of this kind and code, each before those it goes over."""
        return [(name, self.rules[name]) for name in self._book.index.get((kind, code), ())]


def _weigh(book: Book, said: Mapping[str, bool | None]) -> Reading:
    """The first rule whose condition holds; one that nothing orders beside it makes it doubtful."""
    holding = [name for name, holds in said.items() if holds]
    unsure = tuple(name for name, holds in said.items() if holds is None)
    if not holding:
        return Reading(reason="condition-unknown", about=unsure) if unsure else _SILENCE
    first = holding[0]
    doubts = _rivals(book, first, unsure)
    if doubts:
        return Reading(reason="condition-unknown", about=doubts)
    rivals = _rivals(book, first, holding[1:])
    if rivals:
        return Reading(reason="rules-contradict", about=(first, *rivals))
    return Reading(first, book.rules[first])


def _rivals(book: Book, first: str, others: Sequence[str]) -> tuple[str, ...]:
    """Those of `others` that want something else than `first` does and that it does not go before."""
    rule, below = book.rules[first], book.below[first]
    return tuple(name for name in others if name not in below and not rule.agrees(book.rules[name]))


def load(path: Path = BUILTIN, overlay: Path | None = None) -> Rules:
    """Read and check a policy (a file, or a folder of them) and a site's overlay of it; BadInput names the
    file, line and column of everything that is wrong.
    """
    return _builtin() if path == BUILTIN and overlay is None else _load(path, overlay)


@cache
def _builtin() -> Rules:
    return _load(BUILTIN, None)


def _load(path: Path, overlay: Path | None) -> Rules:
    merged = gather(path, overlay, None if path == BUILTIN else BUILTIN)
    book = checked(merged, catalogue.load())
    return Rules(book, merged.digest, {name: merged.place_of(name) for name in book.rules})
