"""The reference page of the settings: one table a section, from the field documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeGuard, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from deploy.docs.table import code, head, table
from remediator.settings import Settings

LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
SENTENCES = (
    "`remediator config example` prints a complete file, `remediator config check FILE` says what is wrong",
    "with one. A variable overrides a setting: `REMEDIATOR_SLURM__URL` sets `slurm.url`. Secrets are never",
    "written here, only the paths of the files that hold them. `NAME` stands for a name of your own.",
)


def page() -> str:
    """The whole page."""
    return "\n".join([*head("Settings", *SENTENCES), *_section(Settings, None, "")]) + "\n"


def _section(model: type[BaseModel], present: BaseModel | None, path: str) -> Iterator[str]:
    """The table of a section's own settings, then the sections below it."""
    fields = model.model_fields.items()
    plain = [(name, field) for name, field in fields if _below(field) is None]
    if plain:
        yield from table(("setting", "default", "meaning"), (_row(present, *one) for one in plain))
    for name, field in fields:
        below = _below(field)
        if below is not None:
            where = path + name + (".NAME" if get_origin(field.annotation) is dict else "")
            yield f"\n## {where}\n{field.description}"
            value = _value(present, name, field)
            yield from _section(below, value if isinstance(value, BaseModel) else None, f"{where}.")


def _row(present: BaseModel | None, name: str, field: FieldInfo) -> tuple[str, str, str]:
    value = _value(present, name, field)
    needed = field.is_required() and present is None
    default = "required" if needed else code(json.dumps(to_jsonable_python(value)))
    return code(name), default, f"{field.description or ''}{_allowed(field)}"


def _value(present: BaseModel | None, name: str, field: FieldInfo) -> Any:
    return getattr(present, name) if present is not None else field.get_default()


def _allowed(field: FieldInfo) -> str:
    """What may be written, where the type alone says it."""
    words = _words(field.annotation)
    if words:
        return f" One of {', '.join(map(code, words))}."
    limits = [
        f"{sign} {limit}"
        for part in field.metadata
        for name, sign in LIMITS.items()
        if (limit := getattr(part, name, None)) is not None
    ]
    return f" Allowed: {', '.join(limits)}." if limits else ""


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return list(map(str, get_args(kind)))
    return [word for part in get_args(kind) for word in _words(part)]


def _below(field: FieldInfo) -> type[BaseModel] | None:
    """The type of the section (or of each of the named sections) this field is."""
    kind: Any = field.annotation
    if get_origin(kind) is dict:
        kind = get_args(kind)[1]
    return kind if _is_section(kind) else None


def _is_section(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
