"""What the lab's programs are told: addresses, names, settings."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import stat
import subprocess
from pathlib import Path

import pytest

from deploy.lab import controlplane, imagestore, layout, network, node, pki, slurm, spec
from deploy.lab.cgroups import Group, Hierarchy
from deploy.lab.errors import LabError
from deploy.lab.layout import Layout


@pytest.fixture
def lab(tmp_path: Path) -> Layout:
    found = Layout(tmp_path, "x")
    found.root.mkdir(parents=True)
    return found


@pytest.mark.parametrize("name", ["", "Lab", "-x", "a/b", "..", "a" * 32, "a b"])
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="lab name"):
        Layout.of(name)


def test_addresses_never_overlap() -> None:
    networks = [ipaddress.ip_network(found.pod_cidr) for found in spec.NODES]
    networks.append(ipaddress.ip_network(spec.BRIDGE_CIDR, strict=False))
    networks.append(ipaddress.ip_network(spec.SERVICE_CIDR))
    assert not any(one.overlaps(two) for one in networks for two in networks if one is not two)
    assert len({found.address for found in spec.NODES}) == len(spec.NODES)


def test_every_node_has_a_route_to_every_other_nodes_pods() -> None:
    for one in spec.NODES:
        routes = network.node_commands(one)
        assert all((other.pod_cidr in routes) == (other is not one) for other in spec.NODES)


def test_an_unknown_node_is_refused_with_those_there_are() -> None:
    with pytest.raises(LabError, match=r"gpu-9.*sys-0, gpu-0"):
        spec.node("gpu-9")


def test_workers_and_spare_are_tainted_apart() -> None:
    taints = {
        found.name: [
            taint["key"]
            for taint in node.kubelet_config(Layout(Path("/c"), "x"), found)["registerWithTaints"]
        ]
        for found in spec.NODES
    }
    assert taints["sys-0"] == []
    assert taints["gpu-0"] == ["remediator.dev/worker"]
    assert taints["gpu-4"] == ["remediator.dev/spare"]


def test_certificates_are_verified_by_the_labs_authority_and_carry_every_name(lab: Layout) -> None:
    pki.make(lab)
    checked = subprocess.run(
        ["openssl", "verify", "-CAfile", "ca.crt", "-verify_ip", spec.CONTROL_PLANE, "server.crt"],
        cwd=lab.pki, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
    ssl.create_default_context(cafile=str(lab.pki / "ca.crt"))
    shown = subprocess.run(
        ["openssl", "x509", "-in", "server.crt", "-noout", "-ext", "subjectAltName"],
        cwd=lab.pki, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert all(name.split(":", 1)[1] in shown for name in pki.SERVER_NAMES)


def test_tokens_are_for_root_alone_and_no_two_alike(lab: Layout) -> None:
    pki.make(lab)
    for name in ("tokens.csv", "admin.conf", "admin.token", "gpu-0.conf"):
        assert stat.S_IMODE((lab.pki / name).stat().st_mode) == 0o600
    tokens = [line.split(",")[0] for line in (lab.pki / "tokens.csv").read_text().splitlines()]
    assert len(tokens) == len(set(tokens)) == 4 + len(spec.NODES)


def test_the_audit_log_keeps_one_line_a_request() -> None:
    policy = controlplane._AUDIT_POLICY
    assert policy["omitStages"] == ["RequestReceived"]
    assert policy["rules"] == [{"level": "Metadata"}]


def test_slurm_gives_the_grace_it_is_told_and_keeps_what_jobs_wrote() -> None:
    lines = slurm.config(6).splitlines()
    assert "KillWait=6" in lines
    assert {"JobFileAppend=1", "MinJobAge=300", "SlurmdTimeout=30", "SlurmUser=slurm"} <= set(lines)
    assert "KillWait=120" in slurm.config().splitlines()


def test_the_lab_shows_its_programs_no_environment_of_the_user(
    lab: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "x")
    assert "MY_SECRET" not in lab.environment()
    assert lab.environment()["PYTHONPATH"] == str(layout.REPO)


def test_a_nodes_group_is_named_from_inside_below_the_labs_own() -> None:
    trees = (Hierarchy(Path("/sys/fs/cgroup/cpu"), "cpu", unified=False),)
    group = Group("remediator-lab-x/gpu-0", trees)
    assert node.inside_lab(group) == [Path("/sys/fs/cgroup/cpu/gpu-0/cgroup.procs")]


def test_a_nodes_store_links_contents_copies_data_bases_and_leaves_layers_out(tmp_path: Path) -> None:
    store = tmp_path / "store"
    layer = store / "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs"
    (layer / "bin").mkdir(parents=True)
    (layer / "bin" / "x").write_text("program")
    (store / "meta.db").write_text("rows")
    (store / "blob").write_text("bytes")
    new = tmp_path / "node"
    imagestore.skeleton(store, new)
    assert (new / "blob").stat().st_ino == (store / "blob").stat().st_ino
    assert (new / "meta.db").stat().st_ino != (store / "meta.db").stat().st_ino
    assert list((new / layer.relative_to(store)).iterdir()) == []
    assert imagestore.layers(store) == [layer.relative_to(store)]


def test_the_cni_range_is_the_nodes_own() -> None:
    config = node.cni_config(spec.node("gpu-2"))
    assert json.loads(json.dumps(config))["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.99.13.0/24"}]]


def test_slurms_keys_become_secrets_with_the_names_slinky_uses(lab: Layout) -> None:
    root = lab.slurm_root / "etc"
    root.mkdir(parents=True)
    (root / "passwd").write_text(f"slurm:x:{os.getuid()}:{os.getgid()}::/:/bin/false\n")
    lab.logs.mkdir()
    slurm.write_files(lab, 120)
    secrets = {o["metadata"]["name"]: list(o["data"]) for o in slurm.manifests(lab) if o["kind"] == "Secret"}
    assert secrets == {"slurm-auth-slurm": ["slurm.key"], "slurm-auth-jwt": ["jwt.key"]}
