"""A site's overlay as operators bring it: a folder that a ConfigMap is mounted on, named in the settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from remediator.errors import BadInput
from remediator.observe.metrics import Metrics
from remediator.policy.decide import Situation, decide
from remediator.run.controller import Controller
from remediator.run.site_policy import SitePolicy
from remediator.settings import load
from tests.unit.policy.inputs import machine, xid
from tests.unit.run.deciding import Deciding

OBSERVED = "version: 1\nrules: {gpu-off-the-bus: {plan: record}}\n"
BROKEN = "version: 1\nrules: {gpu-off-the-bus: {plan: recrod}}\n"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""


class ConfigMap:
    """A mounted ConfigMap: its files are links into a hidden folder that is exchanged as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._changes = 0
        folder.mkdir()

    def set(self, **files: str) -> None:
        """The kubelet has written another version."""
        self._changes += 1
        version = self.folder / f"..v{self._changes}"
        version.mkdir()
        for name, text in files.items():
            (version / f"{name}.yaml").write_text(text)
        os.symlink(version.name, self.folder / "..new")
        os.replace(self.folder / "..new", self.folder / "..data")
        for link in self.folder.glob("*.yaml"):
            link.unlink()
        for name in files:
            os.symlink(f"..data/{name}.yaml", self.folder / f"{name}.yaml")


@pytest.fixture
def site(tmp_path: Path) -> ConfigMap:
    return ConfigMap(tmp_path / "policy")


@pytest.fixture
def settings(tmp_path: Path, site: ConfigMap) -> Path:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    path = tmp_path / "settings.yaml"
    path.write_text(
        f"cluster: {{name: c}}\nslurm: {{url: 'http://127.0.0.1:1'}}\nstore: {{url: 'sqlite:///{tmp_path}/s.db'}}\n"
        f"kubernetes: {{kubeconfig: {tmp_path}/kubeconfig}}\npools: {{gpu: {{node_selector: {{a: b}}}}}}\n"
        f"policy: {{overlay: {site.folder}}}\n"
    )
    return path


def test_the_controller_decides_by_the_overlay_of_its_settings(settings: Path, site: ConfigMap) -> None:
    site.set(site=OBSERVED)
    controller = Controller(load(settings, {}))
    try:
        decision = decide(xid(79), machine(), controller.policy, Situation(last_closed=None))
        assert (decision.action, decision.rule) == ("record", "gpu-off-the-bus")
        other = decide(xid(64), machine(), controller.policy, Situation(last_closed=None))
        assert (other.action, other.plan) == ("act", "replace")
    finally:
        controller.store.close()


def test_a_controller_with_a_refused_overlay_does_not_start(settings: Path, site: ConfigMap) -> None:
    site.set(site=BROKEN)
    with pytest.raises(BadInput) as caught:
        Controller(load(settings, {}))
    assert str(caught.value).startswith(f"{site.folder}/site.yaml:2:27: rules.gpu-off-the-bus.plan: ")
    assert not (settings.parent / "s.db").exists()


class World(Deciding):
    """A core whose overlay may change."""

    def __init__(self, folder: Path, site: ConfigMap) -> None:
        self.metrics, self.nudges = Metrics(), 0
        self.site = SitePolicy(site.folder, self.metrics, self._nudged)
        super().__init__(folder, policy=self.site.rules, site=self.site)

    def _nudged(self) -> None:
        self.nudges += 1

    def refused(self) -> bool:
        """What Prometheus is told."""
        return "remediator_policy_refused 1.0" in self.metrics.render().decode()


@pytest.fixture
def world(tmp_path: Path, site: ConfigMap) -> World:
    site.set(site="version: 1\nrules: {noise: {page: false}}\n")
    return World(tmp_path, site)


def test_a_changed_overlay_counts_from_the_next_signal_on_and_is_on_the_record(
    world: World, site: ConfigMap
) -> None:
    before = world.policy.digest
    site.set(site=OBSERVED)
    world.signal("gpu-0")
    world.turn()
    world.site.look()
    world.signal("gpu-1")
    turn = world.turn()
    assert [one.node for one in world.incidents()] == ["gpu-0"]
    assert "recorded" in turn.sentences[0]
    assert world.nudges == 1
    changed = [entry for entry in turn.entries if entry.action == "policy-changed"]
    assert [entry.detail["policy"] for entry in changed] == [world.policy.digest] != [before]
    world.site.look()
    assert "policy-changed" not in [entry.action for entry in world.turn().entries]


def gone(site: ConfigMap) -> None:
    site.set()


def broken(site: ConfigMap) -> None:
    site.set(site=BROKEN)


def twice(site: ConfigMap) -> None:
    site.set(a=OBSERVED, b=OBSERVED)


@pytest.mark.parametrize("spoil", [broken, gone, twice])
def test_a_change_that_is_refused_leaves_the_policy_in_force(
    world: World, site: ConfigMap, spoil: Callable[[ConfigMap], None]
) -> None:
    before = world.policy.digest
    spoil(site)
    with capture_logs() as logs:
        world.site.look()
        world.site.look()
    (told,) = logs
    assert str(site.folder) in told["problem"]
    assert world.refused()
    world.signal("gpu-0")
    world.turn()
    assert (world.policy.digest, [one.plan for one in world.incidents()]) == (before, ["replace"])
    site.set(site=OBSERVED)
    world.site.look()
    world.turn()
    assert not world.refused()
    assert world.policy.rules["gpu-off-the-bus"].plan == "record"


def test_a_change_back_to_what_is_in_force_is_none(world: World, site: ConfigMap) -> None:
    site.set(site=OBSERVED)
    world.site.look()
    site.set(site="version: 1\nrules: {noise: {page: false}}\n")
    world.site.look()
    assert "policy-changed" not in [entry.action for entry in world.turn().entries]
