"""The bench's own arithmetic: a wrong percentile or a drain of another node would be a wrong claim."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from deploy.lab.errors import LabError
from tests.bench import __main__ as bench
from tests.bench import mixture, report
from tests.bench.auditlog import CONTROLLER, AuditLog
from tests.bench.ctldlog import CtldLog
from tests.bench.figures import Figure, Goal, percentile
from tests.bench.overhead import Marks, own, terms
from tests.bench.report import verdict
from tests.bench.world import NODES, OPEN


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_a_percentile_is_the_nearest_rank(percent: float, value: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], percent) == value


def test_the_bad_end_of_a_rate_is_its_low_end() -> None:
    samples = tuple(float(n) for n in range(1, 201))
    time, rate = Figure("t", "ms", samples), Figure("r", "signals/s", samples)
    assert (time.p99, time.worst, rate.p99, rate.worst) == (198, 200, 2, 1)


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


def test_the_next_drain_of_the_node_counts_with_the_last_look_before_it(tmp_path: Path) -> None:
    log = tmp_path / "slurmctld.log"
    now = datetime.now(UTC).timestamp() // 1
    log.write_text(f"[{stamp(now - 9)}] update_node: node w-0 state set to DRAINED\n")
    clock = CtldLog(log)
    with log.open("a") as file:
        for at, text in (
            (1.0, "debug2: Processing RPC: REQUEST_NODE_INFO_SINGLE from UID=1"),
            (1.1, "update_node: node w-1 state set to DRAINING"),
            (1.2, "debug2: Processing RPC: REQUEST_NODE_INFO_SINGLE from UID=1"),
            (1.3, "update_node: node w-0 reason set to: x"),
            (1.4, "update_node: node w-0 state set to DRAINED*"),
            (1.5, "debug2: Processing RPC: REQUEST_NODE_INFO_SINGLE from UID=1"),
        ):
            file.write(f"[{stamp(now + at)}] {text}\n")
    drain = clock.drain_of("w-0", 1.0)
    assert drain is not None
    assert drain.asked_at is not None
    assert drain.at == pytest.approx(now + 1.4005, abs=1e-4)
    assert drain.asked_at == pytest.approx(now + 1.2005, abs=1e-4)
    assert clock.drain_of("w-0", 0.05) is None


def asked(
    at: float, name: str, *, user: str = CONTROLLER, code: int = 200, verb: str = "patch", **ref: str
) -> str:
    """A line of the audit log about a node."""
    event = {
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": "nodes", "name": name, **ref},
        "responseStatus": {"code": code},
        "stageTimestamp": datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z"),
    }
    return json.dumps(event, separators=(",", ":")) + "\n"


def test_only_the_controllers_own_patch_of_the_node_that_was_not_refused_is_its_fence(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    now = datetime.now(UTC).timestamp() // 1
    log.write_text(asked(now - 9, "gpu-0"))
    clock = AuditLog(log)
    with log.open("a") as file:
        for line in (
            asked(now + 1, "gpu-1"),
            asked(now + 2, "gpu-0", code=409),
            asked(now + 3, "gpu-0", user="lab-admin"),
            asked(now + 4, "gpu-0", subresource="status"),
            asked(now + 5, "gpu-0", resource="leases"),
            asked(now + 6, "gpu-0", verb="get"),
            asked(now + 7.25, "gpu-0"),
            asked(now + 8, "gpu-0")[:-9],
        ):
            file.write(line)
    assert clock.patch_of("gpu-0", 1.0) == now + 7.25
    assert clock.patch_of("gpu-0", 0.05) is None


def test_the_terms_of_a_replacement_sum_up_to_the_whole_way() -> None:
    marks = Marks(
        fault=0.0, requeue=0.5, job_gone=3.0, unprotected=4.0, evicted=4.5, pod_created=6.0, admitted=5.0,
        registered=8.0, idle=13.0, running=14.0,
    )  # fmt: skip
    found = terms(marks)
    assert sum(found.values()) == marks.running - marks.fault
    assert own(found) == 1.0
    assert found["pod-protect lag"] == 1.0


def test_a_rate_has_a_goal_that_it_must_reach() -> None:
    slow = Figure("r", "evictions/s", (49.0,), goal=Goal(at_least=50))
    fast = Figure("r", "evictions/s", (50.0,), goal=Goal(at_least=50))
    assert (verdict(slow, None), verdict(fast, None)) == ("P50 ≥ 50: MISSED", "P50 ≥ 50: met")


def test_a_figure_that_was_nothing_before_is_shown_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table comes after minutes of measuring: no figure may break it."""
    before = {"machine": {}, "figures": {"t": {"p50": 0.0}, "u": {"p50": 2.0}}}
    monkeypatch.setattr(report, "_baseline", lambda: before)
    console = Console(record=True, width=200)
    result = report.Result({})
    result.figures += [Figure("t", "ms", (1.0,)), Figure("u", "ms", (1.0,))]
    result.show(console)
    shown = console.export_text()
    assert "-50 %" in shown
    assert "inf" not in shown


def test_a_lab_that_does_not_come_up_takes_away_nothing_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(result: report.Result, *_args: object, **_rest: object) -> None:
        result.figures.append(Figure("measured before", "ms", (1.0,)))
        raise LabError("no lab here")

    monkeypatch.setattr(bench, "_run", run)
    with pytest.raises(LabError):
        bench.main(["intake", "memory"], json=tmp_path / "all.json", save_baseline=True)
    assert "measured before" in (tmp_path / "all.json").read_text()
    assert "measured before" in capsys.readouterr().out


def test_the_mixture_is_of_nodes_without_an_incident_and_has_faults_that_open_one() -> None:
    streams = mixture.streams()
    found = [signal for stream in streams for signal in stream]
    assert {len(stream) for stream in streams} == {mixture.STREAM}
    assert len({signal.dedupe for signal in found}) == len(found)
    assert all(OPEN <= int(signal.node.removeprefix("gpu-")) < NODES for signal in found)
    by_code = Counter(signal.code for signal in found)
    assert by_code[45] > len(found) / 2  # what programs leave behind
    assert min(by_code[79], by_code[48], by_code[95], by_code[119]) > 10
