"""Manifests the operator makes: a worker pod, the workers' headless Service, their disruption budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import model
from .model import Json, NodeSet

SLURMD_PORT = 6818
SLURMCTLD_PORT = 6817
PRE_STOP = "scontrol update nodename=$(hostname) state=down reason='slurm-operator: Pod is terminating';"


def worker_labels(nodeset: NodeSet) -> dict[str, str]:
    """The labels by which everybody finds worker pods."""
    return {
        "app.kubernetes.io/name": "slurmd",
        "app.kubernetes.io/instance": nodeset.name,
        "app.kubernetes.io/component": "worker",
        model.CLUSTER_LABEL: nodeset.controller,
    }


def worker_pod(nodeset: NodeSet, controller: Json, ordinal: int, pin: str = "") -> Json:
    """The pod of one ordinal; pod name, hostname and Slurm node name are the same word. `pin` is the only
    node it may run on.
    """
    padded = str(ordinal).zfill(int(nodeset.spec.get("ordinalPadding", 0)))
    name = f"{nodeset.name}-{padded}"
    pod_spec = template(nodeset, controller)
    if "hostname" in pod_spec:
        pod_spec["hostname"] = f"{pod_spec['hostname']}{padded}"
    pod_spec.setdefault("hostname", name)
    if pin:
        pod_spec["affinity"] = {**pod_spec.get("affinity", {}), "nodeAffinity": model.pinned(pin)}
    identity = {model.POD_NAME: name, model.POD_INDEX: padded, model.SCALING_MODE: "StatefulSet"}
    return _pod(nodeset, pod_spec, {"name": name}, identity)


def daemon_pod(nodeset: NodeSet, controller: Json, node: str, hostname: str) -> Json:
    """The pod of one node; its name is left to chance, its hostname is the Slurm node name."""
    pod_spec = {**template(nodeset, controller), "hostname": hostname}
    pod_spec["affinity"] = {**pod_spec.get("affinity", {}), "nodeAffinity": model.pinned(node)}
    identity = {model.POD_NAME: "", model.SCALING_MODE: "DaemonSet"}
    return _pod(nodeset, pod_spec, {"generateName": f"{nodeset.name}-"}, identity)


def template(nodeset: NodeSet, controller: Json) -> Json:
    """The spec that every worker of a NodeSet starts from."""
    laid = (nodeset.spec.get("template") or {}).get("spec") or {}
    return dict(merge(_pod_spec(nodeset, controller), laid))


def _pod(nodeset: NodeSet, pod_spec: Json, named: Json, identity: dict[str, str]) -> Json:
    extra = (nodeset.spec.get("template") or {}).get("metadata") or {}
    ours = {model.POD_HOSTNAME: pod_spec["hostname"], model.REVISION: nodeset.revision, **identity}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **named,
            "namespace": nodeset.namespace,
            "labels": {**(extra.get("labels") or {}), **worker_labels(nodeset), **ours},
            "annotations": {
                **(extra.get("annotations") or {}),
                "kubectl.kubernetes.io/default-container": "slurmd",
            },
            "ownerReferences": [{**_owner(nodeset), "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": pod_spec,
    }


def disruption_budget(nodeset: NodeSet) -> Json:
    """One budget a cluster: no pod with pod-protect may be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": f"slurm-workers-pdb-{nodeset.controller}",
            "namespace": nodeset.namespace,
            "ownerReferences": [_owner(nodeset)],
        },
        "spec": {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {model.POD_PROTECT: "true", model.CLUSTER_LABEL: nodeset.controller}},
        },
    }


def workers_service(nodeset: NodeSet) -> Json:
    """The headless Service that gives each worker a host name."""
    labels = worker_labels(nodeset)
    wanted = ("app.kubernetes.io/name", model.CLUSTER_LABEL)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"slurm-workers-{nodeset.controller}",
            "namespace": nodeset.namespace,
            "ownerReferences": [_owner(nodeset)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {k: labels[k] for k in wanted},
            "ports": [{"name": "slurmd", "port": SLURMD_PORT, "targetPort": "slurmd"}],
        },
    }


def slurmd_args(nodeset: NodeSet, controller: Json) -> list[str]:
    """The arguments of slurmd: dynamic node, configless, its NodeSet as a feature."""
    conf = {"Features": nodeset.name}
    for item in nodeset.spec.get("extraConf", "").split():
        key, _, value = item.partition("=")
        key = "Features" if key.title() in ("Feature", "Features") else key
        conf[key] = f"{conf[key]},{value}" if key in conf else value
    pairs = " ".join(f"{k}={v}" for k, v in sorted(conf.items()))
    return ["-Z", "--conf-server", _slurmctld(controller), "--conf", f"'{pairs}'"]


def merge(base: Any, over: Any) -> Any:
    """Lays a template over a manifest: maps merge, lists join, list items of one name merge."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        shared = {k: merge(base[k], over[k]) for k in base if k in over}
        return {**base, **over, **shared}
    if isinstance(base, list) and isinstance(over, list):
        laid = {_name(item): item for item in over if _name(item)}
        ours = {_name(item) for item in base if _name(item)}
        merged = [merge(item, laid[_name(item)]) if _name(item) in laid else item for item in base]
        return merged + [item for item in over if _name(item) not in ours]
    return over


def _name(item: Any) -> str:
    return str(item.get("name", "")) if isinstance(item, Mapping) else ""


def _owner(nodeset: NodeSet) -> Json:
    return {
        "apiVersion": model.API_VERSION,
        "kind": "NodeSet",
        "name": nodeset.name,
        "uid": nodeset.uid,
    }


def _slurmctld(controller: Json) -> str:
    meta, spec = controller["metadata"], controller.get("spec") or {}
    if spec.get("external"):
        return f"{spec['externalConfig']['host']}:{spec['externalConfig']['port']}"
    return f"{meta['name']}-controller.{meta['namespace']}:{SLURMCTLD_PORT}"


def _pod_spec(nodeset: NodeSet, controller: Json) -> Json:
    key = controller["spec"]["slurmKeyRef"]
    secret = {"name": key["name"], "items": [{"key": key["key"], "path": "slurm.key"}]}
    workers = {
        "matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": ["slurmd"]}]
    }
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": workers}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "subdomain": f"slurm-workers-{nodeset.controller}",
        "containers": [merge(_slurmd(nodeset, controller), nodeset.spec.get("slurmd") or {})],
        "volumes": [
            {"name": "slurm-etc", "projected": {"defaultMode": 0o600, "sources": [{"secret": secret}]}}
        ],
        "tolerations": [
            {"key": "nodeset.slinky.slurm.net/worker", "operator": "Exists", "effect": "NoExecute"}
        ],
        **({} if nodeset.spec.get("oversubscribeNode") else {"affinity": {"podAntiAffinity": anti}}),
    }


def _slurmd(nodeset: NodeSet, controller: Json) -> Json:
    alive = {"httpGet": {"path": "/livez", "port": "slurmd"}, "failureThreshold": 6, "periodSeconds": 10}
    return {
        "name": "slurmd",
        "args": slurmd_args(nodeset, controller),
        "ports": [{"name": "slurmd", "containerPort": SLURMD_PORT, "protocol": "TCP"}],
        "startupProbe": alive,
        "livenessProbe": alive,
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "slurmd"}},
        "securityContext": {
            "privileged": True,
            "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]},
        },
        "lifecycle": {"preStop": {"exec": {"command": ["/usr/bin/sh", "-c", PRE_STOP]}}},
        "volumeMounts": [{"name": "slurm-etc", "mountPath": "/etc/slurm", "readOnly": True}],
    }
