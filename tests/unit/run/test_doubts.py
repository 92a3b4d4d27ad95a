"""Bad input is refused or unknown: recorded with its reason, counted by it, and never acted on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remediator.incidents.correlate import BOOT_LAG_S
from remediator.incidents.evidence import UNKNOWN_BOOT_S
from remediator.model.decision import UNKNOWN
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.observe.metrics import DOUBTS
from remediator.policy import rules
from remediator.store import signals
from tests.unit.run.deciding import Deciding

REST = "tier: T1, plan: {}, cause: some cause, why: some reason, source: some source"
CONTRADICTION = f"""\
version: 1
kinds: {{xid: {{samples: [{{code: 163, link: 17}}, {{code: 163, link: 18}}]}}}}
rules:
  one: {{kinds: [xid], codes: [163], when: link == 17 || link == 99, {REST.format("replace")}}}
  two: {{kinds: [xid], codes: [163], when: link == 18 || link == 99, {REST.format("validate")}}}
"""


@pytest.fixture(scope="module")
def contradicting(tmp_path_factory: pytest.TempPathFactory) -> rules.Rules:
    site = tmp_path_factory.mktemp("policy") / "site.yaml"
    site.write_text(CONTRADICTION)
    return rules.load(overlay=site)


@pytest.fixture
def here(tmp_path: Path, contradicting: rules.Rules) -> Deciding:
    return Deciding(tmp_path, policy=contradicting)


def heard(here: Deciding, code: int | None = 79, **fields: Any) -> None:
    at = here.clock.now()
    base: dict[str, Any] = {
        "source": "agent", "node": "gpu-0", "boot_id": "boot-gpu-0", "kind": "xid", "code": code, "pci": None,
        "seen_at": at, "received_at": at, "dedupe": f"{code}{fields}",
    }  # fmt: skip
    with here.store.write() as connection:
        signals.insert_new(connection, [Signal(**(base | fields))])


def of_no_pool(here: Deciding) -> None:
    here.add("gpu-0", pool=None)
    heard(here)


def of_an_older_boot(here: Deciding) -> None:
    heard(here, boot_id="boot-before")
    here.clock.advance(BOOT_LAG_S)


def of_the_machine_before(here: Deciding) -> None:
    made = here.clock.now() - 60
    here.add("gpu-0", created=made, alerts_from=made)
    heard(here, source="webhook", boot_id="", seen_at=here.clock.now() - 90)


def that_breaks_us(here: Deciding) -> None:
    heard(here, detail={"extra": {"sxid": 1}})
    here.machines = Raising()


class Raising(dict[str, Machine]):
    """Nodes that cannot be read."""

    def get(self, key: str, default: Any = None) -> Any:
        raise LookupError(key)


def of_one_weak_witness(here: Deciding) -> None:
    heard(here, source="webhook", detail={"witness": "dcgm-xid"})
    here.clock.advance(61)


BAD: dict[str, Callable[[Deciding], None]] = {
    "no-node": lambda here: heard(here, node="gpu"),
    "no-pool": of_no_pool,
    "unknown-code": lambda here: heard(here, 4242),
    "condition-unknown": lambda here: heard(here, 145, detail={"extra": {"unit": "RLW_REMAP"}}),
    "rules-contradict": lambda here: heard(here, 163, detail={"extra": {"link": 99}}),
    "older-boot": of_an_older_boot,
    "another-machine": of_the_machine_before,
    "one-witness": of_one_weak_witness,
    "internal-error": that_breaks_us,
}


@pytest.mark.parametrize("reason", BAD)
def test_bad_input_is_recorded_and_counted_and_does_nothing(here: Deciding, reason: str) -> None:
    BAD[reason](here)
    turn = here.turn()
    assert turn.doubts == (reason,)
    assert turn.sentences[0].endswith(f"({reason})")
    assert here.verdicts() == [(turn.sentences[0], None)]
    assert (here.incidents(), turn.calls) == ([], ())
    assert here.turn().doubts == ()


@pytest.mark.parametrize("of_node", ["", "boot-gpu-0"], ids=["no boot", "boot"])
@pytest.mark.parametrize("of_signal", ["", "boot-gpu-0", "boot-before"])
@pytest.mark.parametrize("age_s", [0.0, BOOT_LAG_S, 2 * UNKNOWN_BOOT_S])
def test_what_is_of_a_node_in_no_pool_is_recorded_as_that_whatever_boot_it_names(
    here: Deciding, of_node: str, of_signal: str, age_s: float
) -> None:
    here.add("gpu-0", pool=None, boot_id=of_node)
    heard(here, boot_id=of_signal)
    here.clock.advance(age_s)
    first = here.turn()
    here.clock.advance(BOOT_LAG_S)  # a boot that is not known yet may be by then
    assert first.doubts + here.turn().doubts == ("no-pool",)
    assert here.incidents() == []


def reasons() -> Iterator[str]:
    yield from BAD
    yield from (f"alert-{reason}" for reason in ("shape", "node", "no-node", "fault"))


def test_every_reason_is_there_before_it_is_met() -> None:
    assert sorted(DOUBTS) == sorted(reasons())
    assert set(DOUBTS) >= UNKNOWN


def test_what_is_known_is_not_counted(here: Deciding) -> None:
    heard(here, 45)
    heard(here, node="gpu-1", boot_id="boot-gpu-1")
    assert here.turn().doubts == ()
    assert [one.node for one in here.incidents()] == ["gpu-1"]
