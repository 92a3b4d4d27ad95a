"""`python -m tests.bench.standin FOLDER NODES`: the controller's doors, intake, core and watches in a process
of their own, without a lab. Calls for the workers lead nowhere. Each word on stdin is answered by one line.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from remediator.clock import SystemClock
from remediator.kube.reviews import Identity
from remediator.kube.session import Session
from remediator.observe import logs
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.policy import rules
from remediator.run.caches import Caches
from remediator.run.controller import SWITCH_S
from remediator.run.core import Core
from remediator.run.garbage import Garbage
from remediator.run.heartbeats import Heartbeats
from remediator.run.inbox import Inbox
from remediator.run.loop import CoreLoop
from remediator.run.slurm_poll import SlurmPoll
from remediator.run.triage import Triage
from remediator.settings import Budgets, Pool, Webhook
from remediator.signals.intake import Intake
from remediator.store import leadership
from remediator.store.engine import open_store
from remediator.store.schema import signal
from remediator.web.alerts import Alerts
from remediator.web.app import create_app
from remediator.web.auth import AgentAuth
from remediator.web.pushes import Pushes
from remediator.web.server import HttpServer
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger
from slurm_bridge.port import SlurmPort
from tests.bench.cluster import Wire

TOKEN = "bench-token"
ACCOUNT = "system:serviceaccount:slurm:remediator-agent"
POOLS = {"training": Pool(node_selector={"pool": "training"}, stage="full")}
_RSS = re.compile(r"VmRSS:\s*(\d+) kB")


class StandIn:
    """Everything of the controller that a signal passes, wired as the controller wires it."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._clock = SystemClock()
        self._metrics = Metrics()
        self._inbox = Inbox()
        self._garbage = Garbage(self._clock)
        self._store = open_store(f"sqlite:///{folder}/stand-in.db")
        self._wire = Wire(nodes)
        self._caches = Caches(cast(Session, self._wire), self._clock, self._inbox.nudge, lambda: None)
        self._heartbeats = Heartbeats(self._clock)
        self._intake = Intake(self._store, lambda _rows, _seconds: self._inbox.nudge(), self._clock)
        self.loop = self._loop()
        doors = [self._pushes().route(), self._alerts(folder).route()]
        app = create_app(health=Health(self._clock), metrics=self._metrics, doors=doors)
        self._server = HttpServer(app, "127.0.0.1", 0)

    def start(self) -> int:
        """Open the doors; the port."""
        self._intake.start()
        return self._server.start()

    def watch(self) -> None:
        """Read the whole cluster and follow it."""
        self._caches.start()
        self._garbage.settle()

    def stop(self) -> None:
        """End the core's loop."""
        self._wire.close()
        self.loop.stop()

    def told(self) -> dict[str, Any]:
        """Memory (KiB), signals of alerts that are stored and judged, agents that are heard."""
        found = _RSS.search(Path("/proc/self/status").read_text())
        stored = sa.select(sa.func.count(), sa.func.count(signal.c.handled_at) + _waiting())
        with self._store.read() as connection:
            rows, judged = connection.execute(stored.where(signal.c.source == "webhook")).one()
        heard = self._heartbeats.count()
        return {"kib": int(found[1]) if found else 0, "rows": rows, "judged": judged, "heard": heard}

    def _loop(self) -> CoreLoop:
        with self._store.write() as connection:
            epoch = leadership.acquire(connection, "bench", 3600.0, sole=True) or 0
        journal = Journal("bench", epoch)
        inventory = self._caches.inventory(POOLS)
        ledger = Ledger(Budgets(), inventory.pool_size, journal, inventory.share_size)
        engine = Engine(journal, "bench", ledger)
        triage = Triage(inventory, rules.load(), ledger, engine, journal)
        core = Core(self._store, engine, triage, journal)
        nobody = cast(SlurmPort, None)  # it is never polled
        poll = SlurmPoll(nobody, self._clock, self._inbox.nudge, 2.0, 30.0)
        return CoreLoop(
            core, self._inbox, poll, self._clock, lambda _call: None, lambda: None, self._metrics,
            self._garbage.sweep,
        )  # fmt: skip

    def _pushes(self) -> Pushes:
        return Pushes(
            auth=AgentAuth(_identity, ACCOUNT, self._clock),
            hand_in=self._intake.hand_in,
            heartbeat=self._heartbeats.heard,
            looks=lambda _node, _looks, _now: None,
            metrics=self._metrics,
            clock=self._clock,
            body_cap=1024 * 1024,
        )

    def _alerts(self, folder: Path) -> Alerts:
        file = folder / "token"
        file.write_text(TOKEN)
        return Alerts(
            settings=Webhook(token_paths=(file,)),
            hand_in=self._intake.hand_in,
            taken=lambda _signals: None,
            incomplete=lambda: None,
            metrics=self._metrics,
            clock=self._clock,
        )


def _waiting() -> sa.ColumnElement[int]:
    """Signals that the core has seen and lets wait for their companions."""
    return sa.func.coalesce(sa.func.sum(sa.and_(signal.c.handled_at.is_(None), signal.c.due_at > 0)), 0)


def _identity(token: str) -> Identity:
    """As the API server vouches: the token begins with its node's name."""
    return Identity(authenticated=True, username=ACCOUNT, node=token.partition(".")[0])


def main(folder: str, nodes: str) -> None:
    """Serve until `end` is said, or stdin ends."""
    logs.configure("error")
    sys.setswitchinterval(SWITCH_S)
    service = StandIn(Path(folder), int(nodes))
    port = service.start()
    threading.Thread(target=_obey, args=(service, port), daemon=True).start()
    service.loop.run()


def _obey(service: StandIn, port: int) -> None:
    _say({"port": port})
    for line in sys.stdin:
        if line.strip() == "end":
            break
        if line.strip() == "watch":
            service.watch()
        _say(service.told())
    service.stop()


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
