"""Kernel lines in the mixture of the labelled trace: of programs that crash and are torn down, of machines
that fall ill, and what follows each. The pure streams come in this proportion.
"""

from __future__ import annotations

from remediator.model.signal import Signal
from remediator.run.trace import LineRow, signals_of
from tests.bench.cluster import boot_id
from tests.bench.world import BATCH, NODES, OPEN
from tests.evidence.generate import Generator, Size

TRACE = Size(nodes=NODES - OPEN, days=2.5, rate=10.0, seed=1)
"""Ten times the published rate of faults, as `make bench-evidence` has it: 6,500 lines."""
STREAM = 3 * BATCH


def streams() -> list[list[Signal]]:
    """Of STREAM signals each, in the order of the trace, about nodes that have no open incident at first."""
    lines = [row for row in Generator(TRACE).rows() if isinstance(row, LineRow)]
    found = [signal for number, row in enumerate(lines) for signal in _signals(row, number)]
    return [found[at : at + STREAM] for at in range(0, len(found) - STREAM + 1, STREAM)]


def _signals(row: LineRow, number: int) -> list[Signal]:
    node = f"gpu-{OPEN + int(row.node.removeprefix('gpu-'))}"
    return signals_of(row, number, node=node, boot=boot_id(node))
