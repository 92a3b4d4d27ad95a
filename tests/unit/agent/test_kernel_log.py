"""Every recorded kernel line parses as its fields state, and what is not stated stays unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remediator.agent.kernel_log import parse, scrub
from remediator.model.signal import MAX_RAW

SAMPLES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "xid_log_samples.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"sample-{sample['n']}")
def test_sample_parses_as_stated(sample: dict[str, Any]) -> None:
    event = parse(sample["raw"])
    if sample["extra"] == {"kind": "none"}:
        assert event is None
        return
    assert event is not None
    assert {"kind": event.kind, **event.extra} == sample["extra"]
    assert (event.xid, event.pci, event.pid, event.process) == tuple(
        sample[field] for field in ("xid", "pci", "pid", "process")
    )


def test_the_file_of_samples_is_whole() -> None:
    assert len(SAMPLES) == 75


def test_probe_time_record_of_three_lines_names_its_gpu() -> None:
    text = (
        "NVRM: The NVIDIA GPU 0000:4E:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands."
    )
    event = parse(text)
    assert event is not None
    assert (event.kind, event.xid, event.pci) == ("fallen_off_bus", 79, "0000:4e:00")


def test_eight_digit_domain_is_normalised() -> None:
    event = parse("NVRM: Xid (PCI:00000000:8D:00.0): 79, GPU has fallen off the bus.")
    assert event is not None
    assert event.pci == "0000:8d:00"


def test_cut_error_word_gives_no_sub_code() -> None:
    event = parse("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x0255")
    assert event is not None
    assert event.extra == {"unit": "NETIR_LINK_EVT", "fatal": True, "containment": "XC0", "link": 9}


def test_cut_verdict_is_unknown() -> None:
    event = parse("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2")
    assert event is not None
    assert event.extra == {"recovery_from": None, "recovery_to": None}


def test_seven_closed_registers_are_complete() -> None:
    event = parse(
        "NVRM: Xid (PCI:0000:d8:00): 74, NVLink: error on link 3(0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    )
    assert event is not None
    assert event.extra["registers_complete"] is True


def test_cut_continuation_is_not_a_second_switch_event() -> None:
    event = parse("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Da")
    assert event is not None
    assert event.kind == "sxid_continuation"


def test_code_of_twenty_digits_is_no_code() -> None:
    assert parse("NVRM: Xid (PCI:0000:05:00): 79797979797979797979, x") is None


def test_raw_is_capped_and_without_serial_numbers() -> None:
    event = parse(
        "NVRM: Xid (PCI:0000:01:00): 79, x NVRM: GPU Board Serial Number: 1563221003717 " + "y" * 9000
    )
    assert event is not None
    assert "1563221003717" not in event.raw
    assert len(event.raw) == MAX_RAW


def test_serial_number_is_scrubbed_before_the_cap() -> None:
    assert "99887766" not in scrub("x" * (MAX_RAW - 30) + " Board Serial Number: 9988776655")


def test_raw_can_be_stored_by_any_database() -> None:
    event = parse("NVRM: Xid (PCI:0000:01:00): 79, \x00\x1b \ud800 gone")
    assert event is not None
    assert "\x00" not in event.raw
    assert event.model_dump_json().encode()
