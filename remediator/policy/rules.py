"""Rules: loaded from YAML, checked at load, named in every decision."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from remediator.errors import BadInput
from remediator.model.base import Ours
from remediator.model.incident import Tier
from remediator.model.signal import Signal
from remediator.settings.text import NotYaml, parse, read

BUILTIN = Path(__file__).resolve().parents[2] / "policies" / "xid.yaml"
NEXT = "mend it, or take the file of the installed version again"


class Rule(Ours):
    """One row of policy; `when` compares fields of the event's `extra` for equality. A rule without codes
    speaks about events that have none.
    """

    kinds: tuple[str, ...] = Field(min_length=1)
    codes: tuple[int, ...] = Field(default=(), min_length=1)
    when: dict[str, int | str | bool] = Field(default_factory=dict)
    tier: Tier
    plan: Literal["replace", "restart-job", "record"]
    cause: str = Field(min_length=3, max_length=120)
    why: str = Field(min_length=3)

    def matches(self, signal: Signal) -> bool:
        """True when this rule speaks about the signal."""
        extra = signal.detail.get("extra") or {}
        return (
            signal.kind in self.kinds
            and (signal.code in self.codes if self.codes else signal.code is None)
            and all(extra.get(name) == value for name, value in self.when.items())
        )


class _File(Ours):
    version: Literal[1]
    rules: dict[str, Rule] = Field(min_length=1)


class Rules:
    """All rules of a file and the hash of its bytes, which every decision quotes."""

    def __init__(self, rules: dict[str, Rule], digest: str) -> None:
        self.rules = rules
        self.digest = digest

    def find(self, signal: Signal) -> tuple[str, Rule] | None:
        """The first rule that speaks about the signal, in the file's order."""
        for name, rule in self.rules.items():
            if rule.matches(signal):
                return name, rule
        return None


def load(path: Path = BUILTIN) -> Rules:
    """Read and check a policy file; BadInput names the file and the field."""
    try:
        raw = read(path)
        file = _File.model_validate(parse(raw)[0])
    except OSError as error:
        raise BadInput(str(path), f"cannot be read: {error.strerror}; {NEXT}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise BadInput(f"{path}: {where}", f"{first['msg']}; {NEXT}") from error
    except ValueError as error:
        line = f":{error.line}" if isinstance(error, NotYaml) and error.line else ""
        raise BadInput(f"{path}{line}", f"{error}; {NEXT}") from error
    return Rules(file.rules, hashlib.sha256(raw).hexdigest()[:12])
