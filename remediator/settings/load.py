"""Read a settings file and the environment into one frozen tree, or say what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import yaml
from pydantic import ValidationError

from remediator.settings.problems import EXAMPLE, Path, Problem, SettingsError, dotted, explain
from remediator.settings.text import NotYaml, parse, read
from remediator.settings.tree import Settings

PREFIX = "REMEDIATOR_"


def load(path: FilePath, environ: Mapping[str, str]) -> Settings:
    """The file at `path` with the overrides of `environ` as settings; SettingsError names all problems."""
    data, places = _parse(path)
    for variable, (target, text) in overrides(environ).items():
        _override(data, places, variable, target, text)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        problems = [explain(Settings, one, _place(places, one["loc"], path)) for one in error.errors()]
        raise SettingsError(problems) from None


def overrides(environ: Mapping[str, str]) -> dict[str, tuple[Path, str]]:
    """The variables of `environ` that set something, with the path they set and their text.

    A name counts when it has a double underscore or is a top-level setting: Kubernetes puts variables
    such as REMEDIATOR_SERVICE_HOST into every pod beside a Service called `remediator`.
    """
    found: dict[str, tuple[Path, str]] = {}
    for variable, text in sorted(environ.items()):
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and ("__" in name or name in Settings.model_fields):
            found[variable] = (tuple(name.split("__")), text)
    return found


def _parse(path: FilePath) -> tuple[dict[str, Any], dict[Path, str]]:
    try:
        data, found = parse(read(path))
    except OSError as error:
        raise _fail(
            f"cannot be read ({error.strerror})", "give the path of a readable YAML file", str(path)
        ) from None
    except NotYaml as error:
        line = "" if error.line is None else f":{error.line}"
        raise _fail(str(error), "mend that line" if line else EXAMPLE, f"{path}{line}") from None
    except ValueError as error:
        raise _fail(str(error), EXAMPLE, str(path)) from None
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise _fail("must be a mapping of sections", EXAMPLE, str(path))
    return data, {where: f"{path}:{place.line}" for where, place in found.items()}


def _fail(text: str, advice: str, place: str) -> SettingsError:
    return SettingsError([Problem("settings", text, advice, place)])


def _override(data: dict[str, Any], places: dict[Path, str], variable: str, target: Path, text: str) -> None:
    place = f"environment {variable}"
    here = data
    for depth, part in enumerate(target[:-1], 1):
        below = here.setdefault(str(part), {})
        if not isinstance(below, dict):
            raise SettingsError(
                [Problem(dotted(target[:depth]), "is not a section", f"unset {variable}", place)]
            )
        here = below
    here[str(target[-1])] = _value(text, target, place)
    places[target] = place


def _value(text: str, target: Path, place: str) -> Any:
    if not text.startswith(("{", "[")):
        return text
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise SettingsError([Problem(dotted(target), "not valid YAML", "mend the brackets", place)]) from None


def _place(places: Mapping[Path, str], path: Path, file: FilePath) -> str:
    """Where `path` stands: its own line, else that of what is nearest above or below it, else the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    below = (place for where, place in places.items() if where[: len(path)] == path)
    return next(below, str(file))
