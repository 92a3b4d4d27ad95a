"""The lab's real Slurm: its configuration, keys and controllers."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from deploy.lab.control import Part
from deploy.lab.layout import Layout
from deploy.lab.mounts import SLURM_ROOT
from deploy.lab.spec import CONTROL_PLANE, SLURM_NAMESPACE, SLURMCTLD_PORT, SLURMRESTD_PORT

GRACE_SECONDS = 120
"""KillWait by default: the grace that sites are asked to set."""
_KEYS = ("slurm.key", "jwt.key")


def config(kill_wait: int = GRACE_SECONDS) -> str:
    """slurm.conf. `kill_wait`: seconds from SIGTERM to SIGKILL; workers fetch this file from slurmctld.

    proctrack/pgid: as with control groups, what a script leaves behind ends with it. By linuxproc the
    orphan of a shell line escaped, and went on saving while the restarted job ran.
    """
    return f"""ClusterName=lab
SlurmctldHost=lab({CONTROL_PLANE})
SlurmctldPort={SLURMCTLD_PORT}
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
SlurmctldParameters=enable_configless
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmctldDebug=debug2
SlurmdDebug=info
LogTimeFormat=iso8601_ms
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
PropagateResourceLimits=NONE
MaxNodeCount=64
SlurmdTimeout=30
KillWait={kill_wait}
MinJobAge=300
JobFileAppend=1
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


GRES = "Name=gpu File=/opt/fakegpu/gpu[0-7]\n"
"""gres.conf: the files that worker pods make as character devices."""


def write_files(layout: Layout, kill_wait: int) -> None:
    """Configuration and new keys, owned by the root's slurm user."""
    layout.slurm_etc.mkdir()
    (layout.logs / "slurm").mkdir()
    (layout.slurm_etc / "slurm.conf").write_text(config(kill_wait))
    (layout.slurm_etc / "gres.conf").write_text(GRES)
    (layout.slurm_etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    uid, gid = slurm_user(layout.slurm_root)
    for name in _KEYS:
        path = layout.slurm_etc / name
        path.touch(mode=0o600)
        path.write_bytes(secrets.token_bytes(1024 if name == "slurm.key" else 32))
        os.chown(path, uid, gid)
    shutil.chown(layout.logs / "slurm", uid, gid)


def slurm_user(root: Path) -> tuple[int, int]:
    """Numbers of the slurm user and its group in Slurm's root."""
    for line in (root / "etc" / "passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == "slurm":
            return int(fields[2]), int(fields[3])
    raise LookupError(f"no slurm user in {root}/etc/passwd")


def chroot(*command: str) -> list[str]:
    """A command line that runs in Slurm's root, in /shared (jobs find the same files); for use in the lab."""
    return ["chroot", str(SLURM_ROOT), "env", "-C", "/shared", *command]


def slurmctld(layout: Layout) -> Part:
    """The controller; its log has every node state change and requeue, with milliseconds."""
    script = "install -d -o slurm /var/spool/slurmctld /run/slurm /run/slurmctld; exec /usr/sbin/slurmctld -D"
    return Part("slurmctld", chroot("sh", "-c", script), str(layout.logs / "slurmctld.out.log"))


def slurmrestd(layout: Layout) -> Part:
    """The REST server, without rights of its own: each request's token says who asks."""
    argv = chroot(
        "/usr/sbin/slurmrestd",
        "-u",
        "www-data",
        "-g",
        "www-data",
        "-s",
        "openapi/slurmctld,openapi/util",
        f"{CONTROL_PLANE}:{SLURMRESTD_PORT}",
        f"127.0.0.1:{SLURMRESTD_PORT}",
    )
    return Part("slurmrestd", argv, str(layout.logs / "slurmrestd.log"), {"SLURM_JWT": "daemon"})


def manifests(layout: Layout) -> list[dict[str, Any]]:
    """What Kubernetes has to know: the namespace, the REST service with its address, the two keys."""
    metadata = {"namespace": SLURM_NAMESPACE}
    service = {"name": "slurm-restapi", **metadata}
    ports = [{"name": "slurmrestd", "port": SLURMRESTD_PORT}]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SLURM_NAMESPACE}},
        {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**service, "labels": {"kubernetes.io/service-name": "slurm-restapi"}},
            "addressType": "IPv4",
            "ports": [{**port, "protocol": "TCP"} for port in ports],
            "endpoints": [{"addresses": [CONTROL_PLANE], "conditions": {"ready": True}}],
        },
        *(_secret(layout, name) for name in _KEYS),
    ]


def _secret(layout: Layout, key: str) -> dict[str, Any]:
    value = base64.b64encode((layout.slurm_etc / key).read_bytes()).decode()
    metadata = {"name": f"slurm-auth-{key.removesuffix('.key')}", "namespace": SLURM_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {key: value}}
