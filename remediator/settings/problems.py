"""What is wrong with a setting, in one line: where, what, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from remediator.errors import BadInput

Path = tuple[str | int, ...]

NUMBERS = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}
EXAMPLE = "`remediator config example` shows every setting"


@dataclass(frozen=True)
class Problem:
    """One wrong setting: its dotted path, what is wrong with it, what to do, and where it stands."""

    path: str
    text: str
    advice: str
    place: str = ""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.path}: {self.text}; {self.advice}"


class SettingsError(BadInput):
    """Every problem found in the settings; its text has one line per problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(first.path, first.text)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def dotted(path: Path) -> str:
    """A path as people write it; the root is called `settings`."""
    return ".".join(str(part) for part in path) or "settings"


def section_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The section type that stands at `path` below `model`, None when it is not a section."""
    here: Any = model
    for part in path:
        if get_origin(here) is dict:
            here = get_args(here)[1]
        elif isinstance(here, type) and issubclass(here, BaseModel) and part in here.model_fields:
            here = here.model_fields[str(part)].annotation
        else:
            return None
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def explain(model: type[BaseModel], error: ErrorDetails, place: str) -> Problem:
    """A validation error of pydantic as a Problem; values are repeated only where they cannot be secrets."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    kind = error["type"]
    if kind == "extra_forbidden":
        return _unknown(model, path, place)
    if kind == "missing":
        return Problem(dotted(path), "is required", f"add it: {_doc(model, path)}", place)
    if kind == "value_error":
        return Problem(dotted(path), str(error["ctx"]["error"]), f"it means: {_doc(model, path)}", place)
    return Problem(dotted(path), _text(error), _advice(model, error, path), place)


def _unknown(model: type[BaseModel], path: Path, place: str) -> Problem:
    section = section_at(model, path[:-1])
    known = list(section.model_fields) if section else []
    near = difflib.get_close_matches(str(path[-1]), known, n=1)
    advice = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
    return Problem(dotted(path), "no such setting", advice, place)


def _doc(model: type[BaseModel], path: Path) -> str:
    section = section_at(model, path[:-1])
    field = section.model_fields.get(str(path[-1])) if section else None
    return (field.description if field else None) or EXAMPLE


def _text(error: ErrorDetails) -> str:
    text = error["msg"].replace("Input should", "should", 1)
    kind, found = error["type"], error["input"]
    if kind == "string_pattern_mismatch":
        return f"must have the form {error['ctx']['pattern']}"
    if kind == "too_short":
        return "must not be empty"
    if kind == "model_type":
        return f"should be a section of settings, found {_kind_of(found)}"
    if kind in NUMBERS or kind == "literal_error" or isinstance(found, bool | int | float):
        return f"{text}, found {found!r:.40}"
    return f"{text}, found {_kind_of(found)}"


def _kind_of(found: object) -> str:
    names = {str: "text", dict: "a mapping", list: "a list", bool: "true or false", type(None): "nothing"}
    return names.get(type(found), type(found).__name__)


def _advice(model: type[BaseModel], error: ErrorDetails, path: Path) -> str:
    found = error["input"]
    if error["type"] == "string_type" and isinstance(found, bool | int | float):
        return f'put it in quotes: "{str(found).lower()}"'
    return f"it means: {_doc(model, path)}"
