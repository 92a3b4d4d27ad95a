"""Cases: facts in, decision and reason out; they are tried on a policy without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from remediator.model.base import Ours
from remediator.model.decision import Action, Decision, Reason
from remediator.model.incident import Tier
from remediator.model.machine import Machine, StageByTier
from remediator.model.signal import KernelEvent, Signal
from remediator.model.timing import Timing
from remediator.policy.decide import Situation, decide
from remediator.policy.files import NEXT, PolicyError, found_in
from remediator.policy.rules import Rules
from remediator.settings.problems import Problem, dotted
from remediator.settings.text import NotYaml, parse, read

FOLDER = Path(__file__).resolve().parents[2] / "policies" / "cases"
Reader = Callable[[str], KernelEvent | None]
"""Makes an event of a line of the kernel log, or says that there is none in it."""


class Given(Ours):
    """A signal, by its facts or by a line of the kernel log, and the machine it is about."""

    line: str = ""
    kind: str = ""
    code: int | None = None
    pci: str | None = "0000:01:00"
    source: Literal["agent", "webhook", "backfill", "condition", "slurm"] = "agent"
    facts: dict[str, Any] = Field(default_factory=dict)
    pool: str | None = "gpu"
    pool_size: int = 8
    node_labels: dict[str, str] = Field(default_factory=dict)
    stage: StageByTier = "full"
    fenced: bool = False


class Expected(Ours):
    """What the decision must say; what is left out may be anything."""

    action: Action | None = None
    reason: Reason | None = None
    rule: str | None = None
    plan: str | None = None
    tier: Tier | None = None
    timing: Timing | None = None
    tell: bool | None = None
    says: str | None = None
    """Words of the sentence."""


class Case(Ours):
    """One case; its name says what shall hold."""

    name: str = Field(min_length=5)
    given: Given
    expect: Expected


class _File(Ours):
    version: Literal[1]
    cases: tuple[Case, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Tried:
    """A case, where it stands, what was decided, and each field that is not as expected: (field, expected,
    found).
    """

    case: Case
    place: str
    decision: Decision
    differs: tuple[tuple[str, str, str], ...]


def load_cases(path: Path) -> list[tuple[str, Case]]:
    """The cases of a file or of a folder's files, with their places; PolicyError says what is wrong."""
    return [entry for file in found_in(path) for entry in _cases(file)]


def run(cases: list[tuple[str, Case]], rules: Rules, reader: Reader) -> Iterator[Tried]:
    """Try each case on the rules."""
    for place, case in cases:
        decision = _decided(case.given, rules, reader, place)
        yield Tried(case, place, decision, tuple(_differences(case.expect, decision)))


def _decided(given: Given, rules: Rules, reader: Reader, place: str) -> Decision:
    event = reader(given.line) if given.line else KernelEvent(kind=given.kind, xid=given.code)
    if event is None:
        raise PolicyError([Problem("line", "no event is in it", NEXT, place)])
    sxid = event.extra.get("sxid") if event.kind == "sxid" else None
    signal = Signal(
        source=given.source,
        node="gpu-0",
        boot_id="boot",
        kind=event.kind,
        code=event.xid if sxid is None else sxid,
        pci=event.pci or given.pci,
        seen_at=0.0,
        received_at=0.0,
        dedupe="case",
        detail={"extra": event.extra | given.facts},
    )
    machine = Machine(
        name="gpu-0",
        uid="case",
        boot_id="boot",
        pool=given.pool,
        pool_size=given.pool_size,
        labels=given.node_labels,
        stage=given.stage,
        fenced_by="earlier" if given.fenced else None,
    )
    return decide(signal, machine, rules, Situation(last_closed="earlier"))


def _differences(expected: Expected, decision: Decision) -> Iterator[tuple[str, str, str]]:
    for name, value in expected.model_dump(exclude_unset=True, exclude={"says"}).items():
        found = getattr(decision, name)
        if found != value:
            yield name, str(value), str(found)
    if expected.says is not None and expected.says not in decision.sentence:
        yield "says", expected.says, decision.sentence


def _cases(path: Path) -> Iterator[tuple[str, Case]]:
    try:
        data, places = parse(read(path))
        file = _File.model_validate(data)
    except ValidationError as error:
        one = error.errors(include_url=False)[0]
        where = tuple(one["loc"])
        near = next((places[where[:n]] for n in range(len(where), 0, -1) if where[:n] in places), None)
        spot = f":{near.line}:{near.column}" if near else ""
        raise PolicyError([Problem(dotted(where), one["msg"], "mend it", f"{path}{spot}")]) from error
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        raise PolicyError([Problem("cases", text, "give the path of a file or folder", str(path))]) from error
    except ValueError as error:
        line = f":{error.line}" if isinstance(error, NotYaml) and error.line else ""
        raise PolicyError([Problem("cases", str(error), "mend it", f"{path}{line}")]) from error
    for index, case in enumerate(file.cases):
        yield f"{path}:{places['cases', index].line}", case
