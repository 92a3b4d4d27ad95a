"""Alerts become signals of an exact node, or are refused and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from remediator.errors import BadInput
from remediator.model.signal import Signal
from remediator.settings import Webhook
from remediator.signals.alertmanager import listed, read_notification, sampled, told
from remediator.signals.episodes import Converted, convert
from tests.unit.signals.alerts import SECOND, alert, body, listing, sample, without

NAMES = Webhook()
NOW = SECOND + 20.0


def webhook(*entries: Any, names: Webhook = NAMES) -> Converted:
    return convert(told(read_notification(body(*entries)).entries), names, "webhook", NOW)


def signal(entry: dict[str, Any], names: Webhook = NAMES) -> Signal:
    [one] = webhook(entry, names=names).signals
    return one


def test_alert_with_an_xid_is_a_signal_of_its_node() -> None:
    one = signal(alert(pci_bus_id="00000000:8D:00.0", witness="dcgm-xid"))
    assert (one.source, one.node, one.boot_id, one.kind, one.code, one.pci) == (
        "webhook",
        "gpu-1",
        "",
        "xid",
        79,
        "0000:8d:00",
    )
    assert (int(one.seen_at), one.received_at) == (SECOND, NOW)
    assert (one.detail["alertname"], one.detail["witness"]) == ("GpuXid", "dcgm-xid")
    assert one.detail["labels"]["xid"] == "79"


def test_same_episode_is_one_row_by_every_door() -> None:
    by_webhook = convert(told(read_notification(body(alert())).entries), NAMES, "webhook", NOW)
    by_alertmanager = convert(listed(listing(alert(prometheus_replica="b"))), NAMES, "backfill", NOW + 60)
    by_prometheus = convert(sampled([sample()]), NAMES, "backfill", NOW + 61)
    keys = {one.signals[0].dedupe for one in (by_webhook, by_alertmanager, by_prometheus)}
    assert len(keys) == 1
    assert keys.pop().startswith("alert:")


@pytest.mark.parametrize(
    "other",
    [alert(xid="31"), alert(node="gpu-2"), alert(starts="2026-11-29T19:01:12Z"), alert(status="resolved")],
    ids=["code", "node", "time", "status"],
)
def test_another_fault_node_or_time_is_another_row(other: dict[str, Any]) -> None:
    assert signal(alert()).dedupe != signal(other).dedupe


def test_resolved_alert_is_kept_and_is_no_fault() -> None:
    found = webhook(alert(status="resolved"), alert(node="gpu-2"))
    assert [one.kind for one in found.signals] == ["alert-resolved", "xid"]


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"node": "gpu-1", "instance": "10.0.0.1:9400"}, "gpu-1"),
        ({"Hostname": "gpu-a01"}, "gpu-a01"),
        ({"node": "", "kubernetes_node": "gpu-3"}, "gpu-3"),
        ({"instance": "gpu-4.cluster.local:9400"}, "gpu-4.cluster.local"),
        ({"instance": "gpu-4"}, "gpu-4"),
    ],
)
def test_first_label_that_is_present_names_the_node(labels: dict[str, str], node: str) -> None:
    entry = alert()
    assert signal(entry | {"labels": {"xid": "79"} | labels}).node == node


@pytest.mark.parametrize(
    "node",
    [
        "gpu-[1-5]",
        "gpu-1,gpu-2",
        "gpu-1\n",
        "gpu-1\x00",
        "GPU-1",
        "../gpu-1",
        "gpu-1;reboot",
        "ALL",
        "gpu*",
        "n" * 254,
        "gpu-1:9400",
        "gpu-１",
    ],
)
def test_what_is_no_single_name_is_refused_even_if_another_label_is(node: str) -> None:
    found = webhook(alert(node=node, instance="gpu-1:9400"))
    assert found.refused == {"node": 1}
    assert found.taken == 0


def test_fault_that_names_no_node_is_refused_and_other_alerts_are_not_ours() -> None:
    found = webhook(without(alert(), "node"), without(alert(alertname="Watchdog"), "node", "xid"))
    assert (found.refused, found.ignored, found.taken) == ({"no-node": 1}, 1, 0)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"fault": "gpu-hot"}, "gpu-hot"),
        ({"fault": ""}, "alert"),
        ({"fault": "gpu-hot", "xid": "79"}, "xid"),
        ({"fault": "anything", "xid": "79"}, "xid"),
    ],
)
def test_an_alert_without_a_code_names_its_fault(labels: dict[str, str], kind: str) -> None:
    assert signal(without(alert(), "xid") | {"labels": {"node": "gpu-1"} | labels}).kind == kind


@pytest.mark.parametrize(
    "fault", ["gpu-hott", "silent", "job-ended", "threshold-passed", "alert", "xid", " "]
)
def test_a_fault_that_nobody_knows_is_refused(fault: str) -> None:
    found = webhook(alert(xid="", fault=fault))
    assert (found.refused, found.taken) == ({"fault": 1}, 0)


def test_a_named_fault_without_a_node_is_refused() -> None:
    assert webhook(without(alert(fault="gpu-hot"), "node", "xid")).refused == {"no-node": 1}


@pytest.mark.parametrize(
    ("label", "code"),
    [
        ("79", 79),
        ("079", 79),
        ("0", None),
        ("-79", None),
        ("79.5", None),
        ("9" * 10, None),
        ("9" * 4000, None),
        ("七九", None),
        ("٧٩", None),
        ("79 ", None),
    ],
)
def test_code_that_is_no_small_number_is_unknown(label: str, code: int | None) -> None:
    one = signal(alert(xid=label))
    assert (one.code, one.kind) == (code, "xid" if code else "alert")


@pytest.mark.parametrize(
    ("label", "boot"), [("5f0c3b1e-0000-4000", "5f0c3b1e-0000-4000"), ("x", ""), ("12345678\n", "")]
)
def test_boot_is_known_only_when_the_alert_says_so(label: str, boot: str) -> None:
    assert signal(alert(boot_id=label)).boot_id == boot


def test_labels_that_hold_each_fact_are_settings() -> None:
    names = Webhook(
        node_labels=("machine",),
        code_labels=("fault",),
        boot_label="b",
        witness_label="w",
        replica_labels=("z",),
    )
    one = signal(alert(machine="gpu-9", fault="48", b="boot-id-1", w="dcgm-health", z="1"), names)
    assert (one.node, one.code, one.boot_id, one.detail["witness"]) == (
        "gpu-9",
        48,
        "boot-id-1",
        "dcgm-health",
    )
    again = signal(alert(machine="gpu-9", fault="48", b="boot-id-1", w="dcgm-health", z="2"), names)
    assert one.dedupe == again.dedupe


@pytest.mark.parametrize(
    "broken",
    [
        None,
        7,
        [],
        {},
        alert(status="maybe"),
        alert(starts="yesterday"),
        alert(starts="2026-11-29T18:01:12"),
        alert(starts="0001-01-01T00:00:00Z"),
        alert(starts="9999-12-31T23:59:59-14:00"),
        alert() | {"labels": {"node": 1}},
        alert() | {"labels": [["node", "gpu-1"]]},
        alert() | {"startsAt": None},
        alert() | {"startsAt": float("nan")},
        alert() | {"startsAt": 1e300},
    ],
    ids=str,
)
def test_alert_that_cannot_be_read_does_not_take_the_others_along(broken: Any) -> None:
    found = webhook(broken, alert())
    assert (found.refused, found.taken) == ({"shape": 1}, 1)


def test_refusals_are_one_row_per_reason_door_and_hour() -> None:
    found = webhook(
        *[alert(node="gpu-[1-5]", xid=str(code)) for code in range(1, 50)], without(alert(), "node")
    )
    assert [(one.kind, one.node, one.detail["reason"]) for one in found.signals] == [
        ("alert-refused", "", "node"),
        ("alert-refused", "", "no-node"),
    ]
    later = convert([None], NAMES, "webhook", NOW + 3600)
    assert len({one.dedupe for one in (*found.signals, *later.signals, *webhook(None).signals)}) == 4


def test_control_characters_are_stored_as_escapes_and_long_labels_left_out() -> None:
    one = signal(alert(alertname="a\x1b[2J", witness="\u202e", summary="\x00"))
    assert json.dumps(one.model_dump(), ensure_ascii=False).isprintable()
    assert list(signal(alert(text="x" * 5000)).detail["labels"]) == ["left_out"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "body"),
        (body(alert())[:-20], "body"),
        (b"\xff\xfe{}", "body"),
        (b"[" * 100_000, "body"),
        (b"[]", "body"),
        (b"{}", "version"),
        (body(version="3"), "version"),
        (body(version=4), "version"),
        (body(alerts={}), "alerts"),
        (body(alerts=None), "alerts"),
        (b'{"version":"4","alerts":[' + b'{"labels":' * 50_000, "body"),
    ],
)
def test_what_is_no_notification_of_version_4_is_bad_input(content: bytes, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_notification(content)
    assert caught.value.field == field


@pytest.mark.parametrize(("left_out", "truncated"), [(0, False), (3, True), (2**64 - 1, True), ("x", True)])
def test_left_out_alerts_are_noticed(left_out: Any, truncated: bool) -> None:
    assert read_notification(body(truncatedAlerts=left_out)).truncated == truncated


def test_unknown_fields_are_passed_over() -> None:
    told_by_a_later_version = body(alert() | {"new": {"a": [1]}}, routeLabels={"a": "b"})
    assert told(read_notification(told_by_a_later_version).entries)[0] is not None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "soon", ""])
def test_sample_without_a_time_is_refused(value: str) -> None:
    assert sampled([sample(value)]) == [None]


@pytest.mark.parametrize("rows", [{}, None, "x"])
def test_result_that_is_no_list_is_bad_input(rows: Any) -> None:
    with pytest.raises(BadInput):
        sampled(rows)


@pytest.mark.parametrize("answer", [b"", b"{}", b"null", b"<html>", b"[" * 100_000, b"\xff"])
def test_answer_that_is_no_list_is_bad_input(answer: bytes) -> None:
    with pytest.raises(BadInput):
        listed(answer)


def test_silenced_alerts_are_told_apart() -> None:
    [one] = listed(listing(alert(), state="suppressed"))
    assert one is not None
    assert one.silenced
