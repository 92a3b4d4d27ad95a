"""The lab itself: its parts are real, each fault has its effect, and nothing of it is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import cgroups, spec
from deploy.lab.api import Lab
from deploy.lab.errors import LabError
from deploy.lab.inject import processes_named
from deploy.lab.kubeapi import condition
from deploy.lab.sysfs import IDLE_CELSIUS
from tests.e2e.helpers import save_state, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

URL = f"https://{spec.CONTROL_PLANE}:{spec.API_PORT}"
HOST_NETWORK = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
"""The machine's own network, held since before any test entered a lab's."""
Json = dict[str, Any]


def node_status(lab: Lab, name: str) -> Json:
    return lab.api.get(f"/api/v1/nodes/{name}")


def until(holds: Callable[[], object], seconds: float, what: str) -> None:
    wait_for(what, holds, seconds, every=0.2)


def worker_node(lab: Lab, worker: str) -> str:
    """The Kubernetes node of a Slurm worker."""
    return str(lab.api.get(f"/api/v1/namespaces/slurm/pods/{worker}")["spec"]["nodeName"])


def worker_on(lab: Lab, node: str) -> str:
    return next(f"worker-{n}" for n in range(spec.WORKERS) if worker_node(lab, f"worker-{n}") == node)


def rest(lab: Lab, path: str) -> Json:
    headers = {"X-SLURM-USER-TOKEN": lab.token(), "X-SLURM-USER-NAME": "slurm"}
    request = urllib.request.Request(f"{lab.slurmrestd_url}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=20) as response:
        found: Json = json.load(response)
        return found


# --- its parts are real ------------------------------------------------------------------------------


def test_every_node_is_ready_with_its_own_identity(lab: Lab) -> None:
    nodes = {item["metadata"]["name"]: item for item in lab.api.get("/api/v1/nodes")["items"]}
    assert set(nodes) == {found.name for found in spec.NODES}
    assert {condition(item) for item in nodes.values()} == {"True"}
    info = [item["status"]["nodeInfo"] for item in nodes.values()]
    assert {one["kubeletVersion"] for one in info} == {spec.KUBERNETES_VERSION}
    for identity in ("bootID", "machineID"):
        assert len({one[identity] for one in info}) == len(nodes)
    for name, item in nodes.items():
        assert item["spec"]["providerID"] == f"lab://{name}"
        assert item["status"]["nodeInfo"]["bootID"] == (lab.node_dir(name) / "boot_id").read_text().strip()
        assert int(item["status"]["allocatable"].get("nvidia.com/gpu", "0")) == spec.node(name).gpus


def test_the_api_server_is_verified_by_the_labs_authority_and_by_no_other(lab: Lab) -> None:
    trusting = ssl.create_default_context(cafile=str(lab.layout.pki / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{URL}/api/v1/nodes", context=trusting, timeout=20)
    assert refused.value.code == 403  # reached and verified, but nobody in particular
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{URL}/readyz", context=ssl.create_default_context(), timeout=20)


def test_a_job_runs_on_two_nodes_and_writes_where_the_other_sees_it(lab: Lab) -> None:
    lab.slurm("srun", "-N2", "sh", "-c", "hostname > /shared/two-$(hostname)")
    written = sorted(file.read_text().strip() for file in lab.layout.shared.glob("two-*"))
    assert len(written) == 2
    assert all(name.startswith("worker-") for name in written)


def test_pods_find_services_by_name(lab: Lab) -> None:
    shown = lab.kubectl("-n", "slurm", "exec", "worker-0", "--", "getent", "hosts", "slurm-restapi.slurm")
    assert shown.split()[0].startswith("10.98.0.")


def test_the_servers_logs_say_what_they_were_asked(lab: Lab) -> None:
    worker = "worker-3"
    lab.slurm("scontrol", "update", f"nodename={worker}", "state=drain", "reason=a word")
    lab.slurm("scontrol", "update", f"nodename={worker}", "state=undrain")
    rest(lab, "/slurm/v0.0.45/ping")
    lab.kubectl("get", "namespace", "slurm")
    slurmctld, slurmrestd = lab.slurmctld_log.read_text(), lab.slurmrestd_log.read_text()
    assert f"update_node: node {worker} reason set to: a word" in slurmctld
    assert f"update_node: node {worker} state set to DRAIN" in slurmctld
    assert "GET /slurm/v0.0.45/ping" in slurmrestd
    assert "user_name slurm" in slurmrestd
    *lines, _ = lab.apiserver_audit.read_text().split("\n")[-400:]
    events = [json.loads(line) for line in lines]
    assert {event["level"] for event in events} == {"Metadata"}
    assert "RequestReceived" not in {event["stage"] for event in events}
    assert any(event["requestURI"].startswith("/api/v1/namespaces/slurm") for event in events)


def test_prometheus_and_alertmanager_answer(lab: Lab) -> None:
    for port in (spec.PROMETHEUS_PORT, spec.ALERTMANAGER_PORT):
        with urllib.request.urlopen(f"http://{spec.CONTROL_PLANE}:{port}/-/ready", timeout=20) as response:
            assert response.status == 200


def test_a_second_up_says_so(lab: Lab) -> None:
    with pytest.raises(LabError, match="already up"):
        lab.up()
    said = subprocess.run(
        [sys.executable, "-m", "deploy.lab", "--name", lab.name, "up"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "already up" in said.stdout


# --- each fault has its effect -----------------------------------------------------------------------


def test_a_kernel_line_is_read_on_the_node_as_the_kernel_would_write_it(lab: Lab) -> None:
    first = lab.inject.kernel_line("gpu-4", "usb 1-1: new device")
    second = lab.inject.xid("gpu-4", 31, gpu=1)
    seen = lab.exec(["cat", "/var/lib/lab/kmsg"], node_name="gpu-4").stdout.splitlines()
    assert second == first + 1
    assert seen[-2].startswith(f"3,{first},")
    assert f"NVRM: Xid (PCI:{spec.GPU_PCI[1]}): 31," in seen[-1]


def test_a_counter_and_a_temperature_are_read_on_the_node(lab: Lab) -> None:
    lab.inject.counter("gpu-4", "mlx5_2", "symbol_error", 11)
    lab.inject.heat("gpu-4", 3, 93)
    port, sensor = "class/infiniband/mlx5_2/ports/1/counters/symbol_error", "class/hwmon/hwmon3/temp1_input"
    shown = lab.exec(["cat", f"/var/lib/lab/sys/{port}", f"/var/lib/lab/sys/{sensor}"], node_name="gpu-4")
    lab.inject.heat("gpu-4", 3, IDLE_CELSIUS)
    assert shown.stdout.split() == ["11", "93000"]


def test_a_lost_gpu_is_no_longer_offered(lab: Lab) -> None:
    def offered() -> int:
        return int(node_status(lab, "gpu-4")["status"]["allocatable"]["nvidia.com/gpu"])

    def lost() -> list[str]:
        query = urllib.parse.urlencode({"query": "remediator_gpu_lost == 1"})
        url = f"http://{spec.CONTROL_PLANE}:{spec.PROMETHEUS_PORT}/api/v1/query?{query}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return [one["metric"]["pci"] for one in json.loads(answer.read())["data"]["result"]]

    lab.inject.gpu_lost("gpu-4", 6)
    until(lambda: offered() == 7, 90, "7 GPUs offered")
    until(lambda: lost() == [spec.GPU_PCI[6]], 90, "the agent sees one lost")
    assert "79, " in (lab.node_dir("gpu-4") / "kmsg").read_text().splitlines()[-1]
    lab.inject.gpu_found("gpu-4", 6)
    until(lambda: offered() == 8 and not lost(), 90, "8 GPUs offered and read")


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_slurmd_is_frozen_thawed_and_killed(lab: Lab) -> None:
    node = worker_node(lab, "worker-2")
    group = lab.node(node).group
    (pid, *_) = processes_named(group, "slurmd")
    lab.inject.slurmd(node, signal.SIGSTOP)
    assert _state(pid) == "T"
    lab.inject.slurmd(node, signal.SIGCONT)
    until(lambda: _state(pid) != "T", 20, "slurmd runs on")
    lab.inject.slurmd(node, signal.SIGKILL)
    until(lambda: pid not in group.processes() and processes_named(group, "slurmd"), 150, "a new slurmd")


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_an_ended_job_leaves_no_process_and_no_zombie(lab: Lab) -> None:
    """Also when its script's child ignores SIGTERM and outlives the shell, as control groups would see to."""
    deaf = lab.layout.shared / f"deaf-{time.monotonic_ns()}"
    tell = f'open("/shared/{deaf.name}", "w")'
    stubborn = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {tell}; time.sleep(987)"
    script = f"#!/bin/bash\npython3 -c '{stubborn}'\n"
    job = lab.slurm("sbatch", "--parsable", "--output=/dev/null", stdin=script).strip()

    def children(group: cgroups.Group) -> set[int]:
        return {pid for pid in group.processes() if b"sleep(987)" in _command(pid)}

    def state() -> str:
        return lab.slurm("squeue", "-h", "-j", job, "-o", "%T %N", check=False)

    until(lambda: state().startswith("RUNNING"), 90, f"job {job} runs")
    group = lab.node(worker_node(lab, state().split()[1])).group
    until(deaf.exists, 60, "the child ignores the signal")
    assert children(group)
    lab.slurm("scancel", job)
    until(lambda: not state(), 60, f"job {job} has ended")
    assert children(group) == set()
    until(lambda: "Z" not in {_state(pid) for pid in group.processes()}, 20, "no zombie on the node")


