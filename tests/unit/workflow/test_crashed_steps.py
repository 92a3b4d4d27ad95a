"""No step that writes is without a crash in the middle of it."""

from __future__ import annotations

import importlib
import pkgutil
import re

import tests.crash
from remediator.workflow.step import Writing
from remediator.workflow.steps import STEPS


def crashed_after_intent() -> set[str]:
    """The steps among the parameters of tests/crash, as `step:intent`."""
    found: set[str] = set()
    for info in pkgutil.iter_modules(tests.crash.__path__, "tests.crash."):
        for value in vars(importlib.import_module(info.name)).values():
            parameters = [mark.args for mark in getattr(value, "pytestmark", ())]
            found.update(re.findall(r"([a-z-]+):intent", repr(parameters)))
    return found


def test_every_step_that_writes_is_crashed_after_its_intent() -> None:
    writing = {name for name, step in STEPS.items() if isinstance(step, Writing)}
    missing = sorted(writing - crashed_after_intent())
    assert missing == [], (
        "add their moments to tests/crash: MUTATING in test_river.py, or a suite of their own"
    )
