"""One fault is one signal in a boot, whatever its reporter does; older than the watch is only recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.kube.conditions import Condition
from remediator.model.signal import ONLY_RECORDED, Signal
from remediator.signals.conditions import Seen, Subject, see
from remediator.signals.reporters import load

TABLE = load()
BEGAN, NOW = 1_000.0, 10_000.0
XID = Condition("SysLogsXIDError", "True", "x", "ErrorCode:79 PCI:0000:18:00 GPU_UUID:G ;", NOW - 5)
WELL = Condition("SysLogsXIDError", "False", "x", "No Health Failures", NOW - 500)
HOT = Condition("GpuThermalWatch", "True", "x", "too hot", NOW - 5)
BEFORE = Seen()


def node(*conditions: Condition, boot: str = "boot-1", started: float | None = 2_000.0) -> Subject:
    return Subject("uid", "gpu-0", boot, started, conditions)


def only(seen: Seen) -> Signal:
    (signal,) = seen.faults.values()
    return signal


def look(
    subject: Subject, before: Seen | None = BEFORE, began: float | None = BEGAN, now: float = NOW
) -> Seen:
    return see(subject, before, TABLE, began, now)


def is_evidence(signal: Signal) -> bool:
    return not signal.detail.get(ONLY_RECORDED) and signal.detail["witness"] != "none"


def test_a_fault_says_who_what_where_and_since_when() -> None:
    signal = only(look(node(XID)))
    assert (signal.source, signal.node, signal.boot_id) == ("condition", "gpu-0", "boot-1")
    assert (signal.kind, signal.code, signal.pci, signal.seen_at) == ("xid", 79, "0000:18:00", NOW - 5)
    assert signal.detail["says"].startswith("NVSentinel says of gpu-0: SysLogsXIDError True (x: ErrorCode:79")
    assert is_evidence(signal)


OLDER = {
    "there before anybody watched": (replace(XID, since=BEGAN - 1), BEFORE, BEGAN),
    "at the first look of a store": (XID, None, None),
    "without a time": (replace(XID, since=None), BEFORE, BEGAN),
    "older than the node's last start, at the first sight of it": (replace(XID, since=1_500.0), None, BEGAN),
}


@pytest.mark.parametrize(("condition", "before", "began"), OLDER.values(), ids=OLDER)
def test_what_is_older_than_the_watch_or_the_boot_is_only_recorded(
    condition: Condition, before: Seen | None, began: float | None
) -> None:
    signal = only(look(node(condition), before, began))
    assert not is_evidence(signal)
    assert signal.detail["says"].endswith(("before anybody watched", "than the node's last start"))


@pytest.mark.parametrize(
    "between", [WELL, replace(WELL, status="Unknown"), None], ids=["good", "unknown", "gone"]
)
def test_a_restart_of_the_reporter_is_no_recovery_and_no_second_fault(between: Condition | None) -> None:
    first = look(node(XID))
    during = look(node(*([between] if between else [])), first, now=NOW + 10)
    after = look(node(replace(XID, since=NOW + 20)), during, now=NOW + 20)
    assert only(after) == only(first)
    assert after.again == (0 if between and between.status == "Unknown" else 1)


def test_another_life_of_the_service_names_the_same_fault_the_same() -> None:
    first = only(look(node(XID)))
    again = only(look(node(replace(XID, since=NOW + 60)), None, now=NOW + 90))
    assert again.dedupe == first.dedupe


def test_a_fault_of_the_boot_before_stays_of_that_boot_until_it_is_written_anew() -> None:
    first = look(node(XID))
    rebooted = look(node(XID, boot="boot-2"), first, now=NOW + 300)
    assert only(rebooted) == only(first)
    anew = look(node(replace(XID, since=NOW + 400), boot="boot-2"), rebooted, now=NOW + 400)
    assert (only(anew).boot_id, only(anew).seen_at) == ("boot-2", NOW + 400)
    assert only(anew).dedupe != only(first).dedupe


def test_a_fault_that_is_appended_to_a_bad_condition_is_news_of_now() -> None:
    first = look(node(replace(XID, since=BEGAN - 1)))
    both = look(
        node(replace(XID, since=BEGAN - 1, message=f"{XID.message}ErrorCode:64 PCI:0000:18:00 ;")), first
    )
    old, new = sorted(both.faults.values(), key=lambda one: -(one.code or 0))
    assert (old.code, is_evidence(old)) == (79, False)
    assert (new.code, new.seen_at, is_evidence(new)) == (64, NOW, True)


def test_a_word_about_health_that_flaps_is_counted_and_told_once_an_hour() -> None:
    seen, told, again = look(node(HOT)), set(), 0
    for minute in range(180):
        now = NOW + 60 * minute
        told.add(only(seen).dedupe)
        seen = look(node(replace(HOT, status="False")), seen, now=now)
        seen = look(node(replace(HOT, since=now)), seen, now=now)
        again += seen.again
    assert again == 180
    assert len(told) == 1


def test_heat_that_comes_back_after_an_hour_is_news() -> None:
    first = look(node(HOT))
    well = look(node(replace(HOT, status="False")), first, now=NOW + 10)
    later = look(node(replace(HOT, since=NOW + 7200)), well, now=NOW + 7200)
    assert only(later).dedupe != only(first).dedupe


def test_a_clock_ahead_of_ours_has_seen_nothing_after_now() -> None:
    assert only(look(node(replace(XID, since=NOW + 900)))).seen_at == NOW


def test_what_somebody_wrote_is_fit_to_be_printed() -> None:
    signal = only(look(node(replace(HOT, message="a\x1b[31m\n" + "x" * 9_000))))
    assert signal.detail["says"].isprintable()
    assert len(signal.detail["says"]) < 400
