"""Where a device sits: its PCI address, its network interface, the GPU beside it, its rail."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from remediator.agent.fabric.files import Files, in_order, names
from remediator.agent.pci import device as pci_of

INFINIBAND = "InfiniBand"
_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers


@dataclass(frozen=True, slots=True)
class Place:
    """What does not change while a device is there; empty where it cannot be known.

    `path` is its place in the PCI tree, `gpu` the index of the only GPU that is nearest to it.
    """

    path: str = ""
    pci: str = ""
    gpu: str = ""
    firmware: str = ""
    model: str = ""
    description: str = ""


def place_of(device: Path, gpus: Mapping[str, str]) -> Place:
    """The place of the device in folder `device`; `gpus` are paths of GPUs and their indices."""
    files = Files()
    path = os.path.realpath(device / "device") if (device / "device").exists() else ""
    return Place(
        path=path,
        pci=pci_of(Path(path).name).pci or "" if path else "",
        gpu=nearest(path, gpus),
        firmware=files.text(f"{device}/fw_ver") or "",
        model=files.text(f"{device}/hca_type") or "",
        description=files.text(f"{device}/node_desc") or "",
    )


def netdev_of(root: Path, place: Place, port: str) -> Path | None:
    """The folder of a port's network interface; None where it has none, or several and none is its own."""
    try:
        found = names(f"{place.path}/net") if place.path else []
    except OSError:
        return None
    folders = [root / "class" / "net" / name for name in found]
    if len(folders) > 1:
        files = Files()
        folders = [one for one in folders if files.number(f"{one}/dev_port") == int(port) - 1]
    return folders[0] if len(folders) == 1 else None


def gpus_of(root: Path) -> dict[str, str]:
    """NVIDIA's GPUs in the PCI tree, numbered in the order of their addresses as NVML does."""
    files, folder = Files(), root / "bus" / "pci" / "devices"
    try:
        found = [name for name in names(folder) if _is_gpu(files, folder / name)]
    except OSError:
        return {}
    return {os.path.realpath(folder / name): str(index) for index, name in enumerate(sorted(found))}


def _is_gpu(files: Files, folder: Path) -> bool:
    vendor, kind = files.text(f"{folder}/vendor"), files.text(f"{folder}/class")
    return vendor == _NVIDIA and (kind or "").startswith(_GPU_CLASSES)


def nearest(path: str, gpus: Mapping[str, str]) -> str:
    """The index of the GPU that shares most bridges with `path`; empty when none or several do."""
    shared = {index: _shared(path, gpu) for gpu, index in gpus.items()} if path else {}
    most = max(shared.values(), default=0)
    best = [index for index, bridges in shared.items() if bridges == most]
    return best[0] if most and len(best) == 1 else ""


def _shared(one: str, other: str) -> int:
    """Bridges above both, the host bridge first."""
    below = [[part for part in path.split(os.sep) if ":" in part] for path in (one, other)]
    count = 0
    for first, second in zip(*below, strict=False):
        if first != second:
            break
        count += 1
    return count


def rails_of(layers: Mapping[str, str], beside: Iterable[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Device -> rail: as chosen, else by order among InfiniBand devices; where there are none, among those
    that sit `beside` a GPU.

    A device without a rail serves storage or management: it is read, and nobody is woken for it.
    """
    if chosen:
        return {name: chosen[name] for name in layers if name in chosen}
    fabric = [name for name, layer in layers.items() if layer == INFINIBAND] or beside
    return {name: str(rail) for rail, name in enumerate(ordered(fabric))}


def ordered(devices: Iterable[str]) -> list[str]:
    """Devices with numbers in their names as numbers."""
    return sorted(devices, key=in_order)
