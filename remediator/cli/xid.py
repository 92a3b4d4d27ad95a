"""`remediator xid parse`: what the agent would make of kernel-log lines, from standard input."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from remediator.agent.kernel_log import parse as parse_line
from remediator.model.signal import KernelEvent

app = typer.Typer(no_args_is_help=True, help="Kernel-log lines of GPUs and switches.")


@app.callback()
def xid() -> None:
    """Kernel-log lines of GPUs and switches."""


@app.command()
def parse(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each line read.")] = False,
) -> None:
    """Read kernel-log lines on standard input and print the events in them."""
    found = 0
    try:
        for data in sys.stdin.buffer:
            event = parse_line(data.decode(errors="replace"))
            found += event is not None
            if as_json:
                print(json.dumps(_fields(event)))
            elif event is not None:
                print(_readable(event))
    except BrokenPipeError:
        # The reader of our output (`head`) is satisfied; Python would complain again at exit.
        sys.stderr.close()
        return
    if not found and not as_json:
        print("no event in what was read", file=sys.stderr)


def _fields(event: KernelEvent | None) -> dict[str, Any]:
    """The documented fields in their order; a line without an event has kind `none`."""
    event = event or KernelEvent(kind="none")
    return {
        "xid": event.xid,
        "pci": event.pci,
        "pid": event.pid,
        "process": event.process,
        "extra": {"kind": event.kind, **event.extra},
    }


def _readable(event: KernelEvent) -> str:
    """One line: what, where, who, then the details as name=value."""
    what = f"XID {event.xid}" if event.xid is not None else event.kind
    who = "" if event.pid is None else f"pid {event.pid} {event.process or ''}".rstrip()
    details = " ".join(f"{name}={_short(value)}" for name, value in event.extra.items())
    return f"{what:<16} {event.pci or '-':<13} {who:<24} {details}".rstrip()


def _short(value: Any) -> str:
    return "?" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
