"""Whatever an agent sends becomes storable signals or a refusal with a field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.errors import BadInput
from remediator.model.signal import Signal
from remediator.web.parse import parse_push, to_signals
from tests.unit.web.world import event, push

NOW = 1_800_000_001.0
SURROGATE_FREE = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SURROGATE_FREE,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(SURROGATE_FREE, below, max_size=3),
    max_leaves=10,
)


def signals(body: dict[str, Any]) -> list[Signal]:
    return to_signals(parse_push(json.dumps(body).encode()), NOW)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in push().items() if name != key}


MALFORMED: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "body"),
    "nothing": (b"", "body"),
    "no UTF-8": (b'{"node": "\xff"}', "body"),
    "half a surrogate": (b'{"node": "\\ud800"}', "body"),
    "very deep": (b"[" * 50_000, "body"),
    "deep in a free field": (json.dumps(push()).replace("[]", '[{"seq":' * 5000).encode(), "body"),
    "a list": ([], "body"),
    "a number": (7, "body"),
    "another version": (push(version=2), "version"),
    "an unknown field": (push(surprise=1), "surprise"),
    "no node": (without("node"), "node"),
    "a node that is a number": (push(node=7), "node"),
    "a very long node": (push(node="n" * 254), "node"),
    "a short boot id": (push(boot_id="x"), "boot_id"),
    "a boot id with a line break": (push(boot_id="12345678\n"), "boot_id"),
    "too many events": (push(*[event(n) for n in range(501)]), "events"),
    "an event without a number": (push({"seen_at": 1, "event": {"kind": "xid"}}), "events.0.seq"),
    "a negative number": (push(event(-1)), "events.0.seq"),
    "a huge number": (push(event(2**63)), "events.0.seq"),
    "a code that is text": (push(event(1), event(2, xid="seventy-nine")), "events.1.event.xid"),
    "a kind with a control character": (push(event(kind="x\x1b[2J")), "events.0.event.kind"),
    "a kernel line that is too long": (push(event(raw="x" * 2049)), "events.0.event.raw"),
    "a time that is no number": (push(event() | {"seen_at": float("nan")}), "events.0.seen_at"),
    "a time without an end": (push(event() | {"seen_at": float("inf")}), "events.0.seen_at"),
    "a time after all calendars": (push(event() | {"seen_at": 1e300}), "events.0.seen_at"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_wrong_shape_is_refused_with_its_field(case: str) -> None:
    body, field = MALFORMED[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(BadInput) as caught:
        to_signals(parse_push(content), NOW)
    assert caught.value.field == field
    assert caught.value.problem


@pytest.mark.parametrize(
    ("sent", "known"),
    [(79, 79), (0, 0), (-1, None), (2**31, None), (10**300, None), (None, None)],
)
def test_code_out_of_range_is_unknown(sent: int | None, known: int | None) -> None:
    assert signals(push(event(xid=sent)))[0].code == known


@pytest.mark.parametrize("pci", ["0000:08:0G", "0000:08:00\n", "../../etc", "", "0000:8:00", "x" * 5000])
def test_address_in_another_form_is_unknown(pci: str) -> None:
    assert signals(push(event(pci=pci)))[0].pci is None


def test_control_characters_are_stored_as_escapes() -> None:
    [one] = signals(push(event(process="a\x1b[2J\x00\n", raw="x\u202e\x7f", extra={"k\n": ["\x00"]})))
    assert one.detail["process"] == "a\\x1b[2J\\x00\\n"
    assert one.detail["raw"] == "x\\u202e\\x7f"
    assert one.detail["extra"] == {"k\\n": ["\\x00"]}


@pytest.mark.parametrize("extra", [{"a": float("nan")}, {"a": "x" * 5000}, {str(n): n for n in range(2000)}])
def test_odd_side_facts_are_left_out_and_the_event_still_counts(extra: dict[str, Any]) -> None:
    [one] = signals(push(event(extra=extra)))
    assert one.code == 79
    assert list(one.detail["extra"]) == ["left_out"]


def test_long_process_name_is_cut() -> None:
    assert len(signals(push(event(process="p" * 9999)))[0].detail["process"]) == 256


@given(st.binary(max_size=200) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_push_or_bad_input(body: bytes) -> None:
    found: Any
    try:
        found = parse_push(body).node
    except BadInput as error:
        found = error.field and error.problem
    assert found


@given(
    seq=st.integers(0, 2**63 - 1),
    xid=st.none() | st.integers(),
    pid=st.none() | st.integers(),
    process=st.none() | SURROGATE_FREE,
    raw=SURROGATE_FREE,
    extra=st.dictionaries(SURROGATE_FREE, ANY_JSON, max_size=3),
)
def test_what_is_taken_can_be_stored_and_printed(seq: int, raw: str, **fields: Any) -> None:
    body = push(event(seq, raw=raw, **fields))
    try:
        [one] = signals(body)
    except BadInput:
        assert any(
            abs(number or 0) >= 2**63 for number in (fields["xid"], fields["pid"])
        )  # beyond the parser
        return
    text = json.dumps(one.model_dump(), allow_nan=False, ensure_ascii=False)
    assert text.isprintable()
    assert one.code is None or 0 <= one.code < 2**31
