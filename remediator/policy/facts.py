"""What a condition may ask about a signal: facts of known types; what does not fit its type is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from remediator.model.base import Ours
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.conditions import FactType
from remediator.policy.nvlink import nvlink4, nvlink5

COMMON: Mapping[str, FactType] = {
    "kind": "string",
    "code": "int",
    "source": "string",
    "node": "string",
    "pci": "string",
    "pool": "string",
    "pool_size": "int",
    "node_labels": "map",
    "known": "list",
}
"""Facts of every kind of signal; `pci` and `code` are missing when the signal has none, and `known` has the
names of all that are not missing.
"""


def _exit_code(_code: int | None, said: Mapping[str, Any]) -> Any:
    """The end of a job says `code`, which is no code of a catalogue."""
    return said.get("exit_code", said.get("code"))


DERIVED: Mapping[str, Callable[[int | None, Mapping[str, Any]], Any]] = {
    "exit_code": _exit_code,
    "nvlink4": nvlink4,
    "nvlink5": nvlink5,
}
"""Facts that are worked out of the code and the others; a kind that has one declares it."""

_SAMPLE: Mapping[str, Any] = {
    "source": "agent",
    "node": "gpu-0",
    "pci": "0000:01:00",
    "pool": "gpu",
    "pool_size": 8,
    "node_labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
}
_INT64 = 2**63


class Kind(Ours):
    """A kind of signal: its own facts, read from the signal's `extra` or `detail`, and sample inputs.

    `codes` names the catalogue its codes are in; `any` codes need none, a kind with `none` has no code. One
    that is no `evidence` against a node has rules that do nothing to nodes.
    """

    codes: Literal["none", "any", "xid", "sxid"] = "none"
    evidence: bool = True
    facts: dict[str, FactType] = Field(default_factory=dict)
    samples: tuple[dict[str, Any], ...] = Field(default=({},), min_length=1)

    @field_validator("facts")
    @classmethod
    def _are_new(cls, facts: dict[str, FactType]) -> dict[str, FactType]:
        taken = sorted(set(facts) & set(COMMON))
        if taken:
            raise ValueError(f"{taken[0]} is a fact of every kind")
        return facts

    @property
    def types(self) -> dict[str, FactType]:
        """All facts of the kind with their types."""
        return {**COMMON, **self.facts}

    def inputs(self, name: str, code: int | None) -> list[dict[str, Any]]:
        """The facts of its samples for one code (None: the kind has none)."""
        coded = {} if code is None else {"code": code}
        return [
            _fitting({**_SAMPLE, "kind": name, **coded, **sample}, self.types)
            for sample in self.samples
            if code is None or sample.get("code", code) == code
        ]

    def misfits(self) -> list[tuple[int, str, str]]:
        """Samples that say something of no fact or of another type: index, name, what is wrong."""
        found = []
        for index, sample in enumerate(self.samples):
            for name, value in sample.items():
                wanted = self.types.get(name)
                if wanted is None:
                    found.append((index, name, f"is no fact of this kind; they are {', '.join(self.types)}"))
                elif _FITS[wanted](value) is None:
                    found.append((index, name, f"should be of type {wanted}"))
        return found


def facts_of(signal: Signal, machine: Machine | None, kind: Kind) -> dict[str, Any]:
    """What is known of a signal and its machine, each fact of its declared type."""
    extra = signal.detail.get("extra")
    own = {**signal.detail, **extra} if isinstance(extra, Mapping) else signal.detail
    said: dict[str, Any] = {name: own.get(name) for name in kind.facts}
    said |= {name: work_out(signal.code, own) for name, work_out in DERIVED.items() if name in kind.facts}
    said |= {"kind": signal.kind, "code": signal.code, "source": signal.source, "node": signal.node}
    said["pci"] = signal.pci
    if machine is not None:
        said |= {"pool": machine.pool, "pool_size": machine.pool_size, "node_labels": machine.labels}
    return _fitting(said, kind.types)


def _fitting(said: Mapping[str, Any], types: Mapping[str, FactType]) -> dict[str, Any]:
    fits = {name: _FITS[types[name]](value) for name, value in said.items() if name in types}
    found = {name: value for name, value in fits.items() if value is not None}
    return found | {"known": list(found)}


def _integer(value: Any) -> int | None:
    return value if type(value) is int and -_INT64 <= value < _INT64 else None


def _number(value: Any) -> float | None:
    """As float; a number that is infinite, or no number, says nothing."""
    if type(value) is int and abs(value) < _INT64:
        return float(value)
    return value if type(value) is float and math.isfinite(value) else None


def _truth(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _list(value: Any) -> list[str] | None:
    whole = isinstance(value, list | tuple) and all(type(part) is str for part in value)
    return list(value) if whole else None


def _texts(value: Any) -> dict[str, str] | None:
    if not isinstance(value, Mapping):
        return None
    whole = all(type(part) is str for pair in value.items() for part in pair)
    return dict(value) if whole else None


_FITS: Mapping[FactType, Callable[[Any], Any]] = {
    "int": _integer,
    "double": _number,
    "bool": _truth,
    "string": _text,
    "list": _list,
    "map": _texts,
}
