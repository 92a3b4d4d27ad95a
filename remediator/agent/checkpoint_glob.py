"""The pattern under which jobs save: literal folders, then components with wildcards and placeholders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from remediator.errors import BadInput
from remediator.model.checkpoint import JobKey

_PLACEHOLDERS = {"job": "[0-9]+(?:_[0-9]+)?", "user": ".+", "jobname": ".+"}
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_SHELL = re.compile(r"\[!?[^\]]+\]|.", re.DOTALL)
_SIMPLE = {"*": ".*", "?": "."}
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class Glob:
    """`root` is opened as it is written; below it each folder must match its component of `parts`."""

    text: str
    root: Path
    parts: tuple[re.Pattern[str], ...]


def parse(text: str) -> Glob:
    """BadInput says what is wrong: it begins with a literal folder and ends with what one checkpoint is."""
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or "**" in text:
        raise BadInput("checkpoint_globs", f"{text!r} must be absolute, without .. and **")
    names = path.parts[1:]
    literal = next((at for at, name in enumerate(names) if _WILD.search(name)), len(names))
    if literal == 0 or literal == len(names):
        raise BadInput(
            "checkpoint_globs", f"{text!r} needs a plain folder first and a wildcard or {{job}} below"
        )
    root = Path("/", *names[:literal])
    return Glob(text, root, tuple(_component(text, name) for name in names[literal:]))


def merged(key: JobKey, match: re.Match[str]) -> JobKey | None:
    """The key with what this component says; None when it contradicts what an outer one said."""
    found = {name: value for name, value in match.groupdict().items() if value}
    if any(getattr(key, name) not in ("", value) for name, value in found.items()):
        return None
    return JobKey(**(key.model_dump() | found))


def _component(text: str, name: str) -> re.Pattern[str]:
    pattern, at = "", 0
    for found in _PLACEHOLDER.finditer(name):
        if found[1] not in _PLACEHOLDERS:
            raise BadInput(
                "checkpoint_globs", f"{text!r}: {{{found[1]}}} is none of {{job}}, {{user}}, {{jobname}}"
            )
        pattern += f"{_wild(name[at : found.start()])}(?P<{found[1]}>{_PLACEHOLDERS[found[1]]})"
        at = found.end()
    try:
        return re.compile(pattern + _wild(name[at:]), re.DOTALL)
    except re.error:
        raise BadInput("checkpoint_globs", f"{text!r}: {name!r} cannot be read as a pattern") from None


def _wild(text: str) -> str:
    """A shell pattern as the inside of a regular expression."""
    return _SHELL.sub(_translated, text)


def _translated(found: re.Match[str]) -> str:
    token = found[0]
    if token in _SIMPLE:
        return _SIMPLE[token]
    if len(token) == 1:
        return re.escape(token)
    negated = token[1] == "!"
    inside = token[1 + negated : -1].replace("\\", r"\\").replace("[", r"\[")
    return f"[{'^' * negated}{inside}]"
