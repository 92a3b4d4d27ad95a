"""A node's kernel-log file: records as /dev/kmsg gives them, `priority,sequence,microseconds,flags;text`."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.spec import GPU_PCI

_ERROR = 3
_UNKNOWN = "pid='<unknown>', name=<unknown>"
_PROCESS = "pid=4242, name=python"

# What the driver prints for each code, as seen in public logs.
_XID_TEXT = {
    13: f"{_PROCESS}, Graphics Exception: ESR 0x4041b0=0x0",
    31: f"{_PROCESS}, Ch 00000023, intr 00000000. MMU Fault: ENGINE CE0 HUBCLIENT_HSCE0 faulted @ "
    "0x0_0abe0000. Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_READ",
    43: f"{_PROCESS}, channel 0x0b00000a",
    45: f"{_PROCESS}, Ch 00000001 caused by previous Xid 149",
    48: f"{_UNKNOWN}, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
    "partition 6, subpartition 0.",
    63: "pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: f"{_UNKNOWN}, Row Remapper: Unable to remap row, all reserved rows are in use.",
    74: f"{_UNKNOWN}, NVLink: fatal error detected on link 14(0x100000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: f"{_UNKNOWN}, GPU has fallen off the bus.",
    94: f"{_UNKNOWN}, Contained: SM (0x1). RST: No, D-RST: No",
    95: "pid=7062, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
    119: f"{_PROCESS}, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 "
    "(GSP_RM_CONTROL) (0x20802a02 0x8).",
    120: f"{_PROCESS}, GSP task exception: Timeout (cause:0x5) @ pc:0x5e2c8c, partition:4#0, task:1",
    154: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
}


def xid_line(code: int, gpu: int = 0) -> str:
    """The line the NVIDIA driver prints for an XID code on one of the node's GPUs."""
    if not 0 <= gpu < len(GPU_PCI):
        raise LabError(f"no GPU {gpu}: a node has 0 to {len(GPU_PCI) - 1}")
    return f"NVRM: Xid (PCI:{GPU_PCI[gpu]}): {code}, {_XID_TEXT.get(code, _UNKNOWN)}"


def append(node_dir: Path, text: str) -> int:
    """Append one record with the next sequence number and the node's uptime; returns the sequence number.
    LabError when the node was never powered on.
    """
    try:
        booted = float((node_dir / "booted_at").read_text())
    except OSError:
        raise LabError(f"node {node_dir.name} has no kernel log: is the lab up?") from None
    with (node_dir / "kmsg").open("r+b") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        sequence = _next_sequence(log.read())
        microseconds = round((time.clock_gettime(time.CLOCK_BOOTTIME) - booted) * 1e6)
        log.write(f"{_ERROR},{sequence},{microseconds},-;{escape(text)}\n".encode())
        log.flush()
    return sequence


def _next_sequence(data: bytes) -> int:
    last = data.rstrip(b"\n").rpartition(b"\n")[2]
    return int(last.split(b",")[1]) + 1 if last else 0


def escape(text: str) -> str:
    r"""Text as the kernel shows it: backslash and whatever does not print become \xNN, byte by byte."""
    data = text.encode(errors="surrogateescape")
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 0x5C else f"\\x{byte:02x}" for byte in data)