def _reaches(lab: Lab, node: str, port: int) -> bool:
    script = f"import socket; socket.create_connection(('{spec.CONTROL_PLANE}', {port}), 1)"
    return lab.exec([sys.executable, "-c", script], node_name=node, check=False).returncode == 0


def test_a_partition_takes_the_api_server_away_and_nothing_else(lab: Lab) -> None:
    lab.inject.api_partition("gpu-3", True)
    assert not _reaches(lab, "gpu-3", spec.API_PORT)
    assert _reaches(lab, "gpu-3", spec.SLURMRESTD_PORT)
    assert _reaches(lab, "gpu-2", spec.API_PORT)
    lab.inject.api_partition("gpu-3", False)
    assert _reaches(lab, "gpu-3", spec.API_PORT)


def test_the_api_server_comes_back_with_its_state(lab: Lab) -> None:
    before = node_status(lab, "gpu-0")["metadata"]["uid"]
    lab.inject.restart("apiserver")
    until(lab.api.is_ready, 150, "the API server is ready again")
    assert node_status(lab, "gpu-0")["metadata"]["uid"] == before


def _listens(port: int) -> bool:
    try:
        socket.create_connection((spec.CONTROL_PLANE, port), 1).close()
    except OSError:
        return False
    return True


def test_slurmrestd_is_killed_and_started(lab: Lab) -> None:
    lab.inject.kill("slurmrestd")
    assert not _listens(spec.SLURMRESTD_PORT)
    lab.inject.start("slurmrestd")
    until(lambda: _listens(spec.SLURMRESTD_PORT), 60, "slurmrestd listens")
    assert rest(lab, "/slurm/v0.0.45/ping")["errors"] == []


