"""What Prometheus is asked about a port, a link or memory, and what its samples make of an alert."""

from __future__ import annotations

import pytest

from remediator.incidents.evidence import judge, witness_of
from remediator.model.faults import COUNTED
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.signals.answers import to_signal
from remediator.signals.fabric import QUESTIONS
from remediator.signals.inquiry import Inquiry
from remediator.signals.samples import Answer
from tests.fakes.fabric import AGENT, EVERY, PORT, SAMPLES, SPELLINGS, Spelled, labels_of, raw_labels, samples
from tests.fakes.prometheus import FakePrometheus

NOW = 1_000_200.0
BOOT = "boot-gpu-0"
CASES = [(fault, witness, one) for (fault, witness), spelled in SPELLINGS.items() for one in spelled]
IDS = [f"{witness}: {one[0]}: {fault}" for fault, witness, one in CASES]


class World:
    """A Prometheus that has read one node for eighty minutes, and that node."""

    def __init__(self, fault: str, witness: str) -> None:
        self.fault, self.witness = fault, witness
        self.prometheus = FakePrometheus()
        self.machine = Machine(name="gpu-0", uid="u", boot_id=BOOT, pool="training")
        self.labels: dict[str, str] = {}

    def reads(self, one: Spelled, *, well: bool = False, newest: float = NOW - 5, **others: str) -> None:
        metric, extra, goes = one
        told = samples(goes, newest + 5, well=well)
        self.labels = labels_of(self.fault, self.witness, extra)
        self.prometheus.put(metric, raw_labels(self.fault, self.witness, extra) | others, told)
        if goes == "slow" and self.witness == "own-counters":
            best = "remediator_ib_best_rate_bytes_per_second"
            self.prometheus.put(best, AGENT | PORT, [(at, 50e9) for at, _ in told])

    def boots(self, boot: str = BOOT, *, first: int = 0, newest: float = NOW - 5) -> None:
        times = [newest - EVERY * (SAMPLES - 1 - n) for n in range(first, SAMPLES)]
        about = AGENT | {"node": "gpu-0", "boot_id": boot}
        self.prometheus.put("remediator_agent_info", about, [(at, 1.0) for at in times])

    def answer(self, **labels: str) -> Answer:
        return Inquiry(self.prometheus, NOW).recount(
            self.fault, self.witness, self.labels | labels, self.machine
        )

    def told(self, **labels: str) -> str:
        answer = self.answer(**labels)
        return answer.reason or answer.outcome


def test_every_spelling_is_known() -> None:
    assert {fault for fault, _ in SPELLINGS} == COUNTED
    assert set(SPELLINGS) == {(fault, witness) for fault, by in QUESTIONS.items() for witness in by}


@pytest.mark.parametrize(("fault", "witness", "one"), CASES, ids=IDS)
def test_what_the_samples_say_holds_has_passed_or_is_unknown(fault: str, witness: str, one: Spelled) -> None:
    world = World(fault, witness)
    world.boots()
    world.reads(one)
    assert world.told() == "holds"
    well = World(fault, witness)
    well.boots()
    well.reads(one, well=True)
    assert well.told() == "passed"
    stale = World(fault, witness)
    stale.boots()
    stale.reads(one, newest=NOW - 100)
    assert stale.told() == "stale"
    stale.prometheus.series = [one for one in stale.prometheus.series if "agent_info" in one[0]["__name__"]]
    assert stale.told() == "absent"


@pytest.mark.parametrize(("fault", "witness", "one"), CASES, ids=IDS)
def test_what_was_read_of_the_machine_before_is_nothing(fault: str, witness: str, one: Spelled) -> None:
    """The present one, of the same name and address, has been there for half a minute."""
    world = World(fault, witness)
    world.boots("boot-before")
    world.boots(first=SAMPLES - 2)
    world.reads(one)
    world.machine = world.machine.model_copy(update={"created": NOW - 30})
    assert world.told() in {"few", "short", "passed"}
    world.machine = world.machine.model_copy(update={"created": 0.0})
    assert world.told() in ({"few", "short", "passed"} if witness == "own-counters" else {"holds"})


