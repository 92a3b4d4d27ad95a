"""The tables of codes: whole, with reasons and sources, and of one mind with the rules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from remediator.errors import BadInput
from remediator.policy import catalogue
from remediator.policy.catalogue import FOLDER, NVLINK5
from remediator.policy.nvlink import nvlink4, nvlink5
from remediator.policy.rules import load

TABLES = catalogue.load()
RULES = load().rules
SAMPLES = [json.loads(line) for line in Path("tests/data/xid_log_samples.jsonl").read_text().splitlines()]
PLANS = {
    "record": {"record"},
    "ignore": {"record"},
    "clears_163": {"record"},
    "clears": {"record"},
    "record_and_page": {"record"},
    "restart_job": {"restart-job", "validate"},
    "reset_gpu": {"replace", "validate"},
    "reset_gpu_when_idle": {"validate"},
    "reboot_node": {"replace"},
    "reboot_node_if_fatal": {"replace"},
    "replace_node": {"replace"},
    "by_companion": {"validate"},
    "by_register": {"record", "validate"},
    "by_nvlink5_rule": {"record", "validate"},
    "from_target_action": {"record", "validate", "replace"},
}
"""What each action of the tables is as a plan; runbooks/decisions says why."""


def test_the_tables_are_whole() -> None:
    assert sorted(TABLES.xid) == list(range(1, 177))
    assert len(TABLES.nvlink5) == 94
    assert {row.xid for row in TABLES.nvlink5} == set(NVLINK5)
    assert all(
        row.why and TABLES.sources[row.source] for row in (*TABLES.xid.values(), *TABLES.sxid.values())
    )
    assert TABLES.xid[63].disagreement
    assert TABLES.sxid[18001] is TABLES.sxid[18020]


@pytest.mark.parametrize("table", ["xid", "sxid"])
def test_rules_and_tables_are_of_one_mind(table: str) -> None:
    kinds = {"xid": {"xid", "fallen_off_bus"}, "sxid": {"sxid"}}[table]
    plans: dict[int, set[str]] = {}
    for rule in RULES.values():
        for code in rule.codes if kinds & set(rule.kinds) else ():
            plans.setdefault(code, set()).add(rule.plan)
    for code, row in getattr(TABLES, table).items():
        if row.our_action == "thermal":
            continue
        wanted = PLANS[row.our_action]
        found = plans.get(code, {"record"})
        assert found <= wanted, (code, row.our_action, found)
        assert wanted == {"record"} or found != {"record"}, code


@pytest.mark.parametrize(
    ("n", "action"),
    [
        (50, "reset_gpu"),
        (52, "record"),
        (53, "record"),
        (55, None),
        (56, "reset_gpu"),
        (91, "record"),
        (92, "reset_gpu"),
    ],
)
def test_a_line_of_nvlink_5_has_the_action_of_its_one_row(n: int, action: str | None) -> None:
    sample = next(one for one in SAMPLES if one["n"] == n)
    assert nvlink5(sample["xid"], sample["extra"]) == action


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"registers": ["0x40800001", *["0x0"] * 6]}, "nothing"),
        ({"registers": ["0x00100002", "0x0", "0x0", "0x1", "0x1", "0x0", "0x0"]}, "report"),
        ({"registers": ["0x00000100", *["0x0"] * 6]}, "link"),
        ({"registers": ["0x0", "0x0", "0x2000", *["0x0"] * 4]}, "link"),
        ({"registers": ["0x40000000", *["0x0"] * 6], "registers_complete": False}, None),
        ({"registers": ["0x40000000", "x"]}, None),
        ({"registers": 7}, None),
        ({"registers": ["0x100000000"]}, None),
    ],
)
def test_the_registers_of_xid_74_tell_noise_from_a_fault(extra: dict[str, object], says: str | None) -> None:
    assert nvlink4(74, {"registers_complete": True} | extra) == says


def spoilt(folder: Path, name: str, old: str, new: str) -> str:
    tables = folder / "tables"
    shutil.copytree(FOLDER, tables, dirs_exist_ok=True)
    text = (tables / name).read_text()
    assert old in text
    (tables / name).write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        catalogue.load(tables)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("xid.csv", "replace_node,no,Off the bus", "explode,no,Off the bus", "xid.csv:87:"),
        ("xid.csv", "\n79,", "\n78,", "xid.csv:87:1: catalogue: xid 78 has a row already"),
        ("xid.csv", "# rows: 176", "# rows: 177", "has 176 rows, but its head says 177"),
        ("xid.csv", "# version: 1", "# version: 2", "version"),
        ("xid.csv", "# catalogue: 2025-10-29", "# catalogue: soon", "catalogue"),
        ("xid.csv", "# source r595-header", "# sources r595-header", "source r595-header is not in the head"),
        ("xid.csv", "\n79,ROBUST", "\n79,,ROBUST", "fields, not"),
        ("sxid.csv", "18001-18020", "18020-18001", "no span of codes"),
        ("nvlink5.csv", "0x00000001", "0x1", "error_status"),
        ("nvlink5.csv", "\n144,", "\n143,", "nvlink5.csv:7:1: catalogue: xid: "),
    ],
)
def test_a_spoilt_table_is_refused_with_its_place(
    tmp_path: Path, name: str, old: str, new: str, says: str
) -> None:
    found = spoilt(tmp_path, name, old, new)
    assert name in found
    assert says in found


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"xid\.csv.*cannot be read"):
        catalogue.load(tmp_path)
