"""What each row of the table of conditions makes of what its reporter writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.errors import BadInput
from remediator.kube.conditions import Condition
from remediator.signals.reporters import BUILTIN, Row, load

TABLE = load()
XID_LINE = (
    "kernel: [1645.4] NVRM: Xid (PCI:0002:00:00): 119, pid=1582259, name=nvc, Timeout after 6s of waiting"
)


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Condition:
    return Condition(kind, status, reason, message, 1_000.0)


def bad(row: Row, message: str = "it is bad") -> Condition:
    return condition(row.type, row.bad, row.reason.replace("*", "79"), message)


def name(row: Row) -> str:
    return f"{row.type} {row.reason}"


@pytest.mark.parametrize("row", TABLE.rows, ids=name)
def test_its_bad_value_means_what_the_row_says_and_nothing_else_means_anything(row: Row) -> None:
    (reading, *more) = TABLE.readings(bad(row))
    assert reading.row is row
    assert not more
    good = "False" if row.bad == "True" else "True"
    for status in (good, "Unknown", "", "true", "yes"):
        assert TABLE.readings(condition(row.type, status, row.reason)) == ()
    assert TABLE.state(condition(row.type, good)) == "good"
    assert TABLE.state(condition(row.type, "Unknown")) == "unknown"


@pytest.mark.parametrize("row", TABLE.rows, ids=name)
def test_no_row_of_ours_may_act_alone_and_each_has_a_word_in_the_policy_or_is_only_recorded(row: Row) -> None:
    assert row.alone == "no"
    text = (BUILTIN.parents[1] / "node_conditions.yaml").read_text()
    if row.tier != "record" and row.kind == "condition":
        assert f'"{row.means}"' in text


def test_the_reporters_of_the_cluster_operators_we_know_of_are_in_the_table() -> None:
    words = " ".join(sorted({row.reporter for row in TABLE.rows}))
    for known in (
        "node-problem-detector",
        "GKE",
        "AKS",
        "EKS",
        "NVSentinel",
        "Slinky",
        "GCM",
        "OKE",
        "Nebius",
    ):
        assert known in words


EKS = "AcceleratedHardwareReady"
WRITTEN = {
    "EKS, one XID": (
        condition(EKS, "False", "NvidiaXID79Error", "detected XID-79 on the instance, review kernel logs"),
        {("xid", 79, None)},
    ),
    "EKS, an XID and what came later": (
        condition(EKS, "False", "DCGMError", "detected XID-79 on the instance; it is gone; detected XID-48"),
        {("xid", 79, None), ("xid", 48, None)},
    ),
    "EKS, a double bit error": (condition(EKS, "False", "NvidiaDoubleBitError", "x"), {("xid", 48, None)}),
    "EKS, no code": (
        condition(EKS, "False", "NvidiaDeviceCountMismatch", "7 < 8"), {("condition", None, None)},
    ),
    "EKS, well": (condition(EKS, "True", "NvidiaGPUIsReady", "Monitoring is active"), set()),
    "NVSentinel, two XIDs of one GPU": (
        condition(
            "SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy",
            f"ErrorCode:119 PCI:0002:00:00 GPU_UUID:GPU-2 {XID_LINE}. Recommended Action=COMPONENT_RESET;"
            "ErrorCode:94 PCI:0002:00:00 GPU_UUID:GPU-2 Contained ECC. Recommended Action=CONTACT_SUPPORT;",
        ),
        {("xid", 119, "0002:00:00"), ("xid", 94, "0002:00:00")},
    ),
    "NVSentinel, an NVSwitch": (
        condition("SysLogsSXIDError", "True", "x", "ErrorCode:20034 NVSWITCH:0 PCI:0000:c1:00 Fatal;"),
        {("sxid", 20034, "0000:c1:00")},
    ),
    "NVSentinel, off the bus": (
        condition("SysLogsGPUFallenOff", "True", "x", "ErrorCode:GPU_LOST PCI:0000:B3:00.0 GPU_UUID:G ;"),
        {("xid", 79, "0000:b3:00")},
    ),
    "NVSentinel, off an unknown bus": (condition("SysLogsGPUFallenOff"), {("xid", 79, None)}),
    "NVSentinel, DCGM": (
        condition("GpuInforomWatch", "True", "x", "ErrorCode:DCGM_FR_CORRUPT_INFOROM GPU:0"),
        {("condition", None, None)},
    ),
    "AKS, with the line": (condition("XIDErrors", message=XID_LINE), {("xid", 119, "0002:00:00")}),
    "AKS, without": (condition("XIDErrors", message="XID errors present"), {("condition", None, None)}),
    "a code too large for any store": (
        condition("XIDErrors", message="Xid (PCI:0002:00:00): 99999, x"), {("condition", None, None)},
    ),
    "nobody knows it": (condition("SomethingOfTheSite", "True", "Bad", "ErrorCode:79"), set()),
}  # fmt: skip


@pytest.mark.parametrize(("written", "read"), WRITTEN.values(), ids=WRITTEN)
def test_codes_are_read_as_their_reporters_write_them(
    written: Condition, read: set[tuple[str, int | None, str | None]]
) -> None:
    assert {(one.kind, one.code, one.pci) for one in TABLE.readings(written)} == read


WRONG = {
    "another column": (",reporter,", ",teller,", "reporter: Field required"),
    "one column more": (",trap\n", ",trap,more\n", "more"),
    "a status of its own": (",node,True,node", ",node,yes,node", "bad"),
    "no pattern": ("ErrorCode:(?P<code>", "ErrorCode:((?P<code>", "find"),
    "a pattern without a code": ("XID-)(?P<code>", "XID-)(?P<number>", "code"),
    "a type with two bad values": (
        f"{EKS},DCGMError,node,False", f"{EKS},DCGMError,node,True", "disagree"
    ),
    "a row twice": ("XfsShutdown,", "KernelDeadlock,", "twice"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "names"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused_with_its_place(tmp_path: Path, old: str, new: str, names: str) -> None:
    path = tmp_path / "conditions.csv"
    path.write_text(BUILTIN.read_text().replace(old, new))
    with pytest.raises(BadInput, match=names) as refused:
        load(path)
    assert str(path) in str(refused.value)


def test_a_table_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("type\n")
    for file in ("none.csv", "empty.csv"):
        with pytest.raises(BadInput, match=file):
            load(tmp_path / file)


def test_a_site_adds_rows_of_its_own_and_replaces_ours(tmp_path: Path) -> None:
    """gpud writes no condition; as a plug-in of node-problem-detector it has a name of the site's choice."""
    head = BUILTIN.read_text().splitlines()[0]
    gpud = "GpudBad,,node,True,our gpud,nvidia-smi,gpu-health,T1,xid,,XID (?P<code>[0-9]+),,no,ours"
    trusted = "SysLogsXIDError,,node,True,NVSentinel,kernel-log,gpu-health,by-code,xid,79,,,yes,trusted"
    (tmp_path / BUILTIN.name).write_text(f"{head}\n{gpud}\n{trusted}\n")
    table = load(overlay=tmp_path)
    assert len(table.rows) == len(TABLE.rows) + 1
    assert [one.code for one in table.readings(condition("GpudBad", message="XID 48"))] == [48]
    assert [one.row.alone for one in table.readings(condition("SysLogsXIDError"))] == ["yes"]


def test_an_overlay_without_such_a_file_changes_nothing(tmp_path: Path) -> None:
    assert load(overlay=tmp_path).rows == TABLE.rows
    assert load(overlay=tmp_path / "none").rows == TABLE.rows


def test_a_sites_row_that_disagrees_with_ours_is_refused_with_its_file(tmp_path: Path) -> None:
    head = BUILTIN.read_text().splitlines()[0]
    wrong = f"{EKS},Mine,node,True,our agent,dcgm,gpu-health,T1,condition,,,,no,upside down"
    (tmp_path / BUILTIN.name).write_text(f"{head}\n{wrong}\n")
    with pytest.raises(BadInput, match="disagree") as refused:
        load(overlay=tmp_path)
    assert str(tmp_path) in str(refused.value)
