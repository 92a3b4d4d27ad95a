"""Every row of NVLink 5's table, in both layouts of IntrInfo, as the line a driver would print for it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remediator.agent.kernel_log import parse
from remediator.policy.catalogue import load

ROWS: list[Any] = list(load().nvlink5)
SUB_CODE = slice(6, 12)  # bits 25 to 20, the highest bit first


@given(st.sampled_from(ROWS), st.booleans(), st.integers(0, 2**32 - 1), st.integers(-1, 17), st.booleans())
def test_a_line_is_read_as_its_row_in_either_layout(
    row: Any, newer: bool, noise: int, link: int, cut: bool
) -> None:
    pattern = row.intr_info_v2 if newer else row.intr_info_v1
    free = f"{noise:032b}"
    bits = "".join(free[at] if bit == "-" else bit for at, bit in enumerate(pattern))
    unit = row.unit.split("/")[0]
    words = f"0x{int(bits, 2):08x} {row.error_status}"
    rest = "" if cut else " 0x00000000 0x00000000 0x00000000 0x00000000)"
    event = parse(
        f"NVRM: Xid (PCI:0018:01:00): {row.xid}, {unit} Nonfatal XC1 i0 Link {link:02d} ({words}{rest}"
    )
    assert event is not None
    assert (event.xid, event.extra["unit"], event.extra["link"]) == (row.xid, unit, link)
    assert event.extra["sub_code"] == int(bits[SUB_CODE], 2)
    assert (event.extra["intr_info"], event.extra["error_status"]) == (words[:10], row.error_status)