def test_slurmctld_keeps_its_jobs_over_a_kill(lab: Lab) -> None:
    script = "#!/bin/sh\nsleep 1\n"
    job = lab.slurm("sbatch", "--parsable", "--hold", stdin=script).strip()
    save_state(lab, job)
    lab.inject.restart("slurmctld")
    until(lambda: "UP" in lab.slurm("scontrol", "ping", check=False), 90, "slurmctld answers")
    assert job in lab.slurm("squeue", "-h", "-o", "%i").split()
    lab.slurm("scancel", job)


@pytest.mark.slow
def test_silent_nodes_turn_unknown_and_come_back(lab: Lab) -> None:
    """A hung kubelet, a cut cable, a frozen and a powered-off node, side by side: each takes 40 s to show."""
    boot = node_status(lab, "gpu-4")["status"]["nodeInfo"]["bootID"]
    lab.inject.xid("gpu-4", 31)
    lab.inject.kubelet_hung("gpu-0", True)
    lab.inject.cable("gpu-1", False)
    lab.inject.freeze("gpu-2", True)
    lab.inject.power("gpu-4", False)
    assert not lab.node("gpu-4").is_on
    assert lab.node("gpu-2").is_on
    silent = ["gpu-0", "gpu-1", "gpu-2", "gpu-4"]

    def states() -> dict[str, str]:
        return {item["metadata"]["name"]: condition(item) for item in lab.api.get("/api/v1/nodes")["items"]}

    until(lambda: all(states()[name] == "Unknown" for name in silent), 150, "four nodes Unknown")
    assert {name for name, state in states().items() if state == "True"} == {"sys-0", "gpu-3"}
    lab.inject.kubelet_hung("gpu-0", False)
    lab.inject.cable("gpu-1", True)
    lab.inject.freeze("gpu-2", False)
    lab.inject.power("gpu-4", True)
    assert (lab.node_dir("gpu-4") / "kmsg").read_text() == ""
    until(lambda: set(states().values()) == {"True"}, 150, "every node Ready again")
    assert node_status(lab, "gpu-4")["status"]["nodeInfo"]["bootID"] != boot


