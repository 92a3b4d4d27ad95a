"""The collector: looks at every port, keeps what outlives the agent, and says what is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from remediator.agent.boot import read_boot_id
from remediator.agent.collector import Log
from remediator.agent.fabric.counters import Totals
from remediator.agent.fabric.files import names
from remediator.agent.fabric.memory import Known, Memory
from remediator.agent.fabric.metrics import FabricMetrics, Look, Shown
from remediator.agent.fabric.ports import Port, read_port
from remediator.agent.fabric.topology import Place, gpus_of, netdev_of, place_of, rails_of
from remediator.agent.fabric.watch import Lost, Watch, Wire
from remediator.agent.settings import AgentSettings
from remediator.agent.state import StateDir
from remediator.clock import Clock
from remediator.errors import BadInput
from remediator.model.signal import KernelEvent

FILE = "fabric.json"
"""Name of the memory below the state directory."""


class InfiniBand:
    """Every port below `sysfs_root`; a node without any is told of once."""

    name = "infiniband"

    def __init__(self, settings: AgentSettings, metrics: FabricMetrics, clock: Clock, log: Log) -> None:
        self.every_s = settings.ib_interval_s
        self._settings, self._metrics, self._clock, self._log = settings, metrics, clock, log
        self._root = settings.sysfs_root
        self._folder = self._root / "class" / "infiniband"
        self._state = StateDir(settings.state_dir)
        self._memory = self._state.load(FILE, Memory) or Memory()
        self._watch = Watch(settings.ib_down_s)
        self._places: dict[str, Place] = {}
        self._totals: dict[str, Totals] = {}
        self._told_of_none = False

    def look(self, now: float, steady: float) -> list[KernelEvent]:
        """Read all ports; OSError when /sys itself is not there: then nothing is known, and nothing gone."""
        if not self._folder.parent.is_dir():
            raise FileNotFoundError(f"{self._folder.parent} is not there")
        devices = self._devices()
        ports = [port for device in devices for port in self._ports(device)]
        self._remember(ports, now)
        rails = self._rails()
        shown = [self._shown(port, rails, now) for port in ports]
        lost = list(self._lost(devices, rails))
        gone = [one for device in lost for one in self._gone(device, now)]
        took = self._clock.steady() - steady
        self._metrics.look = Look((*shown, *gone), len(devices), now, took)
        return self._watch.look(_wires(shown), lost, steady)

    # --- reading

    def _devices(self) -> list[str]:
        devices = [name for name in names(self._folder) if name not in self._settings.ib_exclude]
        if not devices and not self._memory.devices and not self._told_of_none:
            self._told_of_none = True
            self._log.info("no InfiniBand here", folder=str(self._folder))
        self._settle(devices)
        return devices

    def _settle(self, devices: list[str]) -> None:
        """Look up where devices sit that have come, and forget those that have gone."""
        self._places = {name: place for name, place in self._places.items() if name in devices}
        new = [name for name in devices if name not in self._places]
        gpus = gpus_of(self._root) if new else {}
        for name in new:
            self._places[name] = place_of(self._folder / name, gpus)

    def _ports(self, device: str) -> Iterator[Port]:
        folder, place = self._folder / device, self._places[device]
        try:
            numbers = [number for number in names(folder / "ports") if number.isdecimal()]
        except OSError:
            return
        for number in numbers:
            port = read_port(folder, number, netdev_of(self._root, place, number))
            self._totals.setdefault(port.key, Totals()).take(port.counters)
            yield port

    # --- remembering

    def _remember(self, ports: list[Port], now: float) -> None:
        before = self._memory
        memory = before.of_boot(self._boot())
        for port in ports:
            place, layer = self._places[port.device], port.link_layer or memory.layer(port.device)
            memory = memory.with_device(
                port.device, Known(path=place.path, pci=place.pci, layer=layer, gpu=place.gpu)
            )
            if port.up and port.rate is not None:
                memory = memory.with_rate(port.key, port.rate, now)
        self._memory = memory
        if memory != before:
            self._save()

    def _save(self) -> None:
        try:
            self._state.save(FILE, self._memory)
        except OSError as error:
            self._log.warning("state cannot be written", error=error.strerror, file=FILE)

    def _boot(self) -> str:
        try:
            return read_boot_id(self._settings.boot_id_path)
        except BadInput:
            return self._memory.boot_id

    # --- judging

    def _rails(self) -> dict[str, str]:
        known = self._memory.devices
        layers = {name: one.layer for name, one in known.items()}
        return rails_of(layers, [name for name, one in known.items() if one.gpu], self._settings.ib_rails)

    def _shown(self, port: Port, rails: Mapping[str, str], now: float) -> Shown:
        return Shown(
            key=(port.device, port.number),
            rail=rails.get(port.device, ""),
            place=self._places[port.device],
            port=port,
            best=self._memory.best(port.key, now),
            totals=self._totals[port.key],
        )

    def _lost(self, devices: list[str], rails: Mapping[str, str]) -> Iterator[Lost]:
        """Devices of this boot's fabric that are not there; where nobody can know, none."""
        for name, known in self._memory.devices.items():
            if name in devices or name not in rails or name in self._settings.ib_exclude:
                continue
            if known.path:
                in_pci: bool | None = Path(known.path).exists()
            elif self._folder.is_dir():
                in_pci = None
            else:
                continue
            yield Lost(name, rails[name], gpu=known.gpu, pci=known.pci, in_pci=in_pci)

    def _gone(self, lost: Lost, now: float) -> Iterator[Shown]:
        """The ports of a device that is gone: down, and not just absent."""
        for key in self._memory.ports_of(lost.device):
            number = key.rpartition("/")[2]
            best = self._memory.best(key, now)
            yield Shown((lost.device, number), lost.rail, Place(gpu=lost.gpu), None, best=best)


def _wires(shown: list[Shown]) -> Iterator[Wire]:
    """Ports that belong to the fabric and have been up: one that never was is nobody's loss."""
    for one in shown:
        if one.port is not None and one.rail and one.best is not None:
            yield Wire(one.port, one.rail, one.place.gpu, one.place.pci, one.best)
