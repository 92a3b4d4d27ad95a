"""Every fault that a person makes by hand says what is so now."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Callable
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from deploy.lab.inject_cli import inject

SAMPLES = {str: "1", int: "1", float: "81.5"}
COMMANDS = {
    str(command.name or command.callback.__name__): command.callback
    for command in inject.registered_commands
    if command.callback is not None
}


def arguments(callback: Callable[..., object]) -> list[str]:
    hints, given = typing.get_type_hints(callback), list(inspect.signature(callback).parameters.values())[1:]
    return [_sample(hints[one.name]) for one in given if one.default is inspect.Parameter.empty]


def _sample(kind: type) -> str:
    return str(next(iter(kind)).value) if issubclass(kind, enum.Enum) else SAMPLES[kind]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_by_hand_says_what_it_did(name: str) -> None:
    lab = MagicMock()
    found = CliRunner().invoke(inject, [name, *arguments(COMMANDS[name])], obj=lab)
    assert found.exit_code == 0, found.output
    assert lab.inject.method_calls
    assert found.output.strip()
