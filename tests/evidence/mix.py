"""What breaks, how often, and what of it can be seen: the published mixes, and manifestations for each cause.

Unexpected interruptions of Llama 3 405B: 419 in 54 days on 16,384 GPUs, 2,048 machines (The Llama 3 Herd of
Models, arXiv 2407.21783, table 5; the counts below add up to 419, its printed shares do not). How a cause
shows is our own reading of NVIDIA's catalogue of XIDs. `hardware` is the state of the machine and the only
label there is; which tier or rule may speak about it is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from remediator.run.trace import Hardware

LLAMA_FAULTS, LLAMA_NODE_DAYS = 419, 2048 * 54
PER_NODE_DAY = LLAMA_FAULTS / LLAMA_NODE_DAYS  # 3.8 per 1,000 node-days; Meta's RSC clusters had 6.5 and 2.3

LLAMA = {
    "faulty GPU": 148,
    "GPU HBM3 memory": 72,
    "software bug": 54,
    "network switch or cable": 35,
    "host maintenance": 32,
    "GPU SRAM memory": 19,
    "GPU system processor": 17,
    "NIC": 7,
    "NCCL watchdog timeout": 7,
    "silent data corruption": 6,
    "GPU thermal interface or sensor": 6,
    "SSD": 3,
    "power supply": 3,
    "server chassis": 2,
    "IO expansion board": 2,
    "dependency": 2,
    "CPU": 2,
    "system memory": 2,
}


@dataclass(frozen=True)
class Shape:
    """One way a cause can show: kernel lines, an alert, a host that is gone. `share` is its part of the
    cause, and `crash_s` the seconds until the job there ends of it; None: it does not.
    """

    name: str
    share: float
    hardware: Hardware
    lines: tuple[str, ...] = ()
    alert: str = ""
    host: str = ""
    crash_s: float | None = 20.0


def _xid(code: int, text: str) -> str:
    return f"NVRM: Xid (PCI:0000:{{bus}}:00): {code}, {text}"


OFF_THE_BUS = _xid(79, "pid=1234, name=python, GPU has fallen off the bus.")
FELL = "NVRM: GPU 0000:{bus}:00.0: GPU has fallen off the bus."
REMAP_FAILED = _xid(64, "Row remapper failure: no spare rows, pid='<unknown>', name=<unknown>")
DBE = _xid(48, "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error")
REMAPPED = _xid(63, "pid='<unknown>', name=<unknown>, Row remapper: new row marked for remapping, reset gpu")
CONTAINED = _xid(94, "pid=1234, name=python, Contained: SM (0x1). RST: No, D-RST: No")
UNCONTAINED = _xid(95, "pid=1234, name=python, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No")
NVLINK = _xid(74, "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4"
                  "(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)")  # fmt: skip
GSP = _xid(119, "pid=1234, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0 GSP!")
GSP_ERROR = _xid(120, "pid='<unknown>', name=<unknown>, GSP task exception: illegal instruction")
REBOOT = _xid(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
RESET = _xid(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
LEFT = _xid(45, "pid=1234, name=python, Ch 0000000a")
MEMORY = _xid(31, "pid=1234, name=python, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS")
ENGINE = _xid(
    13, "pid=1234, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Illegal Address"
)
STOPPED = _xid(43, "pid=1234, name=python, Ch 0000000a")

SHAPES: dict[str, tuple[Shape, ...]] = {
    "faulty GPU": (
        Shape("off the bus", 0.35, "dead", (OFF_THE_BUS, LEFT)),
        Shape("off the bus without an XID", 0.10, "dead", (FELL,)),
        Shape("driver asks for a reboot", 0.10, "dead", (REBOOT, LEFT)),
        Shape("NVLink error", 0.25, "degraded", (NVLINK, LEFT)),
        Shape("uncontained error", 0.20, "degraded", (UNCONTAINED, RESET, LEFT)),
    ),
    "GPU HBM3 memory": (
        Shape("row remap failed", 0.20, "dead", (DBE, REMAP_FAILED, LEFT)),
        Shape("double-bit error", 0.45, "degraded", (DBE, REMAPPED, LEFT)),
        Shape("contained memory error", 0.35, "degraded", (CONTAINED, REMAPPED, LEFT)),
    ),
    "GPU SRAM memory": (Shape("SRAM error", 1.0, "degraded", (DBE, UNCONTAINED, RESET, LEFT)),),
    "GPU system processor": (
        Shape("GSP timeout", 0.8, "degraded", (GSP, GSP, RESET), crash_s=90.0),
        Shape("GSP error", 0.2, "degraded", (GSP_ERROR, RESET), crash_s=30.0),
    ),
    "network switch or cable": (
        Shape("link of a machine down", 0.6, "degraded", alert="IbPortDown", crash_s=60.0),
        Shape("leaf switch", 0.4, "well", alert="leaf", crash_s=60.0),
    ),
    "NIC": (Shape("NIC down", 1.0, "degraded", alert="IbPortDown", crash_s=60.0),),
    "GPU thermal interface or sensor": (
        Shape("hot GPU", 0.7, "degraded", alert="GpuHot", crash_s=None),
        Shape("broken sensor", 0.3, "well", alert="GpuHotGlitch", crash_s=None),
    ),
    "silent data corruption": (Shape("wrong results", 1.0, "degraded", crash_s=600.0),),
    "software bug": (
        Shape("program's fault", 0.5, "well", (MEMORY, STOPPED)),
        Shape("crash", 0.5, "well"),
    ),
    "dependency": (Shape("crash", 1.0, "well"),),
    "NCCL watchdog timeout": (Shape("collective time-out", 1.0, "well", (LEFT,)),),
    "host maintenance": (Shape("a person's drain", 1.0, "well", host="person", crash_s=None),),
    "SSD": (Shape("host stands still", 1.0, "dead", host="silent", crash_s=None),),
    "power supply": (Shape("host off", 1.0, "dead", host="silent", crash_s=None),),
    "server chassis": (Shape("host off", 1.0, "dead", host="silent", crash_s=None),),
    "IO expansion board": (Shape("GPU gone with its board", 1.0, "dead", (FELL, OFF_THE_BUS)),),
    "CPU": (Shape("host stands still", 1.0, "dead", host="silent", crash_s=None),),
    "system memory": (Shape("host stands still", 1.0, "dead", host="silent", crash_s=None),),
}

NOISE_PER_NODE_DAY = {
    "impossible temperature": 0.004,
    "exporter restart": 0.004,
    "agent restart": 0.004,
    "xid 45 alone": 0.002,
    "unknown code": 0.0005,
}
"""What looks like a fault and is none: rates are ours, high enough to be seen in a slice of 200 node-days."""
SITE_PER_DAY = {"cooling": 0.15, "partition": 0.25, "storm": 1.0}
"""What many machines show at once; whose fault it is not: theirs."""
CRASHES = 0.25
"""Part of all jobs that end badly without any fault of a machine; Meta's RSC jobs FAILED about that often."""
