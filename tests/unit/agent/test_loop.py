"""The loop: nothing is lost, nothing moves before it was accepted, nothing of another boot is told."""

from __future__ import annotations

import json
import os
import random
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remediator.agent.bursts import SPACING_S
from remediator.agent.loop import FIRST_OWN_SEQ, LAST_BACKOFF_S, LISTEN_S, POLL_S, Agent
from remediator.agent.outbox import MAX_EVENTS
from remediator.agent.push import HttpPusher
from remediator.agent.state import Cursor, StateDir
from remediator.clock import ManualClock
from remediator.errors import BadInput
from remediator.model.signal import KernelEvent
from remediator.observe import logs
from tests.unit.agent.helpers import BOOT, XID79, Controller, Node, fault

NEW_BOOT = "22222222-2222-2222-2222-222222222222"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def controller() -> Iterator[Controller]:
    server = Controller()
    yield server
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def _agent(node: Node, controller: Controller, clock: ManualClock, **changes: Any) -> Agent:
    settings = node.settings(controller.url, **changes)
    return Agent(settings, HttpPusher(settings), clock, logs.logger(), random.Random(1))


def _settle(agent: Agent) -> float:
    """Turns until the loop would wait; how long it would."""
    while not (seconds := agent.turn()):
        pass
    return seconds


def _value(agent: Agent, name: str, **labels: str) -> float:
    value = agent.metrics.registry.get_sample_value(name, labels)
    assert value is not None, name
    return value


def _seqs(controller: Controller) -> list[int]:
    return [event["seq"] for event in controller.events()]


