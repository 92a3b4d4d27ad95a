"""The manifests of a worker, from the NodeSet that is deployed in the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deploy.lab.slinky import pods
from deploy.lab.slinky.model import NodeSet, WorkerPod

CLUSTER = Path(__file__).parents[3] / "deploy/lab/slinky/cluster.yaml"
RESOURCES: dict[str, dict[str, Any]] = {d["kind"]: d for d in yaml.safe_load_all(CLUSTER.read_text())}
RESOURCES["NodeSet"]["metadata"]["uid"] = "nu"
NODESET = NodeSet.from_json(RESOURCES["NodeSet"])
POD = pods.worker_pod(NODESET, RESOURCES["Controller"], 3)
SLURMD = POD["spec"]["containers"][0]


def test_pod_hostname_and_slurm_node_are_one_name() -> None:
    assert POD["metadata"]["name"] == POD["spec"]["hostname"] == "worker-3"
    assert WorkerPod.from_json(POD).slurm_name == "worker-3"


def test_labels_say_whose_it_is() -> None:
    assert POD["metadata"]["labels"] == {
        "app.kubernetes.io/name": "slurmd",
        "app.kubernetes.io/instance": "worker",
        "app.kubernetes.io/component": "worker",
        "slinky.slurm.net/cluster": "slurm",
        "nodeset.slinky.slurm.net/pod-name": "worker-3",
        "nodeset.slinky.slurm.net/pod-index": "3",
        "nodeset.slinky.slurm.net/pod-hostname": "worker-3",
        "nodeset.slinky.slurm.net/scaling-mode": "StatefulSet",
        "controller.kubernetes.io/hash": NODESET.revision,
    }


def test_owner_is_the_nodeset() -> None:
    (owner,) = POD["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "NodeSet",
        "worker",
        "nu",
        True,
    )


def test_pre_stop_sets_down_and_keeps_the_record() -> None:
    assert SLURMD["lifecycle"]["preStop"]["exec"]["command"] == [
        "/usr/bin/sh",
        "-c",
        "scontrol update nodename=$(hostname) state=down reason='slurm-operator: Pod is terminating';",
    ]


def test_slurmd_is_dynamic_configless_and_has_its_nodeset_as_a_feature() -> None:
    server, conf = "10.99.0.1:6817", "'CPUs=4 Features=worker Gres=gpu:8 RealMemory=2000'"
    assert SLURMD["args"] == ["-Z", "--conf-server", server, "--conf", conf]


def test_controller_inside_kubernetes_is_found_by_its_service() -> None:
    inside = {**RESOURCES["Controller"], "spec": {"slurmKeyRef": {"name": "k", "key": "slurm.key"}}}
    assert "slurm-controller.slurm:6817" in pods.slurmd_args(NODESET, inside)


def test_extra_features_join_the_nodeset() -> None:
    raw = {**NODESET.raw, "spec": {**NODESET.spec, "extraConf": "feature=h100 Gres=gpu:8"}}
    assert pods.slurmd_args(NodeSet.from_json(raw), RESOURCES["Controller"])[-1] == (
        "'Features=worker,h100 Gres=gpu:8'"
    )


def test_container_is_the_operators_with_the_template_laid_over() -> None:
    assert SLURMD["securityContext"]["privileged"]
    assert SLURMD["image"] == "localhost/slurmd:1"
    assert SLURMD["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert [m["mountPath"] for m in SLURMD["volumeMounts"]] == ["/etc/slurm", "/shared"]


def test_pod_takes_selector_tolerations_and_volumes_of_the_template() -> None:
    spec = POD["spec"]
    assert spec["nodeSelector"] == {"remediator.dev/pool": "training"}
    assert {"key": "remediator.dev/worker", "operator": "Exists", "effect": "NoSchedule"} in spec[
        "tolerations"
    ]
    assert not any(t.get("key") == "remediator.dev/spare" for t in spec["tolerations"])
    assert [v["name"] for v in spec["volumes"]] == ["slurm-etc", "shared"]
    assert "terminationGracePeriodSeconds" not in spec


def test_key_comes_from_the_secret_of_the_controller() -> None:
    (source,) = POD["spec"]["volumes"][0]["projected"]["sources"]
    assert source["secret"] == {
        "name": "slurm-auth-slurm",
        "items": [{"key": "slurm.key", "path": "slurm.key"}],
    }


def test_one_worker_a_node() -> None:
    (rule,) = POD["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_padded_ordinal_and_hostname_prefix() -> None:
    template = {"spec": {"hostname": "gpu-"}, "metadata": {"annotations": {"a": "b"}}}
    raw = {**NODESET.raw, "spec": {**NODESET.spec, "ordinalPadding": 3, "template": template}}
    made = pods.worker_pod(NodeSet.from_json(raw), RESOURCES["Controller"], 7)
    assert (made["metadata"]["name"], made["spec"]["hostname"]) == ("worker-007", "gpu-007")
    assert made["metadata"]["annotations"]["a"] == "b"


def test_disruption_budget_covers_busy_workers_only() -> None:
    budget = pods.disruption_budget(NODESET)
    assert budget["metadata"]["name"] == "slurm-workers-pdb-slurm"
    assert budget["spec"] == {
        "maxUnavailable": 0,
        "selector": {
            "matchLabels": {
                "nodeset.slinky.slurm.net/pod-protect": "true",
                "slinky.slurm.net/cluster": "slurm",
            }
        },
    }


def test_merge_joins_lists_and_merges_items_of_one_name() -> None:
    base = {"env": [{"name": "A", "value": "1"}], "args": ["x"], "keep": 1}
    over = {"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}], "args": ["y"], "new": 2}
    assert pods.merge(base, over) == {
        "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
        "args": ["x", "y"],
        "keep": 1,
        "new": 2,
    }
