"""O29: time is seconds since the epoch, whatever zone anybody is in."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.store import signals
from tests.cases.helpers import alert, deliver
from tests.fakes.river import River

ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Europe/Zurich")
CHANGES = [datetime(2026, 3, 29, 1, 0, tzinfo=UTC), datetime(2026, 10, 25, 1, 0, tzinfo=UTC)]


@pytest.fixture
def zone() -> Iterator[None]:
    """Whatever zone a test sets is taken back."""
    before = os.environ.get("TZ")
    yield
    if before is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = before
    time.tzset()


def story(folder: Path, zone: str, at: float) -> tuple[River, list[str]]:
    """One replacement in that zone from that second on, and the bytes of its record."""
    os.environ["TZ"] = zone
    time.tzset()
    folder.mkdir()
    river = River(folder)
    river.clock.jump(at - river.clock.now())
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    with river.store.read() as connection:
        records = list(chain.read(connection))
    return river, [_bytes(record, river.all_incidents()[-1].id) for record in records]


def _bytes(record: dict[str, object], incident: str) -> str:
    """An incident's name has chance in it; everything else is compared to the byte."""
    kept = {name: value for name, value in record.items() if name not in {"hash", "previous"}}
    return json.dumps(kept, sort_keys=True).replace(incident, "INC")


@pytest.mark.usefixtures("zone")
def test_the_record_is_the_same_in_every_zone(tmp_path: Path) -> None:
    at = CHANGES[0].timestamp() - 3600
    first, *others = (story(tmp_path / str(number), zone, at)[1] for number, zone in enumerate(ZONES))
    assert first
    for other in others:
        assert other == first


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("change", CHANGES, ids=["to summer time", "from summer time"])
def test_the_order_holds_over_the_change_to_summer_time_and_back(tmp_path: Path, change: datetime) -> None:
    """It begins a second before the clocks on the wall are set."""
    river, _ = story(tmp_path / "zurich", "Europe/Zurich", change.timestamp() - 1)
    incident = river.all_incidents()[-1]
    rows = {row.name: row for row in river.steps(incident.id)}
    names = ("drain-slurm", "release-jobs", "evict-pods", "close")
    ended = [rows[name].ended_at for name in names]
    assert None not in ended
    assert incident.fault_at <= incident.opened_at <= ended[0] <= ended[1] <= ended[2] <= ended[3]  # type: ignore[operator]
    assert incident.closed_at is not None
    assert 0 < incident.closed_at - incident.fault_at < 300


@pytest.mark.parametrize("skew", [420.0, 39_180.0], ids=["7 min ahead", "10 h 53 min ahead"])
def test_a_source_whose_clock_is_wrong_is_kept_with_both_times(tmp_path: Path, skew: float) -> None:
    """O29 (3): it acts, the incident's time is ours, and both times are in the store."""
    river = River(tmp_path)
    now = river.clock.now()
    deliver(river, alert(now + skew, boot_id="boot-gpu-0"))
    river.run()
    (incident,) = river.all_incidents()
    assert incident.fault_at <= incident.opened_at <= now + 1
    with river.store.read() as connection:
        (seen,) = signals.of_incident(connection, incident.id)
    assert (round(seen.seen_at - now), round(seen.received_at - now)) == (round(skew), 0)
