"""Names from outside (field case O30): whatever door they come in by, they are text and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from remediator.audit import chain
from remediator.clock import rfc3339
from remediator.errors import BadInput
from remediator.settings import Webhook
from remediator.signals.alertmanager import listed, read_notification, sampled, told
from remediator.signals.episodes import convert
from remediator.store import commands, outbox, schema, signals
from remediator.store.commands import Command
from remediator.web.parse import parse_push, to_signals
from tests.crash.test_river import assert_moved_once
from tests.fakes.river import River

HOSTILE = (
    "gpu-0; touch /tmp/pwn",
    "gpu-0$(id)",
    "`id`",
    "--help",
    "ALL",
    "all",
    "gpu-[0-3]",
    "gpu-0,gpu-1",
    "gpu-0 gpu-1",
    "../gpu-0",
    "gpu-0/status",
    "gpu-0?dryRun=All",
    "gpu-0%2f",
    "gpu-0\nlevel=info msg=approved",
    "gpu-0\x00",
    "\x1b[2Jgpu-0",
    "gpu-0\u202e",
    "GPU-0",
    "gpu-0.cluster.example",
    "gpu-0:9400",
    "w-gpu-0",
    " gpu-0",
    "gpu",
    "",
)
"""Beside those of the field case: what a tool that cuts, folds or completes names takes for gpu-0."""
LABELS = {"alertname": "GpuXid", "xid": "79", "witness": "own-counters"}
NAMES = Webhook()


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def entry(river: River, name: str) -> dict[str, Any]:
    return {"labels": LABELS | {"node": name}, "startsAt": rfc3339(river.clock.now())}


def by_webhook(river: River, name: str) -> None:
    body = json.dumps({"version": "4", "alerts": [entry(river, name) | {"status": "firing"}]}).encode()
    store(river, convert(told(read_notification(body).entries), NAMES, "webhook", river.clock.now()).signals)


def by_backfill(river: River, name: str) -> None:
    now = river.clock.now()
    alerts = listed(json.dumps([entry(river, name) | {"status": {"state": "active"}}]).encode())
    alerts += sampled([{"metric": LABELS | {"node": name}, "value": [now, str(int(now))]}])
    store(river, convert(alerts, NAMES, "backfill", now).signals)


def by_agent(river: River, name: str) -> None:
    """As if the API server had vouched for a token of a node that is so called."""
    event = {"seq": 1, "seen_at": river.clock.now(), "event": {"kind": "xid", "xid": 79, "raw": "NVRM: Xid"}}
    push = {"node": name, "boot_id": "boot-gpu-0", "events": [event]}
    with suppress(BadInput):  # an agent without a name is turned away at once
        store(river, to_signals(parse_push(json.dumps(push).encode()), river.clock.now()))


def store(river: River, found: list[Any]) -> None:
    with river.store.write() as connection:
        signals.insert_new(connection, found)


def by_hand(river: River, name: str) -> None:
    for verb in ("return", "hold", "release"):
        asked = Command(f"{verb}-{name!a}", verb, name, "ann", river.clock.now())
        with river.store.write() as connection:
            commands.ask(connection, asked)


DOORS: dict[str, Callable[[River, str], None]] = {
    "webhook": by_webhook,
    "backfill": by_backfill,
    "agent": by_agent,
    "command line": by_hand,
}


@pytest.mark.parametrize("door", DOORS)
def test_a_name_that_is_not_exactly_a_node_writes_nothing_by_any_door(river: River, door: str) -> None:
    for name in HOSTILE:
        DOORS[door](river, name)
    river.run(200.0)
    assert river.slurm.writes == []
    assert river.kube.writes == []
    assert river.all_incidents() == []
    with river.store.read() as connection:
        unjudged = sa.select(schema.signal.c.node).where(schema.signal.c.handled_at.is_(None))
        assert connection.execute(unjudged).all() == []
        answers = connection.execute(sa.select(schema.command.c.done)).scalars().all()
    assert not any(answers)
    DOORS[door](river, "gpu-0")  # the door is not simply shut
    river.turn()
    assert (len(river.open_incidents()) == 1) is (door != "command line")


def test_what_a_job_is_called_reaches_nobodys_terminal(river: River) -> None:
    name = "x\x1b[2J\nINC-1 closed\u202e"
    job = river.submit_job(name=name, comment=name)
    river.xid("gpu-0")
    river.run()
    assert_moved_once(river, job)
    with river.store.read() as connection:
        texts = [one.message.text for one in outbox.due(connection, river.clock.now())]
        records = [json.dumps(record, ensure_ascii=False) for record in chain.read(connection)]
    assert any("INC-1 closed" in text for text in texts)
    assert [text for text in texts + records if not text.isprintable()] == []
