"""A real disk that is full or read-only: what was promised is kept, and people are told what to do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from remediator.cli.main import app
from remediator.clock import SystemClock
from remediator.observe import logs
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.settings import Webhook
from remediator.signals.intake import Intake
from remediator.store import schema
from remediator.store.engine import Store, open_store
from remediator.web.alerts import Alerts
from remediator.web.app import create_app
from remediator.web.server import HttpServer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk this small")
TOKEN = "a-token-of-twenty-bytes"
SETTINGS = """
cluster: {name: test}
slurm: {url: "http://127.0.0.1:1"}
pools: {training: {node_selector: {pool: training}}}
store: {url: "%s"}
"""


class Disk:
    """A tmpfs whose size and rights are changed while it is in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/s.db"

    def mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.folder], check=True)

    def fill(self) -> None:
        """Not a byte is left."""
        with (self.folder / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def free(self) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = Disk(folder)
    disk.mount("size=1m")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Where everything logs to."""
    with (tmp_path / "log").open("w", buffering=1) as stream:
        logs.configure("info", stream=stream)
        yield tmp_path / "log"
    logs.configure("info")


class Door:
    """Alertmanager's door of a service on this disk."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        (folder / "token").write_text(TOKEN)
        clock, metrics = SystemClock(), Metrics()
        self.store: Store = open_store(disk.url)
        self.intake = Intake(self.store, lambda *_: None, clock)
        alerts = Alerts(
            settings=Webhook(token_paths=(folder / "token",)),
            hand_in=self.intake.hand_in,
            taken=lambda _signals: None,
            incomplete=lambda: None,
            metrics=metrics,
            clock=clock,
        )
        doors = [alerts.route()]
        self.server = HttpServer(
            create_app(health=Health(clock), metrics=metrics, doors=doors), "127.0.0.1", 0
        )
        self.intake.start()
        self.url = f"http://127.0.0.1:{self.server.start()}/v1/alerts"

    def post(self, number: int) -> int:
        """The answer to one alert of its own."""
        labels = {"node": "gpu-0", "xid": "79", "number": str(number), "text": "x" * 2000}
        one = {"labels": labels, "status": "firing", "startsAt": "2026-11-29T19:01:12Z"}
        body = json.dumps({"version": "4", "alerts": [one]}).encode()
        return httpx.post(
            self.url, content=body, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
        ).status_code

    def stored(self) -> list[int]:
        """Numbers of the alerts in the store, as another process reads them."""
        with self.store.read() as connection:
            details: list[dict[str, Any]] = list(
                connection.execute(sa.select(schema.signal.c.detail)).scalars()
            )
        return sorted(int(detail["labels"]["number"]) for detail in details)

    def stop(self) -> None:
        self.server.stop()
        self.intake.stop()
        self.store.close()


@pytest.fixture
def door(disk: Disk, tmp_path: Path, log: Path) -> Iterator[Door]:
    door = Door(disk, tmp_path)
    yield door
    door.stop()


def test_what_was_answered_200_is_stored_and_what_was_not_is_taken_again(
    door: Door, disk: Disk, log: Path
) -> None:
    before = {number: door.post(number) for number in range(3)}
    disk.fill()
    during = {number: door.post(number) for number in range(3, 9)}
    taken = [number for number, status in (before | during).items() if status == 200]
    refused = [number for number, status in during.items() if status == 503]
    assert refused, "the disk was never full"
    assert len(taken) + len(refused) == 9
    assert door.stored() == taken
    disk.free()
    assert {door.post(number) for number in range(9)} == {200}
    assert door.stored() == list(range(9))
    said = log.read_text()
    assert "database or disk is full; make room on its disk" in said
    assert '"exception"' not in said
    assert TOKEN not in said


def start(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `remediator controller` says before it ends with status 2."""
    (tmp_path / "settings.yaml").write_text(SETTINGS % disk.url)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)  # put back afterwards
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    done = CliRunner().invoke(app, ["controller", "--settings", str(tmp_path / "settings.yaml")])
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.output
    return done.stderr


def make_full(disk: Disk) -> None:
    disk.fill()


def make_read_only(disk: Disk) -> None:
    disk.mount("remount,ro")


def make_newer(disk: Disk) -> None:
    store = open_store(disk.url)
    with store.write() as connection:
        connection.execute(sa.update(schema.meta).values(value="99"))
    store.close()


def make_junk(disk: Disk) -> None:
    (disk.folder / "s.db").write_bytes(b"x" * 5000)


FULL = r"store\.url: .*full; make room on its disk"
READ_ONLY = r"store\.url: .*Read-only file system; check path and permissions"
NEWER = r"store\.url: schema 99 is newer .*: run the newer program"
JUNK = r"store\.url: .*not a database; this is no store of the service"


@pytest.mark.parametrize(
    ("spoil", "fresh", "says"),
    [
        (make_full, True, FULL),
        (make_read_only, True, READ_ONLY),
        (make_read_only, False, READ_ONLY),
        (make_newer, False, NEWER),
        (make_junk, True, JUNK),
    ],
)
def test_a_store_that_cannot_be_had_ends_the_start_with_one_line(
    disk: Disk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Disk], None],
    fresh: bool,
    says: str,
) -> None:
    """A store that was there and whose disk is full now is waited for, as one that is locked."""
    if not fresh:
        open_store(disk.url).close()
    spoil(disk)
    said = start(disk, tmp_path, monkeypatch)
    assert said.startswith("error: ")
    assert re.search(says, said), said
