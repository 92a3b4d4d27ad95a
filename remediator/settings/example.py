"""A complete, commented settings file made from the settings types."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from remediator.settings.tree import Settings

WIDTH = 100
HEAD = """\
# Settings of remediator. Every setting may be given by a variable instead:
# REMEDIATOR_SLURM__URL=http://slurm-restapi.slurm:6820 sets slurm.url.
# Secrets are never written here, only the paths of the files that hold them.
"""


def example() -> str:
    """The example as YAML text; it is itself a valid settings file."""
    return HEAD + "\n".join(_section(Settings, None, "")) + "\n"


def _section(model: type[BaseModel], present: BaseModel | None, indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if not indent:
            yield ""
        yield from _comment(field.description or "", indent)
        yield from _entry(name, field, _value(field, present, name), indent)


def _comment(text: str, indent: str) -> Iterator[str]:
    start = f"{indent}# "
    yield from textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=start)


def _entry(name: str, field: FieldInfo, value: Any, indent: str) -> Iterator[str]:
    kind = field.annotation
    if _is_section(kind):
        yield f"{indent}{name}:"
        yield from _section(kind, value, indent + "  ")
    elif get_origin(kind) is dict and _is_section(below := get_args(kind)[1]):
        yield f"{indent}{name}:"
        for key in value:
            yield f"{indent}  {key}:"
            yield from _section(below, None, indent + "    ")
    else:
        yield f"{indent}{name}: {json.dumps(to_jsonable_python(value))}"


def _is_section(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _value(field: FieldInfo, present: BaseModel | None, name: str) -> Any:
    if present is not None:
        return getattr(present, name)
    if field.is_required():
        return field.examples[0] if field.examples else None
    return field.get_default()