def test_a_new_boot_id_is_reported_without_a_power_cycle(lab: Lab) -> None:
    lab.inject.xid("gpu-4", 31)
    lab.inject.new_boot("gpu-4")
    boot = (lab.node_dir("gpu-4") / "boot_id").read_text().strip()
    assert lab.exec(["cat", "/var/lib/lab/kmsg"], node_name="gpu-4").stdout == ""
    until(lambda: node_status(lab, "gpu-4")["status"]["nodeInfo"]["bootID"] == boot, 90, "the new boot id")


def test_power_takes_a_frozen_node_too(lab: Lab) -> None:
    lab.inject.freeze("gpu-4", True)
    lab.inject.power("gpu-4", False)
    assert lab.node("gpu-4").group.processes() == set()
    lab.inject.power("gpu-4", True)
    with pytest.raises(LabError, match="on already"):
        lab.inject.power("gpu-4", True)
    until(lambda: condition(node_status(lab, "gpu-4")) == "True", 150, "gpu-4 Ready again")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["xid", "gpu-9", "79"], "no node 'gpu-9'"),
        (["gpu-lost", "sys-0", "0"], "no GPU 0 on sys-0"),
        (["counter", "gpu-0", "mlx5_0", "nothing", "1"], "no counter 'nothing'"),
        (["slurmd", "sys-0", "kill"], "no slurmd runs on sys-0"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_in_one_line(lab: Lab, arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.lab", "--name", lab.name, "inject", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


# --- nothing is left behind --------------------------------------------------------------------------


def host_view(name: str) -> Json:
    """What the machine itself has: mounts, interfaces, routes, sysctls; and what lab `name` has."""
    outside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{HOST_NETWORK}", "ip", "-j"]
    group = cgroups.Group.of_lab(name)
    kernel = Path("/proc/sys")
    return {
        "mounts": sorted(
            line.split(" - ")[0].split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        "links": [link["ifname"] for link in json.loads(subprocess.check_output([*outside, "link"]))],
        "routes": json.loads(subprocess.check_output([*outside, "route"])),
        "sysctls": {key: (kernel / key).read_text() for key in (*spec.SYSCTLS, "net/ipv4/ip_forward")},
        "groups": [str(folder) for folder in group.folders if folder.exists()],
        "processes": sorted(group.processes()),
    }


@pytest.fixture
def second() -> Iterator[Lab]:
    """A lab of its own, without the service; gone at the end whatever happens."""
    found = Lab(f"second-{os.getpid()}")
    yield found
    found.down(keep_logs=False)  # a log left by one test would look like progress to the next


def test_two_labs_run_side_by_side_and_one_leaves_nothing(lab: Lab, second: Lab) -> None:
    before = host_view(second.name)
    second.up(kill_wait=6, service=False)
    assert host_view(second.name)["processes"]
    assert second.slurm("srun", "-N2", "hostname").split()
    assert lab.slurm("srun", "-N2", "hostname").split()
    assert second.layout.kubeconfig.read_text() != lab.layout.kubeconfig.read_text()
    second.inject.freeze("gpu-1", True)
    assert second.down() is True
    assert host_view(second.name) == before
    assert [entry.name for entry in second.layout.root.iterdir()] == ["logs"]
    assert second.down() is False
    assert lab.slurm("srun", "-N1", "hostname").split()


@pytest.mark.parametrize("moment", ["ns", "kube", "nodes"])
def test_a_start_that_was_killed_half_way_is_cleaned_up(second: Lab, moment: str) -> None:
    before = host_view(second.name)
    start = subprocess.Popen(
        [sys.executable, "-m", "deploy.lab", "--name", second.name, "up", "--without-service"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    reached: Callable[[], object] = {
        "ns": second.control.first_pid,
        "kube": (second.layout.logs / "apiserver.log").exists,
        "nodes": second.node("gpu-3").control.first_pid,
    }[moment]
    until(reached, 150, f"the start reaches {moment}")
    start.kill()
    start.wait()
    assert not second.is_up
    assert second.down() is True
    assert host_view(second.name) == before
