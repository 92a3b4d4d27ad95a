"""Policy files as they stand on the disk, merged into one: rules by name, kinds of signals by name.

A site's overlay is merged over them field by field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from remediator.model.base import Ours
from remediator.settings.problems import Path as Where
from remediator.settings.problems import Problem, SettingsError, dotted
from remediator.settings.text import NotYaml, Place, parse, read

NEXT = "mend it, or take the file of the installed version again"


class PolicyError(SettingsError):
    """Every problem found in a policy; its text has one line per problem."""


class _File(Ours):
    version: Literal[1]
    kinds: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rules: dict[str, dict[str, Any] | None] = Field(default_factory=dict, min_length=1)
    inference: dict[str, dict[str, Any] | None] = Field(default_factory=dict, min_length=1)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One file as read."""

    path: Path
    raw: bytes
    data: _File
    places: Mapping[Where, Place]

    def at(self, where: Where, line: int = 1, column: int = 1, *, inside: bool = False) -> str:
        """file:line:column of an entry, or of a place inside its text."""
        for length in range(len(where), 0, -1):
            if where[:length] in self.places:
                place = self.places[where[:length]]
                spot = self._inside(place, line, column) if inside else (place.line, place.column)
                return f"{self.path}:{spot[0]}:{spot[1]}"
        return str(self.path)

    def _inside(self, place: Place, line: int, column: int) -> tuple[int, int]:
        """Where a text's own line and column stand in the file; folded text only by its beginning."""
        lines = self.raw.decode(errors="replace").splitlines()
        if place.style == "|":
            first = lines[place.value_line] if place.value_line < len(lines) else ""
            return place.value_line + line, len(first) - len(first.lstrip()) + column
        spot = place.value_column + column - (place.style is None)
        whole = place.style != ">" and line == 1 and spot <= len(lines[place.value_line - 1]) + 1
        return place.value_line, spot if whole else place.value_column


