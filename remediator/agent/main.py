"""The agent's process: settings, signals, one loop, one HTTP port."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from remediator.agent.checkpoint_clock import CheckpointClock
from remediator.agent.collector import Collector, Log, Looking
from remediator.agent.fabric.infiniband import InfiniBand
from remediator.agent.http import Server
from remediator.agent.loop import Agent
from remediator.agent.nvml.gpus import Gpus, Lateness
from remediator.agent.push import HttpPusher
from remediator.agent.settings import PREFIX, AgentSettings, load
from remediator.clock import Clock, SystemClock
from remediator.errors import RemediatorError
from remediator.observe import logs
from remediator.observe.health import Health

SILENT_S = 30.0


class Stop:
    """SIGTERM and SIGINT end the wait for the kernel log at once."""

    def __init__(self) -> None:
        self.asked = False
        self.fd, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM; 2 when the settings are wrong."""
    given = sys.argv[1:] if arguments is None else arguments
    path = _config(given) if given else os.environ.get(f"{PREFIX}CONFIG")
    try:
        _serve(load(Path(path) if path else None, os.environ))
    except (RemediatorError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _config(arguments: list[str]) -> str | None:
    """The settings file among the arguments; SystemExit when they are wrong."""
    import argparse  # noqa: PLC0415 - half a megabyte for what a DaemonSet does not use

    parser = argparse.ArgumentParser(prog="python -m remediator.agent", description=__doc__)
    parser.add_argument("--config", default=os.environ.get(f"{PREFIX}CONFIG"), help="settings in YAML")
    found: str | None = parser.parse_args(arguments).config
    return found


def _serve(settings: AgentSettings) -> None:
    clock, stop = SystemClock(), Stop()
    logs.configure(settings.log_level, clock=clock)
    log = logs.logger(node=settings.node)
    pusher = HttpPusher(settings)
    checkpoints = CheckpointClock(settings, clock, log) if settings.looks_at_checkpoints else None
    agent = Agent(settings, pusher, clock, log, checkpoints=checkpoints)
    health = Health(clock)
    beat = health.loop("kernel-log", SILENT_S)
    server = Server(settings.metrics_host, settings.metrics_port, agent.metrics.registry, health)
    server.start()
    log.info("agent started", kernel_log=settings.kernel_log, port=server.port)
    looks = _looks(settings, agent, clock, log)
    looks += [Looking(checkpoints, agent.tell, clock, log, agent.nudge)] if checkpoints else []
    for look in looks:
        look.start()
    try:
        while not stop.asked:
            beat()
            seconds = agent.turn()
            wait((stop.fd, *agent.wakers), seconds)
    finally:
        for look in looks:
            look.stop()
        agent.close()
        pusher.close()
        server.shutdown()
        server.server_close()
    log.info("agent stopped")


def _looks(settings: AgentSettings, agent: Agent, clock: Clock, log: Log) -> list[Looking]:
    """A thread for each kind of hardware."""
    gpus = Gpus(settings, clock, log)
    agent.metrics.registry.register(gpus.series)
    collectors: list[Collector] = [InfiniBand(settings, agent.metrics.fabric, clock, log)]
    if gpus.every_s:
        collectors += [gpus, Lateness(gpus, log)]
    return [Looking(collector, agent.tell, clock, log) for collector in collectors]


def wait(descriptors: Iterable[int], seconds: float) -> None:
    """Until one of them can be read, or `seconds` have passed."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(seconds * 1000)
