"""`python -m deploy.lab inject ...`: faults by name."""

from __future__ import annotations

import enum
import signal
from typing import Annotated

import typer

from deploy.lab.api import Lab

inject = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="Break something, or mend it."
)
Gpu = Annotated[int, typer.Argument(help="0 to 7")]


class OnOff(enum.StrEnum):
    """A switch."""

    ON = "on"
    OFF = "off"


class Cable(enum.StrEnum):
    """What to do with a cable."""

    CUT = "cut"
    PLUG = "plug"


class Slurmd(enum.StrEnum):
    """What to do to slurmd."""

    KILL = "kill"
    FREEZE = "freeze"
    THAW = "thaw"


class Restart(enum.StrEnum):
    """What to do to a server that is only restarted."""

    RESTART = "restart"


class Server(enum.StrEnum):
    """What to do to a server."""

    KILL = "kill"
    START = "start"
    RESTART = "restart"


_SIGNALS = {Slurmd.KILL: signal.SIGKILL, Slurmd.FREEZE: signal.SIGSTOP, Slurmd.THAW: signal.SIGCONT}


def _lab(context: typer.Context) -> Lab:
    lab: Lab = context.obj
    return lab


@inject.command("kernel-line")
def kernel_line(context: typer.Context, node: str, text: str) -> None:
    """Append TEXT to a node's kernel log."""
    typer.echo(_written(node, _lab(context).inject.kernel_line(node, text)))


@inject.command()
def xid(context: typer.Context, node: str, code: int, gpu: int = 0) -> None:
    """The driver's own line for an XID code."""
    typer.echo(_written(node, _lab(context).inject.xid(node, code, gpu)))


def _written(node: str, record: int) -> str:
    return f"record {record} of {node}'s kernel log. Next: python -m deploy.lab remediator incidents list"


@inject.command("ib-port")
def ib_port(context: typer.Context, node: str, device: str, state: str, phys_state: str) -> None:
    """What an HCA says of its port: "1: DOWN" "3: Disabled", or "4: ACTIVE" "5: LinkUp"."""
    _lab(context).inject.port(node, device, state=state, phys_state=phys_state)
    typer.echo(f"{device} of {node} says {state}, {phys_state}")


@inject.command("hca-gone")
def hca_gone(context: typer.Context, node: str, device: str) -> None:
    """An HCA falls off the bus."""
    _lab(context).inject.hca_gone(node, device)
    typer.echo(f"{device} of {node} is gone; hca-back brings it back")


@inject.command("hca-back")
def hca_back(context: typer.Context, node: str, device: str) -> None:
    """The HCA that was gone is back."""
    _lab(context).inject.hca_back(node, device)
    typer.echo(f"{device} of {node} is back")


@inject.command()
def counter(context: typer.Context, node: str, device: str, counter: str, value: int) -> None:
    """Set an InfiniBand counter, e.g. gpu-0 mlx5_0 symbol_error 7."""
    _lab(context).inject.counter(node, device, counter, value)
    typer.echo(f"{counter} of {device} on {node} is {value}")


@inject.command()
def heat(context: typer.Context, node: str, gpu: Gpu, celsius: float) -> None:
    """Set a GPU's temperature."""
    _lab(context).inject.heat(node, gpu, celsius)
    typer.echo(f"GPU {gpu} of {node} is at {celsius:g} C")


@inject.command()
def dcgm(context: typer.Context, node: str, gpu: Gpu, gauge: str, value: int) -> None:
    """Set a gauge of dcgm-exporter, e.g. gpu-0 3 xid 79, or gpu-0 3 PCIE 20 (a failed check)."""
    _lab(context).inject.dcgm(node, gpu, gauge, value)
    typer.echo(f"{gauge} of GPU {gpu} on {node} is {value}")


@inject.command()
def nvml(context: typer.Context, node: str, gpu: Gpu, name: str, value: int) -> None:
    """Set what the driver says of a GPU, e.g. gpu-0 3 field.230 2 (reboot me), or gpu-0 3 tensor 60."""
    _lab(context).inject.nvml(node, gpu, name, value)
    typer.echo(f"{name} of GPU {gpu} on {node} is {value}")


@inject.command("gpu-lost")
def gpu_lost(context: typer.Context, node: str, gpu: Gpu) -> None:
    """A GPU falls off the bus: device plugin, kernel log and NVML."""
    _lab(context).inject.gpu_lost(node, gpu)
    typer.echo(f"GPU {gpu} of {node} is lost")


@inject.command("gpu-found")
def gpu_found(context: typer.Context, node: str, gpu: Gpu) -> None:
    """The GPU is back."""
    _lab(context).inject.gpu_found(node, gpu)
    typer.echo(f"GPU {gpu} of {node} is back")


@inject.command("kubelet-hung")
def kubelet_hung(context: typer.Context, node: str, state: OnOff) -> None:
    """The kubelet hangs; its pods run on."""
    _lab(context).inject.kubelet_hung(node, state is OnOff.ON)
    typer.echo(f"{node}: kubelet hung {state.value}")


@inject.command()
def cable(context: typer.Context, node: str, what: Cable) -> None:
    """Cut or plug the node's network cable."""
    _lab(context).inject.cable(node, what is Cable.PLUG)
    typer.echo(f"{node}: cable {what.value}")


@inject.command()
def power(context: typer.Context, node: str, state: OnOff) -> None:
    """Pull the plug, or boot with a new boot id."""
    _lab(context).inject.power(node, state is OnOff.ON)
    typer.echo(f"{node}: power {state.value}")


@inject.command()
def freeze(context: typer.Context, node: str, state: OnOff) -> None:
    """Every process of the node stands still."""
    _lab(context).inject.freeze(node, state is OnOff.ON)
    typer.echo(f"{node}: freeze {state.value}")


@inject.command()
def slurmd(context: typer.Context, node: str, what: Slurmd) -> None:
    """Kill, freeze or thaw slurmd on a node; its jobs' own processes are left alone."""
    _lab(context).inject.slurmd(node, _SIGNALS[what])
    typer.echo(f"{node}: slurmd {what.value}")


@inject.command("api-partition")
def api_partition(context: typer.Context, node: str, state: OnOff) -> None:
    """Packets from the node to the API server are lost."""
    _lab(context).inject.api_partition(node, state is OnOff.ON)
    typer.echo(f"{node}: API partition {state.value}")


@inject.command()
def api(context: typer.Context, what: Restart) -> None:  # noqa: ARG001 (restart is all there is)
    """Restart the API server: kill -9, then start."""
    _lab(context).inject.restart("apiserver")
    typer.echo("the API server is started again")


def _server(context: typer.Context, part: str, what: Server) -> None:
    {Server.KILL: _lab(context).inject.kill, Server.START: _lab(context).inject.start}.get(
        what, _lab(context).inject.restart
    )(part)
    typer.echo(f"{part}: {what.value}")


@inject.command()
def slurmrestd(context: typer.Context, what: Server) -> None:
    """Kill -9, start or restart slurmrestd."""
    _server(context, "slurmrestd", what)


@inject.command()
def slurmctld(context: typer.Context, what: Server) -> None:
    """Kill -9, start or restart slurmctld; its saved state is kept."""
    _server(context, "slurmctld", what)
