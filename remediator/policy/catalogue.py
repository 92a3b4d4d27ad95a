"""What vendors say about XIDs, SXids and NVLink 5 errors, and what this service makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from remediator.policy.table import Head, Row, load_table

FOLDER = Path(__file__).resolve().parents[2] / "policies" / "catalogue"
NVLINK5 = range(144, 151)


class XidRow(Row):
    """One XID."""

    xid: str
    name: str = Field(min_length=3)
    severity: Literal["info", "warning", "critical", "fatal", "by_rule", "by_target"]
    origin: str = Field(min_length=3)
    nvidia_action: str = Field(min_length=3)
    gpud_action: str = Field(min_length=3)
    nvsentinel_action: str = Field(min_length=3)
    azhpc_action: str = Field(min_length=3)
    dcgm_health: Literal["none", "WARN", "FAIL"]
    our_action: Literal[
        "record",
        "ignore",
        "restart_job",
        "reset_gpu",
        "reset_gpu_when_idle",
        "reboot_node",
        "replace_node",
        "by_companion",
        "by_register",
        "by_nvlink5_rule",
        "from_target_action",
        "clears_163",
    ]
    needs_repeat: str = Field(min_length=2)


class SxidRow(Row):
    """One SXid, or a span of them."""

    sxid: str
    name: str = Field(min_length=3)
    gpud_event: Literal["Fatal", "Warning", "absent"]
    gpud_action: str = Field(min_length=3)
    nvsentinel_action: str = Field(min_length=3)
    our_action: Literal[
        "record",
        "record_and_page",
        "reset_gpu",
        "reboot_node",
        "reboot_node_if_fatal",
        "replace_node",
        "thermal",
        "clears",
    ]
    needs_repeat: str = Field(min_length=2)


class Nvlink5Row(Row):
    """One NVLink 5 error; the patterns are of 32 bits, highest first, `-` for any, and a unit with a slash is
    printed by either name.
    """

    xid: int = Field(ge=NVLINK5.start, lt=NVLINK5.stop)
    unit: str = Field(pattern=r"^[A-Z][A-Z0-9_/]+$")
    sub_code: int = Field(ge=0, le=63)
    intr_info_v1: str = Field(pattern=r"^[01-]{32}$")
    intr_info_v2: str = Field(pattern=r"^[01-]{32}$")
    error_status: str = Field(pattern=r"^0x[0-9a-f]{8}$")
    severity: str = Field(min_length=3)
    nvidia_action: Literal["RESET_GPU", "IGNORE", "XID_154_EVAL"]
    investigate: str = Field(min_length=3)
    at_fault: str = Field(min_length=2)
    our_action: Literal["reset_gpu", "record", "by_verdict"]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All tables; the codes of a span share a row."""

    xid: Mapping[int, XidRow]
    sxid: Mapping[int, SxidRow]
    nvlink5: tuple[Nvlink5Row, ...]
    sources: Mapping[str, str]
    heads: Mapping[str, Head]

    def row(self, table: str, code: int) -> XidRow | SxidRow | None:
        """The row of a code in the table `xid` or `sxid`."""
        return self.xid.get(code) if table == "xid" else self.sxid.get(code)

    def knows(self, table: str, code: int | None) -> bool:
        """Whether a code is in the table that a kind names; kinds without a table know every code."""
        return table not in {"xid", "sxid"} or code is None or self.row(table, code) is not None


def load(folder: Path = FOLDER) -> Catalogue:
    """All tables of a folder; PolicyError names file, line and column of what is wrong."""
    return _builtin() if folder == FOLDER else _load(folder)


@cache
def _builtin() -> Catalogue:
    return _load(FOLDER)


def _load(folder: Path) -> Catalogue:
    xid = load_table(folder / "xid.csv", XidRow)
    sxid = load_table(folder / "sxid.csv", SxidRow)
    nvlink5 = load_table(folder / "nvlink5.csv", Nvlink5Row)
    return Catalogue(
        xid.by_code("xid"),
        sxid.by_code("sxid"),
        tuple(row for _, row in nvlink5.lines),
        {**xid.sources, **sxid.sources},
        {"xid": xid.head, "sxid": sxid.head, "nvlink5": nvlink5.head},
    )
