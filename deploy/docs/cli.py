"""The reference page of the command line, from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from deploy.docs.table import code, head, table
from remediator.cli.main import app

SENTENCES = (
    "They run where the store is: in the controller's pod (`kubectl exec`). Most take `--settings FILE`,",
    "else the variable `REMEDIATOR_SETTINGS`, else `/etc/remediator/settings.yaml`. What cannot be done for",
    "want of a setting, a store or an argument is lines `error: …` on standard error and exit status 2; a",
    "command the service refuses is a line that says why, and exit status 1.",
)


EVERYWHERE = "settings"
"""The option that the head of the page tells of."""


def page() -> str:
    """The whole page."""
    root = get_command(app)
    context: Any = root.make_context("remediator", [], resilient_parsing=True)
    return "\n".join([*head("Command line", *SENTENCES), *_below(root, context)]) + "\n"


def _below(group: Any, context: Any) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from _below(command, inner)
        else:
            yield from _command(command, inner)


def _command(command: Any, context: Any) -> Iterator[str]:
    words = " ".join(piece for piece in command.collect_usage_pieces(context))
    yield f"\n## {context.command_path}\n{command.help}\n\n```\n{context.command_path} {words}\n```"
    options = [one for one in command.params if one.param_type_name == "option" and one.name != EVERYWHERE]
    if options:
        yield from table(("option", "default", "meaning"), map(_option, options))


def _option(option: Any) -> tuple[str, str, str]:
    told = option.show_default if isinstance(option.show_default, str) else code(str(option.default))
    default = "" if option.is_bool_flag else told
    return ", ".join(map(code, option.opts)), default, option.help or ""
