"""The machine below a Slurm node, as a real slurmctld shows it: under Soperator the Kubernetes node."""

from __future__ import annotations

import pytest

from slurm_bridge.rest.backend import RestSlurm
from tests.contract.slurm.worlds import DEADLINE
from tests.servers.slurm import SlurmServer

pytestmark = pytest.mark.slurm


def test_the_instance_id_of_a_node_is_read(rest_backend: RestSlurm, slurm_server: SlurmServer) -> None:
    slurm_server.scontrol("update", "nodename=gpu-0", "instanceid=computeinstance-e00a")
    try:
        found = {node.name: node.instance_id for node in rest_backend.nodes(deadline=DEADLINE)}
    finally:
        slurm_server.scontrol("update", "nodename=gpu-0", "instanceid=")
    assert found == {"gpu-0": "computeinstance-e00a", "gpu-1": "", "gpu-2": ""}