@dataclass
class Merged:
    """All files as one: entries by name, and which file said each of them. `overlaid` are rules that an
    overlay changed, `granted` those of which it says what they serve.
    """

    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    inference: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    overlaid: dict[str, Path] = field(default_factory=dict)
    granted: set[str] = field(default_factory=set)
    sheets: list[Sheet] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _from: dict[Where, tuple[Sheet, Where]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of all bytes that were read."""
        seen = hashlib.sha256()
        for sheet in self.sheets:
            seen.update(hashlib.sha256(sheet.raw).digest())
        return seen.hexdigest()[:12]

    def file_of(self, rule: str) -> Path | None:
        """The file that a rule was first written in."""
        return self._from["rules", rule][0].path if ("rules", rule) in self._from else None

    def blame(self, where: Where, text: str, line: int = 1, column: int = 1, *, inside: bool = False) -> None:
        """Note a problem with an entry, at its place in the file it is from."""
        for length in range(len(where), 0, -1):
            if where[:length] in self._from:
                sheet, there = self._from[where[:length]]
                place = sheet.at(there + where[length:], line, column, inside=inside)
                break
        else:
            place = ", ".join(str(sheet.path) for sheet in self.sheets)
        self.problems.append(Problem(dotted(where), text, NEXT, place))

    def place_of(self, rule: str) -> str:
        """Where a rule was first written, as file:line:column."""
        sheet, where = self._from["rules", rule]
        return sheet.at(where)

    def raise_any(self) -> None:
        """PolicyError when there is a problem."""
        if self.problems:
            raise PolicyError(self.problems)

    def add(self, sheet: Sheet, *, overlay: bool = False) -> None:
        """Merge one more file; an overlay may change and remove what others have said."""
        self.sheets.append(sheet)
        self.learn(sheet)
        for name, rule in sheet.data.rules.items():
            where: Where = ("rules", name)
            twice = self.overlaid.get(name) if overlay else self.file_of(name)
            if twice is not None:
                self._refuse(sheet, where, f"stands in {twice} as well; one of them has to go")
                continue
            if overlay:
                self.overlaid[name] = sheet.path
            if rule is None:
                self._remove(sheet, name, overlay=overlay)
            else:
                self._add_rule(sheet, name, rule)
        for name, row in sheet.data.inference.items():
            self._add_fitness(sheet, name, row, overlay=overlay)

    def learn(self, sheet: Sheet) -> None:
        """Take over the kinds of a file, and not its rules: facts and samples add up over all files."""
        for name, entry in sheet.data.kinds.items():
            self._add_kind(sheet, name, entry)

    def _add_rule(self, sheet: Sheet, name: str, rule: Mapping[str, Any]) -> None:
        self._merge(sheet, self.rules, ("rules", name), rule)

    def _add_fitness(self, sheet: Sheet, name: str, row: Mapping[str, Any] | None, *, overlay: bool) -> None:
        """An overlay may forbid what was allowed, and allow what nobody has spoken of."""
        where: Where = ("inference", name)
        before = self.inference.get(name)
        if before is not None and not overlay:
            self._refuse(sheet, where, "stands in another file as well; one of them has to go")
        elif before is not None and before.get("serves") == "nothing":
            if row != before:
                self._refuse(sheet, where, "serves nothing, and no overlay changes that")
        elif row is None:
            self.inference.pop(name, None)
        else:
            self._merge(sheet, self.inference, where, row)
            self.granted |= {name} if overlay else set()

    def _merge(
        self, sheet: Sheet, section: dict[str, dict[str, Any]], where: Where, entry: Mapping[str, Any]
    ) -> None:
        """Field by field; `null` takes a field's default."""
        name = str(where[-1])
        before = section.get(name, {})
        both = {**before, **entry}
        section[name] = {key: value for key, value in both.items() if value is not None or key not in before}
        self._from.setdefault(where, (sheet, where))
        for key in entry:
            self._from[*where, key] = (sheet, (*where, key))

    def _remove(self, sheet: Sheet, name: str, *, overlay: bool) -> None:
        if not overlay:
            self._refuse(sheet, ("rules", name), "is empty; only an overlay removes a rule so")
        elif self.rules.pop(name, None) is None:
            self._refuse(sheet, ("rules", name), "is no rule, so it cannot be removed")
        self.removed.add(name)

    def _add_kind(self, sheet: Sheet, name: str, entry: Mapping[str, Any]) -> None:
        kind, where = self.kinds.setdefault(name, {}), ("kinds", name)
        self._from.setdefault(where, (sheet, where))
        for key, value in entry.items():
            before, there = kind.get(key), (*where, key)
            if isinstance(value, list) and isinstance(before, list):
                for index in range(len(value)):
                    self._from[*there, len(before) + index] = (sheet, (*there, index))
                kind[key] = before + value
            elif isinstance(value, dict) and isinstance(before, dict):
                self._from |= {(*there, fact): (sheet, (*there, fact)) for fact in value}
                for fact in value.keys() & before.keys():
                    if before[fact] != value[fact]:
                        self._refuse(sheet, (*there, fact), f"is {before[fact]} in another file")
                kind[key] = before | value
            else:
                kind[key] = value
                self._from[there] = (sheet, there)

    def _refuse(self, sheet: Sheet, where: Where, text: str) -> None:
        self.problems.append(Problem(dotted(where), text, NEXT, sheet.at(where)))


def gather(base: Path, overlay: Path | None, vocabulary: Path | None) -> Merged:
    """Files, or folders of them, as one policy; `vocabulary` only gives its kinds. PolicyError when one
    cannot be read.
    """
    merged = Merged()
    for sheet in _kept(vocabulary) if vocabulary else ():
        merged.learn(sheet)
    for file in found_in(base):
        merged.add(_sheet(file))
    for file in found_in(overlay) if overlay else ():
        merged.add(_sheet(file), overlay=True)
    return merged


@cache
def _kept(folder: Path) -> tuple[Sheet, ...]:
    """The sheets of a folder that comes with the service: nobody changes it while that runs."""
    return tuple(map(_sheet, found_in(folder)))


def found_in(path: Path) -> list[Path]:
    """The YAML files of a folder by name; hidden ones are how Kubernetes mounts a ConfigMap."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.glob("*.yaml") if not file.name.startswith("."))
    if not found:
        raise PolicyError([Problem("policy", "cannot be read: no *.yaml file is in it", NEXT, str(path))])
    return found


def _sheet(path: Path) -> Sheet:
    try:
        raw = read(path)
        data, places = parse(raw)
        return Sheet(path, raw, _File.model_validate(data), places)
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        empty = Sheet(path, raw, _File(version=1), places)
        raise PolicyError(
            [
                Problem(dotted(where) if where else "file", one["msg"], NEXT, empty.at(where))
                for one in error.errors(include_url=False)
                for where in [tuple(one["loc"])]
            ]
        ) from error
    except NotYaml as error:
        place = "".join(f":{part}" for part in (error.line, error.column) if part)
        raise _unreadable(Path(f"{path}{place}"), str(error)) from error
    except ValueError as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, text: str) -> PolicyError:
    return PolicyError([Problem("policy", text, NEXT, str(path))])
