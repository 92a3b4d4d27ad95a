"""Kinds of broken lines: cut, joined, interleaved, garbage, huge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from remediator.agent.kernel_log import parse
from remediator.model.signal import KernelEvent

SAMPLES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "xid_log_samples.jsonl").read_text().splitlines()
]
LINES: list[str] = [sample["raw"] for sample in SAMPLES]
EVENTS: list[str] = [sample["raw"] for sample in SAMPLES if sample["extra"]["kind"] != "none"]
A_LINE = st.sampled_from(LINES)
AN_EVENT = st.sampled_from(EVENTS)
GARBAGE = st.text(max_size=300)
PRINTED = re.compile(r"(?:NVRM: Xid|SXid) \([^)]*\): [0-9]+")


def _code(event: KernelEvent | None) -> tuple[int | None, int | None] | None:
    return None if event is None else (event.xid, event.extra.get("sxid"))


def test_every_cut_of_every_sample_keeps_a_printed_code() -> None:
    for line in LINES:
        printed = PRINTED.search(line)
        whole = _code(parse(line))
        for end in range(len(line) + 1):
            code = _code(parse(line[:end]))
            if printed is not None and end >= printed.end():
                assert code == whole, line[:end]


def test_cut_in_bytes_never_raises() -> None:
    for line in LINES:
        data = line.encode()
        for end in range(len(data) + 1):
            parse(data[:end].decode(errors="surrogateescape"))
            parse(data[end:].decode(errors="replace"))


@settings(deadline=None)
@given(AN_EVENT, GARBAGE | A_LINE)
@example("NVRM: GPU at PCI:0000:01:00: GPU-00000000-0000-0000-0000-000000000000", ":fallen off the bus")
def test_what_follows_never_changes_a_printed_code(first: str, second: str) -> None:
    assume(not (first[-1].isalnum() and second[:1].isalnum()))
    assume(not second.startswith("_"))
    assert _code(parse(first + second)) == _code(parse(first))


@settings(deadline=None)
@given(GARBAGE, AN_EVENT)
def test_prefix_of_any_kind_hides_nothing(prefix: str, line: str) -> None:
    assume(parse(prefix) is None)
    assume(not (prefix[-1:].isalnum() or prefix.endswith("_")))
    event = parse(prefix + line)
    assert event is not None
    assert _code(event) == _code(parse(line))


@settings(deadline=None)
@given(A_LINE, A_LINE, st.data())
def test_interleaved_lines_never_raise(first: str, second: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(first)))
    until = data.draw(st.integers(0, len(second)))
    parse(first[:at] + second[:until] + first[at:] + second[until:])


@settings(deadline=None)
@given(st.binary(max_size=2000), A_LINE)
def test_binary_never_raises(noise: bytes, line: str) -> None:
    parse(noise.decode(errors="surrogateescape"))
    parse(line + noise.decode("latin-1"))


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "NVRM: ",
                "Xid (",
                "PCI:",
                "0000:01:00",
                "): ",
                "79",
                ", ",
                "pid=",
                "name=",
                "fallen off the bus",
                "(",
                ")",
                "0x",
                "Link ",
                "SXid (",
                "nvidia-nvswitch0: ",
                "154",
                "149",
                "74",
                "on link ",
                "1",
            ]
        ),
        max_size=60,
    )
)
def test_pieces_of_the_grammar_in_any_order_never_raise(pieces: list[str]) -> None:
    event = parse("".join(pieces))
    assert event is None or event.model_dump_json()


def test_ten_megabytes_never_raise() -> None:
    size = 10_000_000
    for unit in (
        "x",
        "\x00",
        "NVRM: Xid (",
        "9",
        "NVRM: Xid (PCI:0000:01:00): 74, on link 1(0x0, ",
        "NVRM: a ",
    ):
        parse(unit * (size // len(unit)))
    event = parse(LINES[0] + "9" * size)
    assert event is not None
    assert event.xid == 31
