"""The whole process: start, push, restart, health, TERM; and what it must not carry."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.nvml import VARIABLE, FakeGpus, library
from remediator.agent.http import Server
from remediator.agent.metrics import Metrics
from remediator.agent.nvml.series import GpuSeries
from remediator.agent.settings import AgentSettings
from remediator.clock import ManualClock
from remediator.observe.health import Health
from tests.unit.agent.helpers import XID79, Controller, Node, fault

ROOT = Path(__file__).parents[3]


@pytest.fixture
def controller() -> Iterator[Controller]:
    server = Controller()
    yield server
    server.close()


def _start(settings: AgentSettings, *changes: tuple[str, str]) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REMEDIATOR")}
    fields = settings.model_dump(mode="json", exclude_none=True)
    environment |= {
        f"REMEDIATOR_AGENT_{name.upper()}": str(fields[name]) for name in settings.model_fields_set
    }
    return subprocess.Popen(
        [sys.executable, "-m", "remediator.agent"],
        cwd=ROOT,
        env=environment | dict(changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _seqs(controller: Controller) -> set[int]:
    return {event["seq"] for event in controller.events()}


def _stop(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    return output


def test_process_pushes_serves_and_stops_cleanly(tmp_path: Path, controller: Controller) -> None:
    node = Node(tmp_path)
    process = _start(node.settings(controller.url))
    assert controller.wait_for(lambda: len(controller.pushes) == 1)
    node.print(XID79)
    assert controller.wait_for(lambda: len(controller.events()) == 1)
    started = process.stdout.readline() if process.stdout else ""
    port = re.search(r'"port":(\d+)', started)
    assert port
    with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics") as answer:
        assert b'remediator_agent_xid_total{pci="0000:4e:00",xid="79"} 1.0' in answer.read()
    output = _stop(process)
    assert process.returncode == 0
    assert "agent stopped" in output
    assert "Traceback" not in output


def test_killed_process_starts_again_without_loss(tmp_path: Path, controller: Controller) -> None:
    node = Node(tmp_path)
    for number in range(1, 4):
        process = _start(node.settings(controller.url))
        node.print(fault(number))
        expected = 2 * number - 1
        assert controller.wait_for(lambda seq=expected: seq in _seqs(controller))  # type: ignore[misc]
        while number == 1 and not (tmp_path / "state" / "cursor.json").exists():
            time.sleep(0.01)
        node.print("usb 1-1: noise")
        _stop(process) if number == 1 else process.kill()
        process.communicate()
    assert _seqs(controller) == {1, 3, 5}


def test_wrong_settings_end_with_one_line(tmp_path: Path) -> None:
    node = Node(tmp_path)
    process = _start(node.settings("http://127.0.0.1:1"), ("REMEDIATOR_AGENT_KERNEL_LOG", "nonsense"))
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert output.startswith("error: kernel_log: ")
    assert output.count("\n") == 1


def test_token_is_in_no_output(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.token.write_text("s3cret-t0ken")
    process = _start(node.settings("http://127.0.0.1:1", log_level="debug"))
    assert process.stdout
    output = ""
    while "push failed" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    output += _stop(process)
    assert "s3cret" not in output


def test_process_carries_none_of_the_heavy_libraries() -> None:
    program = "import sys, remediator.agent.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tops = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert not tops & {"kubernetes", "starlette", "sqlalchemy", "uvicorn", "yaml", "typer", "pynvml"}


def test_process_loads_nothing_that_only_its_libraries_want() -> None:
    program = (
        "import sys, remediator.agent.__main__, asyncio, html; print(*sys.modules); print(html.escape('<'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded, escaped = done.stdout.splitlines()
    assert not {"asyncio.base_events", "zipfile", "html.entities", "tempfile", "argparse"} & set(
        loaded.split()
    )
    assert escaped == "&lt;", "what is asked for is loaded all the same"


@pytest.mark.parametrize(("scheme", "has_tls"), [("http", False), ("https", True)])
def test_process_carries_openssl_only_for_a_controller_that_is_asked_by_it(
    scheme: str, has_tls: bool
) -> None:
    program = (
        "import sys, remediator.agent.__main__, ssl, hashlib, urllib3\n"
        "print(*{'_ssl', '_hashlib'} & set(sys.modules)); print(hashlib.sha256(b'').hexdigest()[:4])\n"
        "print(urllib3.connection.HTTPSConnection.__name__, ssl.create_default_context().verify_mode)"
    )
    environ = {**os.environ, "REMEDIATOR_AGENT_CONTROLLER_URL": f"{scheme}://controller:8080"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    loaded, digest, served = done.stdout.splitlines()
    assert set(loaded.split()) == ({"_ssl", "_hashlib"} if has_tls else set())
    assert digest == "e3b0"
    connection = "HTTPSConnection" if has_tls else "DummyConnection"
    assert served == f"{connection} 2", "what asks for TLS gets it all the same"


def test_process_pushes_a_lost_gpu_and_lives_on_while_the_driver_hangs(
    tmp_path: Path, controller: Controller
) -> None:
    node, gpus = Node(tmp_path), FakeGpus(tmp_path / "gpus.txt")
    gpus.new()
    settings = node.settings(controller.url, nvml_path=library(), gpu_interval_s=0.1)
    process = _start(settings, (VARIABLE, str(gpus.path)))
    while not (tmp_path / "state" / "gpus.json").exists():
        time.sleep(0.02)
    gpus.gpu(3, "lost")
    assert controller.wait_for(lambda: len(controller.events()) == 1)
    lost = controller.events()[0]
    assert (lost["event"]["kind"], lost["event"]["pci"]) == ("gpu-lost", "0000:5d:00")
    gpus.machine("hang", "*")
    node.print(XID79)
    assert controller.wait_for(lambda: len(controller.events()) == 2)
    output = _stop(process)
    assert process.returncode == 0
    assert "GPUs are read" in output
    assert not gpus.were_asked_in_parallel()


def test_silent_loop_fails_the_health_check() -> None:
    clock = ManualClock()
    health = Health(clock)
    health.loop("kernel-log", 30)
    server = Server("127.0.0.1", 0, Metrics().registry, health)
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    with urllib.request.urlopen(f"{url}/healthz") as answer:
        assert answer.status == 200
    clock.advance(31)
    for path, status in (("/healthz", 503), ("/other", 404)):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(url + path)
        assert error.value.code == status
    server.shutdown()
    server.server_close()


def test_every_metric_is_in_the_documented_table() -> None:
    table = (ROOT / "remediator" / "agent" / "README.md").read_text()
    registry = Metrics().registry
    registry.register(GpuSeries(lambda: 0.0, 1.0))
    for family in registry.collect():
        if family.name.startswith("remediator_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert f"| `{name}` |" in table, name
