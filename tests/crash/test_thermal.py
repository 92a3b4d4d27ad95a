"""Alerts of heat, from the webhook to the node: what Prometheus' samples do not say touches nothing."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.model.faults import GPU_HOT, GPU_SLOWDOWN
from remediator.model.incident import COMMON_CAUSE, Incident
from remediator.observe.metrics import Metrics
from remediator.policy import rules
from remediator.run.thresholds import Thresholds
from remediator.settings import BreakerSettings, Budgets, GuardLimits, GuardSettings, Limit, Webhook
from remediator.settings.limits import MachineLimits
from remediator.signals.alertmanager import Alert
from remediator.signals.episodes import convert
from remediator.store import outbox, schema
from tests.fakes.prometheus import FakePrometheus
from tests.fakes.river import NODES, River

JUMPS = (41, 42, 345, 42, 82505, 41, 200000, 644245923, 42)
BLANKS = (9223372036854775794, 9223372036854775792, 9.223372036854776e18, 2147483632)
ALSO_BAD = (float("nan"), float("inf"), -1)


class Site:
    """A river, and a Prometheus that has read each of its GPUs every 30 s for the last quarter of an hour."""

    def __init__(
        self, folder: Path, budgets: Budgets | None = None, glob: str = "", policy: rules.Rules | None = None
    ) -> None:
        self.river = River(folder, budgets=budgets, glob=glob, policy=policy)
        self.prometheus = FakePrometheus()
        self.thresholds = Thresholds(
            self.prometheus, self.river.inventory(), self.river._submit, Metrics(), self.river.own
        )
        self.values: dict[str, tuple[float, ...]] = {}
        self.masks: dict[str, float] = {}
        self.began = self.river.clock.now()

    def alert(self, node: str, fault: str = GPU_HOT, *, firing: bool = True) -> None:
        """It is told, as every minute, by one of the doors."""
        labels = {"alertname": "Heat", "node": node, "gpu": "0", "UUID": f"GPU-{node}", "fault": fault}
        alerts = [Alert(labels, self.began, firing=firing)]
        self.thresholds.submit(convert(alerts, Webhook(), "webhook", self.river.own.now()).signals)

    def read(self) -> None:
        """What Prometheus has by now."""
        now = self.river.clock.now()
        self.prometheus.series.clear()
        self.prometheus.limits(now - 3)
        for metric, told in (
            ("DCGM_FI_DEV_GPU_TEMP", self.values),
            ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", {node: (mask,) for node, mask in self.masks.items()}),
        ):
            for node, values in told.items():
                times = range(int(now) - 900, int(now), 30)
                samples = [(float(at), float(value)) for at, value in zip(times, cycle(values), strict=False)]
                self.prometheus.put(metric, {"node": node, "gpu": "0", "UUID": f"GPU-{node}"}, samples)

    def go_on(self, seconds: float, *told: str, fault: str = GPU_HOT) -> None:
        """So much time passes, and the alerts of these nodes go on."""
        until = self.river.clock.now() + seconds
        while (now := self.river.clock.now()) < until:
            self.read()
            for node in told:
                self.alert(node, fault)
            self.thresholds.look()
            while self.river.clock.now() < now + 15:
                self.river.turn()

    def pass_by(self, seconds: float, *told: str) -> None:
        """The same with no more than a look and a turn each quarter of a minute."""
        for _ in range(int(seconds / 15)):
            self.read()
            for node in told:
                self.alert(node)
            self.thresholds.look()
            self.river.turn()
            self.river.clock.advance(14)

    def verdicts(self) -> list[str]:
        with self.river.store.read() as connection:
            query = sa.select(schema.signal.c.verdict).order_by(schema.signal.c.id)
            return list(connection.execute(query).scalars())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    "values",
    [JUMPS, BLANKS, ALSO_BAD, (0,), (79_000,), (352,), (174,), (104,), (*JUMPS, *BLANKS)],
    ids=range(9),
)
def test_an_alert_of_a_sensor_that_errs_touches_nothing(values: tuple[float, ...], site: Site) -> None:
    site.values["gpu-0"] = values
    site.go_on(120, "gpu-0")
    assert site.river.all_incidents() == []
    assert site.river.slurm.writes == []
    assert any("recorded" in verdict for verdict in site.verdicts())


def test_heat_on_every_sample_is_one_incident_however_long_it_is_told(site: Site) -> None:
    site.values["gpu-0"] = (79,)
    site.go_on(300, "gpu-0")
    (incident,) = site.river.all_incidents()
    assert (incident.node, incident.rule, incident.tier) == ("gpu-0", "thermal-hot", "T1")
    assert site.river.slurm.count("drain", "w-gpu-0") == 1


def test_a_hard_fault_moves_the_job_at_once(site: Site) -> None:
    job = site.river.submit_job()
    site.masks["gpu-0"] = 0x40
    site.go_on(120, "gpu-0", fault=GPU_SLOWDOWN)
    (incident,) = site.river.all_incidents()
    assert (incident.rule, incident.state) == ("thermal-hard", "closed")
    assert site.river.job(job).restart_count == 1


def test_a_resolved_alert_and_a_series_that_is_gone_give_nothing_back(site: Site) -> None:
    site.values["gpu-0"] = (79,)
    site.go_on(90, "gpu-0")
    (incident,) = site.river.all_incidents()
    site.values.clear()
    site.alert("gpu-0", firing=False)
    site.go_on(180)
    assert site.river.slurm.count("drain", "w-gpu-0") == 1
    assert not [write for write in site.river.slurm.writes if write.op in {"resume", "undrain"}]
    assert site.river.kube.view("gpu-0").unschedulable or "gpu-0" not in site.river.names
    assert site.river.all_incidents() == [site.river.all_incidents()[0]]
    assert site.river.all_incidents()[0].id == incident.id


SETTLED = Budgets(
    machine=MachineLimits(settle_s=0), drain=Limit(at_least=4), breaker=BreakerSettings(at_least=9)
)
ALL = GuardLimits(percent=100, in_pool=3)  # so that the share of a small pool counts nothing


def drained(site: Site) -> set[str]:
    return {write.target for write in site.river.slurm.writes if write.op == "drain"}


def groups(site: Site) -> list[Incident]:
    return [one for one in site.river.all_incidents() if one.plan == COMMON_CAUSE]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cooling_that_fails_slowly_and_behind_no_one_leaf_drains_nothing(
    restarts: bool, tmp_path: Path
) -> None:
    """The last comes as the first would be drained. Cool again they leave nothing that shields anybody."""
    site = Site(tmp_path, SETTLED.model_copy(update={"guard": GuardSettings(classes={"thermal": ALL})}))
    for name in NODES:
        site.values[name] = (82,)
        site.pass_by(180, *site.values)
        if restarts:
            site.river.begin()
    site.pass_by(720, *site.values)
    (cooling,) = groups(site)
    assert cooling.cause == "thermal on 4 nodes of pool training"
    site.values = dict.fromkeys(NODES, (60,))
    site.pass_by(750)
    assert {one.state for one in site.river.all_incidents()} == {"closed"}
    assert site.river.slurm.writes == []
    site.values["gpu-1"] = (82,)
    site.began = site.river.clock.now()
    site.pass_by(735, "gpu-1")
    assert drained(site) == {"w-gpu-1"}


def test_soft_heat_that_passes_before_others_can_have_followed_ends_at_the_door(tmp_path: Path) -> None:
    site = Site(tmp_path, SETTLED)
    site.values["gpu-0"] = (79,)
    site.pass_by(300, "gpu-0")
    site.values["gpu-0"] = (60,)
    site.pass_by(600)
    (incident,) = site.river.all_incidents()
    assert (incident.state, site.river.slurm.writes) == ("closed", [])
    with site.river.store.read() as connection:
        told = [one.message.text for one in outbox.due(connection, site.river.clock.now() + 1)]
    assert any("nothing was done" in text for text in told)


def test_hard_heat_waits_for_nobody_who_could_follow(tmp_path: Path) -> None:
    """Nor does it where the machine is softly hot already."""
    site = Site(tmp_path, SETTLED)
    site.values["gpu-0"] = (82,)
    site.go_on(90, "gpu-0")
    assert drained(site) == set()
    site.masks["gpu-0"] = 0x40
    site.go_on(90, "gpu-0", fault=GPU_SLOWDOWN)
    assert drained(site) == {"w-gpu-0"}


def test_soft_heat_acts_at_once_where_the_site_says_now(tmp_path: Path) -> None:
    overlay = tmp_path / "now.yaml"
    overlay.write_text("version: 1\nrules: {thermal-hot: {timing: now}}\n")
    site = Site(tmp_path, SETTLED, policy=rules.load(overlay=overlay))
    site.values["gpu-0"] = (82,)
    site.go_on(90, "gpu-0")
    assert drained(site) == {"w-gpu-0"}


@pytest.mark.parametrize("hot", [2, 4])
def test_many_hot_at_once_are_the_cooling_and_none_of_them_is_touched(hot: int, tmp_path: Path) -> None:
    """Two of four are no cause that they share, though more than a fifth: it takes three."""
    site = Site(tmp_path, SETTLED)
    nodes = NODES[:hot]
    site.values = dict.fromkeys(nodes, (82,))
    site.go_on(120, *nodes)
    assert site.river.slurm.writes == []
    if hot == 2:
        assert [(one.plan, one.state) for one in site.river.all_incidents()] == [("replace", "held")] * 2
        site.pass_by(615, *nodes)
        assert drained(site) == {f"w-{name}" for name in nodes}
        assert groups(site) == []
        return
    (cooling,) = groups(site)
    assert cooling.cause == "thermal on 3 nodes of pool training"  # which is when it became one
    query = sa.select(schema.outbox.c.text).where(schema.outbox.c.urgency == "page")
    with site.river.store.read() as connection:
        assert len(list(connection.execute(query).scalars())) == 1


def test_heat_that_passed_before_anybody_asked_is_only_recorded(site: Site) -> None:
    site.values["gpu-0"] = (60,)
    site.go_on(120, "gpu-0")
    assert site.river.all_incidents() == []
    assert any("has passed" in verdict for verdict in site.verdicts())
