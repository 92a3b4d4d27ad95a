"""Both real servers."""

from tests.servers.kube import kube_server
from tests.servers.slurm import slurm_server

__all__ = ["kube_server", "slurm_server"]
