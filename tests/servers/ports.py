"""Ports for servers that are started, and started again, a while after their port was chosen."""

from __future__ import annotations

import contextlib
import random
import socket

BELOW_EPHEMERAL = range(15_000, 32_000)
"""What the kernel gives to nobody's outgoing connection: one of those could take the port meanwhile."""


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback on which nobody listens."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            port = random.choice(BELOW_EPHEMERAL)
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    return found
