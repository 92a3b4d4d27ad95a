"""Whatever Alertmanager's door is sent: signals that can be stored, or BadInput."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remediator.errors import BadInput
from remediator.settings import Webhook
from remediator.signals.alertmanager import listed, read_notification, sampled, told
from remediator.signals.episodes import Converted, convert
from tests.unit.signals.alerts import STARTED, alert, body

NOW = 1_800_000_000.0
NAMES = Webhook()
TEXT = st.text(max_size=30)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXT, below, max_size=3),
    max_leaves=10,
)
KNOWN = st.sampled_from(
    ["node", "instance", "Hostname", "xid", "code", "boot_id", "witness", "pci", "pci_bus_id", "alertname"]
)
LABELS = st.dictionaries(KNOWN | TEXT, TEXT | st.sampled_from(["gpu-1", "79", "gpu-[1-5]", "gpu-1:9400"]))
TIMES = st.sampled_from([STARTED, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999999Z"]) | TEXT
NEAR = st.fixed_dictionaries(
    {
        "labels": LABELS | ANY_JSON,
        "startsAt": TIMES | ANY_JSON,
        "status": st.sampled_from(["firing", "resolved"]),
    }
)


def by_webhook(content: bytes) -> Converted:
    return convert(told(read_notification(content).entries), NAMES, "webhook", NOW)


def by_alertmanager(content: bytes) -> Converted:
    return convert(listed(content), NAMES, "backfill", NOW)


def assert_storable_or_refused(read: Callable[[bytes], Converted], content: bytes) -> None:
    """Any other exception than BadInput fails the test."""
    try:
        found = read(content)
    except BadInput:
        return
    assert_storable(found)


def assert_storable(found: Converted) -> None:
    for one in found.signals:
        text = json.dumps(one.model_dump(), allow_nan=False, ensure_ascii=False)
        assert text.isprintable()
        assert one.code is None or 0 < one.code < 2**31
        assert len(one.node) <= 253


@given(st.binary(max_size=300) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_notification_or_bad_input(content: bytes) -> None:
    assert_storable_or_refused(by_webhook, content)


@given(st.lists(NEAR | ANY_JSON, max_size=4))
def test_every_alert_is_taken_ignored_or_refused(entries: list[Any]) -> None:
    try:
        found = by_webhook(body(*entries))
    except BadInput:
        assert "\\ud" in body(*entries).decode()  # half a surrogate is no text in JSON
        return
    assert_storable(found)
    assert found.taken + found.ignored + found.refused.total() == len(entries)


@given(st.integers(0, 2000), st.binary(max_size=3))
def test_a_cut_or_patched_body_is_read_or_bad_input(at: int, patch: bytes) -> None:
    whole = body(alert(), alert(node="gpu-2", xid="48"))
    for content in (whole[:at], whole[:at] + patch + whole[at + len(patch) :]):
        assert_storable_or_refused(by_webhook, content)


@given(
    st.binary(max_size=300)
    | st.lists(NEAR | ANY_JSON, max_size=3).map(lambda rows: json.dumps(rows).encode())
)
def test_any_answer_of_alertmanager_is_read_or_bad_input(content: bytes) -> None:
    assert_storable_or_refused(by_alertmanager, content)


@given(
    st.lists(
        st.fixed_dictionaries({"metric": LABELS | ANY_JSON, "value": st.tuples(ANY_JSON, TIMES | ANY_JSON)})
        | ANY_JSON,
        max_size=3,
    )
)
def test_any_result_of_prometheus_is_read(rows: list[Any]) -> None:
    assert_storable(convert(sampled(rows), NAMES, "backfill", NOW))


@given(LABELS, st.permutations(["x", "y", "z"]))
def test_order_of_labels_and_replicas_do_not_matter(labels: dict[str, str], names: list[str]) -> None:
    fixed = {"node": "gpu-1", "xid": "79", "x": "1", "y": "2", "z": "3"}
    plain = {name: value for name, value in labels.items() if name.isascii()} | fixed
    one = alert() | {"labels": plain}
    other = alert() | {"labels": {name: plain[name] for name in names} | plain | {"replica": "b"}}
    [first] = by_webhook(body(one | {"labels": plain | {"replica": "a"}})).signals
    [second] = by_webhook(body(other)).signals
    assert first.dedupe == second.dedupe