def test_event_is_pushed_in_the_turn_that_reads_it(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    _settle(agent)
    node.print("usb 1-1: new device")
    node.print(XID79)
    agent.turn()
    push = controller.pushes[-1]
    assert (push["node"], push["boot_id"]) == ("gpu-0", BOOT)
    assert push["events"] == [
        {
            "seq": 2,
            "seen_at": clock.now(),
            "event": {
                "kind": "xid",
                "xid": 79,
                "pci": "0000:4e:00",
                "pid": None,
                "process": None,
                "extra": {},
                "raw": XID79,
            },
        }
    ]


def test_only_kinds_worth_a_push_are_pushed(node: Node, controller: Controller, clock: ManualClock) -> None:
    node.print("NVRM: GPU at PCI:0000:01:00: GPU-00000000-0000-0000-0000-000000000000")
    node.print("nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Severity 1 Engine instance 60")
    node.print("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.")
    agent = _agent(node, controller, clock)
    _settle(agent)
    assert [event["event"]["kind"] for event in controller.events()] == ["fallen_off_bus"]
    assert _value(agent, "remediator_agent_events_total", kind="gpu_map") == 1
    assert _value(agent, "remediator_agent_xid_total", xid="79", pci="0000:91:00") == 1


def test_line_that_goes_on_repeating_is_told_every_five_seconds_with_its_number(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    for _ in range(12_001):  # one a millisecond
        node.print(XID79)
    node.print("NVRM: GPU 0000:4e:00.0: GPU has fallen off the bus.")
    _settle(agent)
    told = [(event["seq"], event["event"]["extra"].get("burst_lines", 1)) for event in controller.events()]
    assert [seq // 1000 for seq, _ in told] == [0, 5, 10]
    assert all(seq == line for seq, line in told)
    clock.advance(SPACING_S)
    _settle(agent)
    assert [event["seq"] for event in controller.events()][3:] == [12_002]
    assert controller.events()[-1]["event"]["extra"]["burst_lines"] == 12_002
    assert _value(agent, "remediator_agent_xid_total", xid="79", pci="0000:4e:00") == 12_002
    assert _value(agent, "remediator_agent_xid_bursts_total", xid="79", pci="0000:4e:00") == 1


@pytest.mark.parametrize("pause", [0.1, SPACING_S - 0.1, SPACING_S, 2 * SPACING_S])
def test_the_last_line_of_a_burst_is_told_once_however_soon_it_came(
    node: Node, controller: Controller, clock: ManualClock, pause: float
) -> None:
    agent = _agent(node, controller, clock)
    node.print(XID79)
    _settle(agent)
    clock.advance(pause)
    node.seq += int(pause * 1000)
    node.print(XID79)
    for _ in range(4):
        _settle(agent)
        clock.advance(SPACING_S)
    told = [event["event"] for event in controller.events() if event["event"]["kind"] == "xid"]
    assert [event["extra"].get("burst_lines", 1) for event in told] == [1, 2]


def test_a_line_held_back_is_not_lost_when_the_agent_ends(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    for _ in range(2):
        node.print(XID79)
        _settle(agent)
    agent.close()
    _settle(_agent(node, controller, clock))
    assert _seqs(controller) == [1, 2]


def test_lines_without_a_time_are_told_when_they_come(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    for number in range(1, 4):
        with node.log.open("ab") as file:
            file.write(f"3,{number},0,-;{XID79}\n".encode())
        _settle(agent)
        clock.advance(6)
    assert _seqs(controller) == [1, 2, 3]


def test_same_line_after_a_reboot_is_no_repetition(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    node.print(XID79)
    _settle(agent)
    node.boot.write_text(NEW_BOOT)
    node.seq = 0
    node.log.unlink()
    node.print(XID79)
    _settle(agent)
    assert [push["boot_id"] for push in controller.pushes if push["events"]] == [BOOT, NEW_BOOT]


def test_what_collectors_say_is_pushed_under_numbers_of_its_own(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    node.print(XID79)
    for device in ("mlx5_0", "mlx5_1"):
        agent.tell(KernelEvent(kind="hca-gone", extra={"device": device}))
    _settle(agent)
    first, *own = controller.events()
    assert (first["seq"], len(own)) == (1, 2)
    assert FIRST_OWN_SEQ < own[0]["seq"] < own[1]["seq"] < 2**63
    assert [event["event"]["extra"]["device"] for event in own] == ["mlx5_0", "mlx5_1"]


def is_woken(agent: Agent) -> bool:
    """Whether the loop would begin its next turn at once."""
    return bool(select.select(agent.wakers, [], [], 0)[0])


def test_the_loop_sleeps_until_somebody_has_something_for_it(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    assert _settle(agent) > POLL_S, "a log that wakes us is not polled"
    assert not is_woken(agent)

    def tells() -> None:
        agent.tell(KernelEvent(kind="hca-gone", extra={"device": "mlx5_0"}))

    def nudges() -> None:
        for _ in range(10_000):
            agent.nudge()

    def prints() -> None:
        node.print(XID79)

    for begins in (prints, tells, nudges):
        begins()
        assert is_woken(agent)
        _settle(agent)
        assert not is_woken(agent)


def test_a_log_that_is_not_read_for_want_of_room_wakes_nobody(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    """It stays readable: the loop would turn without a pause while the controller is away."""
    controller.answer = lambda _: 503
    agent = _agent(node, controller, clock)
    with node.log.open("ab") as file:
        file.writelines(node.record(fault(pid)) for pid in range(3 * MAX_EVENTS))
    while len(agent.wakers) > 1:
        clock.advance(agent.turn())
    node.print("one more")
    assert not is_woken(agent)
    controller.answer = lambda _: 202
    clock.advance(LAST_BACKOFF_S)
    _settle(agent)
    assert len(controller.events()) == 3 * MAX_EVENTS
    node.print(XID79)
    assert is_woken(agent)


def test_a_collector_that_is_late_wakes_nobody_after_the_end(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    agent.close()
    agent.tell(KernelEvent(kind="hca-gone", extra={"device": "mlx5_0"}))


def test_a_line_of_ten_megabytes_hides_nothing_behind_it(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    node.print("NVRM: Xid (" + "x" * 10_000_000)
    node.print(XID79)
    agent = _agent(node, controller, clock)
    _settle(agent)
    assert _seqs(controller) == [2]


def test_gap_is_pushed_as_an_event(node: Node, controller: Controller, clock: ManualClock) -> None:
    node.print("one")
    node.seq += 3
    node.print("two")
    agent = _agent(node, controller, clock)
    _settle(agent)
    assert controller.events()[0]["event"]["extra"] == {"first": 2, "lost": 3}
    assert _value(agent, "remediator_agent_records_lost_total") == 3


def test_heartbeat_is_an_empty_push_when_nothing_else_was_pushed(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    _settle(agent)
    clock.advance(9.9)
    agent.turn()
    assert len(controller.pushes) == 1
    clock.advance(0.1)
    agent.turn()
    assert [push["events"] for push in controller.pushes] == [[], []]


def test_token_is_read_for_each_push(node: Node, controller: Controller, clock: ManualClock) -> None:
    agent = _agent(node, controller, clock)
    _settle(agent)
    node.token.write_text("second")
    clock.advance(10)
    _settle(agent)
    assert controller.tokens == ["Bearer first", "Bearer second"]


def test_connection_is_kept(node: Node, controller: Controller, clock: ManualClock) -> None:
    agent = _agent(node, controller, clock)
    for pid in range(5):
        node.print(fault(pid))
        _settle(agent)
    assert len(set(controller.peers)) == 1


def test_restart_goes_on_behind_what_was_accepted(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    node.print(XID79)
    _settle(agent)
    agent.close()
    node.print(XID79)
    _settle(_agent(node, controller, clock))
    assert _seqs(controller) == [1, 2]


def test_cursor_stays_until_the_push_is_accepted(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    state = StateDir(node.root / "state")
    controller.answer = lambda push: 503 if push["events"] else 202
    agent = _agent(node, controller, clock)
    _settle(agent)
    node.print(XID79)
    agent.turn()
    assert state.load_cursor() is None
    controller.answer = lambda _: 202
    clock.advance(LAST_BACKOFF_S)
    agent.turn()
    cursor = state.load_cursor()
    assert cursor is not None
    assert (cursor.boot_id, cursor.seq) == (BOOT, 1)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 429, 500, 503])
def test_unaccepted_events_survive_a_kill(
    node: Node, controller: Controller, clock: ManualClock, status: int
) -> None:
    """No close: the process is gone, its log file too; the spool alone has the event."""
    controller.answer = lambda _: status
    agent = _agent(node, controller, clock)
    node.print(XID79)
    agent.turn()
    assert _value(agent, "remediator_agent_pushes_total", result="retry") == 1
    node.log.write_bytes(b"")
    controller.answer = lambda _: 202
    _settle(_agent(node, controller, clock))
    assert _seqs(controller) == [1]
    assert StateDir(node.root / "state").load_spool() is None


def test_kill_before_the_first_push_reads_the_log_again(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    node.print(XID79)
    _agent(node, controller, clock)
    _settle(_agent(node, controller, clock))
    assert _seqs(controller) == [1]


def test_retries_spread_between_nothing_and_ten_seconds(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    controller.answer = lambda _: 503
    agent = _agent(node, controller, clock)
    node.print(XID79)
    waits = []
    for _ in range(200):
        before = _value(agent, "remediator_agent_pushes_total", result="retry")
        seconds = agent.turn()
        if _value(agent, "remediator_agent_pushes_total", result="retry") > before:
            waits.append(0.0)
        waits[-1] += seconds
        clock.advance(seconds)
    assert waits[0] <= 0.2
    assert 5 < max(waits[:-1]) <= LAST_BACKOFF_S + LISTEN_S


def test_the_one_refused_event_is_found_and_set_aside(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    controller.answer = lambda push: 400 if any(one["seq"] == 7 for one in push["events"]) else 202
    for pid in range(20):
        node.print(fault(pid))
    agent = _agent(node, controller, clock)
    _settle(agent)
    assert _seqs(controller) == [n for n in range(1, 21) if n != 7]
    assert _value(agent, "remediator_agent_dead_letters_total", reason="refused") == 1
    letters = (node.root / "state" / "dead-letters.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"]["seq"] for line in letters] == [7]


def test_refused_heartbeat_is_tried_again_later(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    controller.answer = lambda _: 400
    agent = _agent(node, controller, clock)
    assert agent.turn() > 0
    assert _value(agent, "remediator_agent_pushes_total", result="refused") == 1


def test_storm_comes_in_batches_of_at_most_five_hundred(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    with node.log.open("ab") as file:
        file.writelines(node.record(fault(pid)) for pid in range(1800))
    agent = _agent(node, controller, clock)
    _settle(agent)
    sizes = [len(push["events"]) for push in controller.pushes]
    assert sum(sizes) == 1800
    assert max(sizes) == 500


def test_unreachable_controller_bounds_the_memory_and_loses_nothing(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    controller.answer = lambda _: 503
    with node.log.open("ab") as file:
        file.writelines(node.record(fault(pid)) for pid in range(3 * MAX_EVENTS))
    agent = _agent(node, controller, clock)
    for _ in range(50):
        clock.advance(agent.turn())
    waiting = _value(agent, "remediator_agent_events_waiting")
    assert MAX_EVENTS <= waiting < 3 * MAX_EVENTS
    controller.answer = lambda _: 202
    clock.advance(LAST_BACKOFF_S)
    _settle(agent)
    assert _seqs(controller) == list(range(1, 3 * MAX_EVENTS + 1))


def test_new_boot_under_a_running_agent_is_told_at_once(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    node.print(XID79)
    _settle(agent)
    node.boot.write_text(NEW_BOOT)
    node.seq = 0
    node.log.write_bytes(node.record("NVRM: Xid (PCI:0000:01:00): 48, x"))
    _settle(agent)
    assert controller.pushes[-1]["boot_id"] == NEW_BOOT
    assert [event["event"]["xid"] for event in controller.pushes[-1]["events"]] == [48]


def test_new_boot_id_over_the_same_log_repeats_no_line(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    node.print(XID79)
    _settle(agent)
    agent.close()
    node.boot.write_text(NEW_BOOT)
    agent = _agent(node, controller, clock)
    _settle(agent)
    assert controller.pushes[-1] == {"version": 1, "node": "gpu-0", "boot_id": NEW_BOOT, "events": []}


def test_unsent_events_of_an_older_boot_are_set_aside(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    controller.answer = lambda _: 503
    node.print(XID79)
    agent = _agent(node, controller, clock)
    agent.turn()
    agent.close()
    node.boot.write_text(NEW_BOOT)
    controller.answer = lambda _: 202
    agent = _agent(node, controller, clock)
    _settle(agent)
    assert controller.events() == []
    assert _value(agent, "remediator_agent_dead_letters_total", reason="older_boot") == 1
    assert "older_boot" in (node.root / "state" / "dead-letters.jsonl").read_text()


def test_boot_id_that_cannot_be_read_stops_the_start(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    node.boot.write_text("\n")
    with pytest.raises(BadInput, match="boot_id_path"):
        _agent(node, controller, clock)


def test_boot_id_that_vanishes_later_changes_nothing(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    _settle(agent)
    node.boot.unlink()
    node.print(XID79)
    _settle(agent)
    assert controller.pushes[-1]["boot_id"] == BOOT


def test_line_printed_before_the_agent_began_keeps_its_time(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    """The file was written with its last record; this node's uptime is not the machine's."""
    with node.log.open("ab") as file:
        file.write(f"3,1,100000000,-;{XID79}\n3,2,160000000,-;noise\n".encode())
    os.utime(node.log, (clock.now() - 5, clock.now() - 5))
    _settle(_agent(node, controller, clock))
    assert controller.events()[0]["seen_at"] == pytest.approx(clock.now() - 65)


def test_same_line_of_a_later_boot_is_told(node: Node, controller: Controller, clock: ManualClock) -> None:
    """Same file, same length, same number: only the time since boot differs."""
    node.log.write_bytes(f"3,0,111111,-;{XID79}\n".encode())
    agent = _agent(node, controller, clock)
    _settle(agent)
    agent.close()
    node.boot.write_text(NEW_BOOT)
    node.log.write_bytes(f"3,0,222222,-;{XID79}\n".encode())
    _settle(_agent(node, controller, clock))
    assert [push["boot_id"] for push in controller.pushes if push["events"]] == [BOOT, NEW_BOOT]


def test_new_boot_id_is_told_without_waiting_for_the_heartbeat(
    node: Node, controller: Controller, clock: ManualClock
) -> None:
    agent = _agent(node, controller, clock)
    _settle(agent)
    node.boot.write_text(NEW_BOOT)
    agent.turn()
    assert [push["boot_id"] for push in controller.pushes] == [BOOT, NEW_BOOT]


def test_damaged_state_counts_as_absent(node: Node, controller: Controller, clock: ManualClock) -> None:
    state = node.root / "state"
    state.mkdir()
    (state / "cursor.json").write_text('{"boot_id": "x"')
    (state / "spool.json").write_bytes(b"\xff")
    node.print(XID79)
    _settle(_agent(node, controller, clock))
    assert _seqs(controller) == [1]


def test_state_that_cannot_be_written_stops_no_push(
    node: Node, controller: Controller, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: StateDir, cursor: Cursor) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StateDir, "save_cursor", full)
    agent = _agent(node, controller, clock)
    node.print(XID79)
    _settle(agent)
    assert _seqs(controller) == [1]
    assert _value(agent, "remediator_agent_state_errors_total") == 1


def test_unreadable_token_is_no_push(node: Node, controller: Controller, clock: ManualClock) -> None:
    node.token.write_text("two words\n")
    agent = _agent(node, controller, clock)
    agent.turn()
    node.token.unlink()
    clock.advance(LAST_BACKOFF_S)
    agent.turn()
    assert controller.tokens == []
    assert _value(agent, "remediator_agent_pushes_total", result="retry") == 2


def test_known_label_values_start_at_zero(node: Node, controller: Controller, clock: ManualClock) -> None:
    agent = _agent(node, controller, clock)
    for result in ("accepted", "refused", "retry"):
        assert _value(agent, "remediator_agent_pushes_total", result=result) == 0
    for kind in ("xid", "sxid", "gap", "ib_lost_carrier"):
        assert _value(agent, "remediator_agent_events_total", kind=kind) == 0


def test_dead_letters_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remediator.agent.state.DEAD_LETTER_BYTES", 10)
    state = StateDir(tmp_path)
    node = tmp_path / "node"
    node.mkdir()
    server = Controller(lambda push: 400 if push["events"] else 202)
    files = Node(node)
    agent = _agent(files, server, ManualClock())
    for pid in range(4):
        files.print(fault(pid))
        _settle(agent)
    server.close()
    assert sorted(path.name for path in (files.root / "state").glob("dead*")) == [
        "dead-letters.1.jsonl",
        "dead-letters.jsonl",
    ]
    assert state.load_cursor() is None