DOWNED: Spelled = ("remediator_ib_link_downed_total", {}, "rises")


@pytest.fixture
def world() -> World:
    found = World("ib-flapping", "own-counters")
    found.reads(DOWNED)
    return found


def test_an_agent_that_is_not_of_the_present_boot_says_nothing(world: World) -> None:
    world.boots("boot-before")
    assert world.told() == "boot"
    world.boots(newest=NOW - 100)
    assert world.told() == "boot"
    world.boots()
    assert world.told() == "holds"
    world.machine = world.machine.model_copy(update={"boot_id": ""})
    assert world.told() == "boot"


def test_a_port_beside_it_and_its_address_on_another_node_say_nothing(world: World) -> None:
    world.boots()
    assert world.told(port="2") == "absent"
    assert world.told(instance="10.0.0.2:9465") == "boot"


@pytest.mark.parametrize(
    "labels",
    [
        {"device": ""}, {"port": ""}, {"instance": ""}, {"device": "mlx5_0|mlx5_1"}, {"device": ".*"},
        {"port": '1"} or vector(9) or {x="'}, {"job": "a\n"}, {"device": "x" * 300},
    ],
    ids=range(8),
)  # fmt: skip
def test_an_alert_that_names_no_port_of_one_machine_is_never_put_into_a_query(
    world: World, labels: dict[str, str]
) -> None:
    world.boots()
    assert world.told(**labels) == "identity"
    assert not any("vector" in query or ".*" in query for query in world.prometheus.asked)


@pytest.mark.parametrize("witness", ["", "dcgm-xid", "dcgm-field", "nobody"])
def test_who_does_not_measure_it_is_not_asked(world: World, witness: str) -> None:
    world.witness = witness
    assert world.told() == "identity"
    assert world.prometheus.asked == []


def test_replicas_are_one_and_a_backwards_one_is_none(world: World) -> None:
    world.boots()
    world.reads(DOWNED, prometheus_replica="b")
    answer = world.answer()
    assert (answer.outcome, answer.value) == ("holds", 9.0)
    back = [(NOW - 5 - 15 * n, 7.0 if n % 2 else 5.0) for n in range(100)]
    alone = World("ib-flapping", "own-counters")
    alone.boots()
    alone.labels = world.labels
    alone.prometheus.put(DOWNED[0], AGENT | PORT, back[::-1])
    assert alone.told() == "backwards"


def test_two_ports_stay_two_however_many_labels_their_alerts_have() -> None:
    """Two weak witnesses that agree are enough: never those of two ports."""
    told = []
    for witness, device in (("node-exporter", "mlx5_0"), ("gpud", "mlx5_1")):
        labels = {f"label_{number}": "x" * 10 for number in range(100)} | {"device": device, "port": "1"}
        alert = Signal(
            source="webhook", node="gpu-0", boot_id=BOOT, kind="ib-flapping", seen_at=NOW, received_at=NOW,
            dedupe=device, detail={"witness": witness, "labels": labels},
        )  # fmt: skip
        told.append(to_signal(alert, BOOT, Answer("holds", value=3.0), (), NOW))
    assert [witness_of(one) for one in told] == ["node-exporter", "gpud"]
    assert not judge(told[0], told[1:], BOOT, "T1", NOW).enough


def test_errors_of_one_long_burst_are_no_three_times() -> None:
    world = World("ib-link-errors", "own-counters")
    world.boots()
    world.reads(("remediator_ib_symbol_errors_total", {}, "many"), well=True)
    world.prometheus.series.pop()
    burst = [(NOW - 5 - 15 * n, 5000.0 if n < 100 else 0.0) for n in range(300)]
    world.prometheus.put("remediator_ib_symbol_errors_total", AGENT | PORT, burst[::-1])
    assert world.told() == "passed"
