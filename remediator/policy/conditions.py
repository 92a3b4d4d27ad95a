"""Conditions of rules in CEL; the only module that knows its library.

Typed: a fact nobody declared, a comparison of unlike types and an answer that is not true or false are
errors at compile time. What cannot be told at run time (a fact is missing) is None: unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from cel_expr_python import cel

FactType = Literal["int", "double", "bool", "string", "list", "map"]
"""Types of facts; a `list` is of strings, a `map` of strings to strings."""

_TYPES = {
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "bool": cel.Type.BOOL,
    "string": cel.Type.STRING,
    "list": cel.Type.List(cel.Type.STRING),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
}
_ERROR = re.compile(r"<input>:(?P<line>\d+):(?P<column>\d+): (?P<text>[^\n]*)")
_CONTAINER = re.compile(r" \(in container '[^']*'\)")


class NotCel(ValueError):
    """What is wrong with a condition, and at which line and column of its text, both from 1."""

    def __init__(self, problem: str, line: int = 1, column: int = 1) -> None:
        super().__init__(problem)
        self.line = line
        self.column = column


class Condition:
    """A compiled condition over facts of known types."""

    def __init__(self, text: str, facts: Mapping[str, FactType]) -> None:
        """NotCel when `text` is not a condition over these facts."""
        try:
            self._program = _environment(frozenset(facts.items())).compile(text)
        except (RuntimeError, ValueError, TypeError) as error:
            raise _explained(str(error), facts) from None
        if self._program.return_type() != cel.Type.BOOL:
            raise NotCel(f"must be true or false, but is {self._program.return_type().name().lower()}")

    def holds(self, facts: Mapping[str, Any]) -> bool | None:
        """Whether it is true of these facts; None when that cannot be told."""
        try:
            found = self._program.eval(data=facts).value()
        except (RuntimeError, ValueError, TypeError, ArithmeticError):  # a text that is no UTF-8, for one
            return None
        return found if isinstance(found, bool) else None


@cache
def _environment(facts: frozenset[tuple[str, FactType]]) -> Any:
    return cel.NewEnv(variables={name: _TYPES[kind] for name, kind in facts})


def _explained(said: str, facts: Mapping[str, FactType]) -> NotCel:
    """The library's first error in one line, with the facts there are when it names one that is none."""
    found = _ERROR.search(said)
    if found is None:
        return NotCel(said.partition("\n")[0])
    text = _CONTAINER.sub("", found["text"]).removeprefix("Syntax error: ")
    if "undeclared reference" in text:
        text += f"; the facts of its kinds are {', '.join(sorted(facts))}"
    elif "(double, int)" in text or "(int, double)" in text:
        text += "; a double is compared with a number like 78.0"
    return NotCel(text, int(found["line"]), int(found["column"]))
