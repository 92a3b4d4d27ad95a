"""A drain that somebody else has set is seen in the list of nodes, with its words, its user and its time."""

from __future__ import annotations

from remediator.kube.nodes import NodeView
from remediator.model.signal import Signal
from remediator.signals.drains import drains
from tests.contract.slurm.worlds import DEADLINE, World, node

NHC = "NHC: check_hw_gpu: 7 of 8"


def seen(world: World) -> dict[str, Signal]:
    """All drains, of workers that are on a node of their own name."""
    home = NodeView("gpu-0", "u", "1", "", "boot-1", {}, {}, (), False, True)
    homes = {f"gpu-{number}": home for number in range(3)}
    return drains(world.port.nodes(deadline=DEADLINE), homes, 0.0, 4e9)


def test_a_drain_is_one_signal_however_often_the_list_is_read(world: World) -> None:
    assert seen(world) == {}
    world.port.drain("gpu-0", NHC, deadline=DEADLINE)
    first, again = seen(world), seen(world)
    assert list(first) == ["gpu-0"]
    signal = first["gpu-0"]
    assert signal.dedupe == again["gpu-0"].dedupe
    assert (signal.detail["reason"], signal.detail["by"]) == (NHC, " by slurm")
    assert signal.detail["extra"] == {"means": "node-check", "author": "Node Health Check"}
    assert signal.seen_at == node(world, "gpu-0").reason_at


def test_other_words_are_another_drain_and_a_resume_ends_it(world: World) -> None:
    world.port.drain("gpu-0", NHC, deadline=DEADLINE)
    first = seen(world)["gpu-0"]
    world.port.drain("gpu-0", "Kill task failed", deadline=DEADLINE)
    second = seen(world)["gpu-0"]
    assert second.dedupe != first.dedupe
    assert second.detail["extra"]["means"] == "kill-failed"
    world.port.resume("gpu-0", deadline=DEADLINE)
    assert seen(world) == {}
