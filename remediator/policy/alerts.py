"""Prometheus' own rule files, as in deploy/rules: which of their alerts trust GPU utilisation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from remediator.model.base import Foreign
from remediator.policy.files import PolicyError, found_in
from remediator.settings.problems import Problem
from remediator.settings.text import NotYaml, parse, read

NEXT = "give a file of Prometheus rules, as `promtool check rules` takes it, or a PrometheusRule"
DOUBT = "trusts GPU utilisation, which is 100 % while a GPU only waits; use its tensor activity"

_UTILISATION = re.compile(
    r"\w*(?:gpu_?util|utili[sz]ation_gpu|gr_engine_active|duty_cycle)\w*", re.IGNORECASE
)
_TENSOR = re.compile(r"tensor_acti", re.IGNORECASE)
_COMMENT = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|\#[^\n]*""")


class _Rule(Foreign):
    alert: str = ""
    record: str = ""
    expr: str


class _Group(Foreign):
    rules: list[_Rule] = Field(default=[])


class _File(Foreign):
    groups: list[_Group]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A rule, its expression without comments, and where it stands."""

    rule: _Rule
    expr: str
    place: str


def warnings(paths: Iterable[Path]) -> list[str]:
    """One line for each alert of these files, or folders of them, with its place; PolicyError for what is no
    file of rules. An alert that asks for tensor activity too knows what utilisation is worth.
    """
    placed = [one for path in paths for file in found_in(path) for one in _rules(file)]
    recorded = _recorded(placed)
    return [
        f"{one.place}: {one.rule.alert}: {DOUBT} ({found})"
        for one in placed
        if one.rule.alert and not _TENSOR.search(one.expr) and (found := _trusts(one.expr, recorded))
    ]


def _rules(file: Path) -> list[_Placed]:
    try:
        data, places = parse(read(file))
        at: tuple[str, ...] = ("spec",) if isinstance(data, dict) and "spec" in data else ()
        found = _File.model_validate(data["spec"] if at else data)
    except (OSError, ValidationError, NotYaml, ValueError) as error:
        raise PolicyError([Problem("alerts", _problem(error), NEXT, str(file))]) from error
    return [
        _Placed(
            rule,
            _COMMENT.sub(lambda match: match[1] or "", rule.expr),
            f"{file}:{places[*at, 'groups', number, 'rules', index].line}",
        )
        for number, group in enumerate(found.groups)
        for index, rule in enumerate(group.rules)
    ]


def _problem(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, ValidationError):
        first: Any = error.errors(include_url=False)[0]
        return f"holds no rules: {'.'.join(map(str, first['loc']))} {first['msg']}"
    return str(error)


def _recorded(placed: Iterable[_Placed]) -> frozenset[str]:
    """Names of recording rules that pass utilisation on, by any way."""
    known: frozenset[str] = frozenset()
    while True:
        more = {
            one.rule.record
            for one in placed
            if one.rule.record and not _TENSOR.search(one.expr) and _trusts(one.expr, known)
        }
        if more <= known:
            return known
        known |= more


def _trusts(expr: str, recorded: Iterable[str]) -> str:
    """The name in the expression that is utilisation; `""` without one."""
    found = _UTILISATION.search(expr)
    if found:
        return found[0]
    return next(
        (name for name in sorted(recorded) if re.search(rf"(?<![\w:]){re.escape(name)}(?![\w:])", expr)), ""
    )
