"""`remediator xid parse` prints the samples' fields, one object a line."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from remediator.cli.xid import app

SAMPLES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "xid_log_samples.jsonl").read_text().splitlines()
]


def _run(arguments: list[str], text: str | bytes) -> str:
    result = CliRunner().invoke(app, arguments, input=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_mode_prints_one_object_for_each_line() -> None:
    printed = _run(["parse", "--json"], "\n".join(sample["raw"] for sample in SAMPLES)).splitlines()
    fields = ("xid", "pci", "pid", "process", "extra")
    assert [json.loads(line) for line in printed] == [
        {name: sample[name] for name in fields} for sample in SAMPLES
    ]
    assert all(list(json.loads(line)) == list(fields) for line in printed)


def test_json_details_keep_the_documented_order() -> None:
    sample = next(sample for sample in SAMPLES if sample["n"] == 50)
    assert list(json.loads(_run(["parse", "--json"], sample["raw"]))["extra"]) == list(sample["extra"])


def test_text_mode_prints_events_only() -> None:
    text = (
        "nothing\nNVRM: Xid (PCI:0000:4E:00): 79, pid=7, name=python, GPU has fallen off the bus.\nnothing\n"
    )
    assert _run(["parse"], text).split() == ["XID", "79", "0000:4e:00", "pid", "7", "python"]


def test_binary_input_is_read_to_its_end() -> None:
    printed = _run(["parse", "--json"], b"\xff\xfe\x00\n\nNVRM: Xid (PCI:0000:01:00): 48, x")
    assert [json.loads(line)["xid"] for line in printed.splitlines()] == [None, None, 48]


def test_lines_without_an_event_are_answered_too() -> None:
    told = CliRunner().invoke(app, ["parse"], input="hello\n")
    assert (told.exit_code, told.stdout, told.stderr) == (0, "", "no event in what was read\n")
