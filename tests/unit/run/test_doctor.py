"""`remediator doctor`: what each check says of a good setting and of a broken one."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from typer.testing import CliRunner

from remediator.cli import doctor
from remediator.cli.main import app
from remediator.clock import rfc3339
from remediator.errors import Retry
from remediator.kube import access, paths
from remediator.kube.acceptance import PROOF
from remediator.kube.access import Right
from remediator.kube.errors import Json
from remediator.run.doctor import kubernetes, service, slurm
from remediator.run.doctor.examine import CHECKS, examine, status
from remediator.run.doctor.finding import Finding, of_clock
from remediator.run.doctor.site import Site
from remediator.settings import Acceptance, Cluster, Pool, Prometheus, Settings, Slurm, Store, Webhook
from remediator.store import commands
from slurm_bridge.model import SlurmConfig
from slurm_bridge.pyslurm.backend import CANNOT
from tests.fakes.river import River
from tests.servers.wire import reply_json, wire

ROOT = Path(__file__).parents[3]
GOOD = SlurmConfig(
    "26.05.5", kill_wait=120, min_job_age=300, slurmd_timeout=30, job_file_append=True, started_at=1
)


class SlurmAs:
    """A Slurm that says what the test wants."""

    def __init__(self, config: SlurmConfig = GOOD, parser: int = 45) -> None:
        self._config = config
        self._parser = parser

    def ping(self, *, deadline: float) -> None:
        """It answers."""

    def config(self, *, deadline: float) -> SlurmConfig:
        """What the test said."""
        return self._config

    def data_parser(self, *, deadline: float) -> int:
        """What the test said."""
        return self._parser


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


class ApiAs:
    """The river's API server, which also answers about itself and about our rights."""

    def __init__(self, river: River) -> None:
        self._api = river.kube.api
        self._clock = river.clock
        self.list = self._api.list

    def get(self, path: str, *, deadline: float) -> Json | None:
        """Its version, or an object."""
        return (
            {"major": "1", "minor": "37"} if path == paths.VERSION else self._api.get(path, deadline=deadline)
        )

    def post(self, path: str, body: Json, *, deadline: float, harmless: bool = False) -> Json | None:
        """Whatever is asked is allowed, and nothing else is."""
        assert harmless
        return {"status": {"allowed": True, "resourceRules": [], "incomplete": False}}

    def server_time(self, *, deadline: float) -> float:
        """The same clock."""
        return self._clock.now()


def site(river: River, config: SlurmConfig = GOOD, parser: int = 45, **sections: Any) -> Site:
    settings = Settings(
        cluster=Cluster(name="test"),
        slurm=Slurm(url="http://127.0.0.1:1", token_path=river.folder / "token"),
        store=Store(url=f"sqlite:///{river.folder}/river.db"),
        **{"pools": {"training": Pool(node_selector={"pool": "training"}, stage="full")}} | sections,
    )
    slurm = SlurmAs(config, parser)
    found = Site(settings, slurm, river.clock, slurm)
    found.__dict__["api"] = ApiAs(river)
    return found


@pytest.mark.parametrize(
    ("check", "change", "level", "line"),
    [
        (slurm.kill_wait, {}, "ok", ""),
        (slurm.kill_wait, {"kill_wait": 119}, "error", "KillWait=120 in slurm.conf"),
        (slurm.kill_wait, {"kill_wait": None}, "warn", "grep KillWait"),
        (slurm.min_job_age, {"min_job_age": 300}, "ok", ""),
        (slurm.min_job_age, {"min_job_age": 2}, "error", "MinJobAge=300 in slurm.conf"),
        (slurm.job_file_append, {}, "ok", ""),
        (slurm.job_file_append, {"job_file_append": False}, "error", "JobFileAppend=1 in slurm.conf"),
        (slurm.job_file_append, {"job_file_append": None}, "warn", "grep JobFileAppend"),
        (slurm.slurm_version, {"version": "26.05.0"}, "ok", ""),
        (slurm.slurm_version, {"version": "27.11.1"}, "ok", ""),
        (slurm.slurm_version, {"version": "25.11.2"}, "error", "26.05"),
        (slurm.slurm_version, {"version": "24.05.4"}, "error", "26.05"),
        (slurm.slurm_version, {"version": ""}, "warn", "26.05"),
        (slurm.slurm_clock, {"clock": None}, "warn", "date"),
    ],
)
def test_each_setting_of_slurm_is_judged_with_the_line_to_set(
    river: River, check: Callable[[Site], Finding], change: dict[str, Any], level: str, line: str
) -> None:
    found = check(site(river, replace(GOOD, **change)))
    assert found.level == level
    assert (line in found.change) if line else not found.change


@pytest.mark.parametrize(("parser", "level"), [(45, "ok"), (46, "ok"), (44, "error")])
def test_an_old_data_parser_cannot_requeue(river: River, parser: int, level: str) -> None:
    assert slurm.data_parser(site(river, parser=parser)).level == level


class WorkerAs:
    """A pyslurm worker that is there, or is not."""

    def __init__(self, *, up: bool = True) -> None:
        self._up = up

    def about(self, *, deadline: float) -> str:
        """Its versions."""
        if not self._up:
            raise Retry("no pyslurm worker answers")
        return "pyslurm 25.11.2 on Python 3.14.1"


def with_worker(river: River, backend: str, *, up: bool = True) -> Site:
    """A Slurm 25.11, whose REST cannot requeue."""
    old = replace(GOOD, version="25.11.4")
    here = site(river, old, parser=44)
    ways = Slurm.model_validate(
        {"url": "http://127.0.0.1:1", "backend": backend, "pyslurm_socket": "/run/worker.sock"}
    )
    rest = here.rest if backend == "auto" else None
    return replace(
        here, settings=here.settings.model_copy(update={"slurm": ways}), rest=rest, worker=WorkerAs(up=up)
    )


@pytest.mark.parametrize("backend", ["auto", "pyslurm"])
def test_with_a_worker_an_older_slurm_will_do(river: River, backend: str) -> None:
    here = with_worker(river, backend)
    found = [check(here) for check in (slurm.slurm_version, slurm.data_parser, slurm.slurm_answers)]
    assert {one.level for one in found} == {"ok"}
    assert "requeues by pyslurm" in found[0].says


def test_the_backend_in_use_is_told_with_its_version(river: River) -> None:
    assert slurm.backend(site(river)) == Finding("Slurm backend", "ok", "auto: REST")
    found = slurm.backend(with_worker(river, "auto"))
    assert (found.level, found.says) == (
        "ok", "auto: REST, and pyslurm 25.11.2 on Python 3.14.1 for what REST cannot do",
    )  # fmt: skip


def test_pyslurm_alone_is_told_with_all_that_it_lacks(river: River) -> None:
    found = slurm.backend(with_worker(river, "pyslurm"))
    assert (found.level, found.change) == ("warn", "slurm.backend: auto")
    assert all(what in found.says for what in CANNOT)


def test_a_worker_that_is_named_and_not_there_is_an_error(river: River) -> None:
    (found,) = examine(with_worker(river, "auto", up=False), {"Slurm backend": slurm.backend})
    assert (found.level, found.says) == ("error", "no pyslurm worker answers")


def jwt(**claims: Any) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)
    )
    return ".".join([*parts, "c2lnbmF0dXJl"])


@pytest.mark.parametrize(
    ("begun", "ends", "user", "level"),
    [
        (-600, 3000, "slurm", "ok"),
        (-3000, 600, "slurm", "warn"),
        (-3600, -5, "slurm", "error"),
        (-600, 3000, "root", "error"),
        (-600, None, "slurm", "ok"),
        (None, 3000, "slurm", "ok"),
    ],
)
def test_a_token_is_judged_by_what_is_left_of_it_and_whose_it_is(
    river: River, begun: int | None, ends: int | None, user: str, level: str
) -> None:
    now = river.clock.now()
    claims = {"sun": user} | {k: now + v for k, v in (("iat", begun), ("exp", ends)) if v is not None}
    (river.folder / "token").write_text(jwt(**claims))
    found = slurm.slurm_token(site(river))
    assert found.level == level
    assert bool(found.change) == (level != "ok")


@pytest.mark.parametrize("text", ["", "abc", "a.b.c", "a.W10.c", "....", "a." + "W" * 100_000 + ".c"])
def test_what_is_no_token_is_an_error_that_does_not_repeat_it(river: River, text: str) -> None:
    (river.folder / "token").write_text(text)
    (found,) = examine(site(river), {"Slurm token": slurm.slurm_token})
    assert found.level == "error"
    assert not text or text not in found.says


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0.0, "ok"), (1.9, "ok"), (-2.0, "ok"), (4.0, "warn"), (-6.9, "warn"), (30.0, "error")],
)
def test_a_clock_may_differ_a_little(seconds: float, level: str) -> None:
    found = of_clock("clock", seconds, "x", 2.0)
    assert found.level == level
    assert (("behind" if seconds < 0 else "ahead") in found.says) == (level != "ok")


@pytest.mark.parametrize(
    ("version", "mode", "level"),
    [((3, 40, 1), "wal", "error"), ((3, 40, 1), "truncate", "ok"), ((3, 51, 3), "wal", "ok")],
)
def test_wal_is_safe_on_a_mended_sqlite_only(version: tuple[int, ...], mode: str, level: str) -> None:
    found = service.journal(version, mode)
    assert found.level == level
    assert ("TRUNCATE" in found.change) == (level == "error")


def test_the_store_and_its_record_are_whole(river: River) -> None:
    river.xid("gpu-0")
    river.run(5.0)
    here = site(river)
    assert service.store(here).level == "ok"
    assert service.audit_chain(here).level == "ok"
    with river.store.engine.connect() as connection, connection.begin():
        connection.execute(sa.text("DROP TRIGGER audit_no_update"))
        connection.execute(sa.text("UPDATE audit SET body = replace(body, 'gpu-0', 'gpu-1') WHERE seq = 2"))
    found = service.audit_chain(here)
    assert (found.level, "record 2" in found.says) == ("error", True)


def test_who_leads_and_who_paused_is_told(river: River) -> None:
    here = site(river)
    assert service.leader(here) == Finding("leader", "ok", "life-1")
    with river.store.write() as connection:
        commands.set_paused(connection, "ann")
    assert (service.leader(here).level, service.leader(here).change) == ("warn", "remediator resume")
    with river.store.write() as connection:
        connection.execute(sa.text("UPDATE leadership SET expires_at = 1"))
    assert service.leader(here).level == "error"


def test_a_dry_run_is_told(river: River) -> None:
    assert service.dry_run(site(river)).level == "ok"
    assert service.dry_run(site(river, dry_run=True)).change == "dry_run: false"


def test_a_pool_that_replaces_for_some_tier_wants_spares(river: River) -> None:
    for stage, level in (("move-jobs", "ok"), ({"T0": "move-jobs", "T1": "full"}, "warn")):
        here = site(
            river, pools={"b": Pool.model_validate({"node_selector": {"pool": "none"}, "stage": stage})}
        )
        assert [found.level for found in kubernetes.spares(here)] == [level]


def test_webhook_tokens_are_files_with_a_secret_in_them(river: River) -> None:
    good, short = river.folder / "good", river.folder / "short"
    good.write_text("s" * 64)
    short.write_text("abc\n")
    assert service.webhook_tokens(site(river)).level == "warn"
    assert service.webhook_tokens(site(river, webhook=Webhook(token_paths=(good,)))).level == "ok"
    for bad in (short, river.folder / "nothing-here"):
        found = service.webhook_tokens(site(river, webhook=Webhook(token_paths=(good, bad))))
        assert (found.level, str(bad) in found.says, "abc" in found.says) == ("error", True, False)


def test_prometheus_must_know_the_alerts(river: River) -> None:
    assert service.alert_rules(site(river)).level == "ok"  # no Prometheus, nothing to look at
    known = sorted(service.ALERTS)

    def rules(names: list[str]) -> object:
        return {"status": "success", "data": {"groups": [{"rules": [{"name": name} for name in names]}]}}

    with wire(lambda _: reply_json(rules(known))) as it:
        assert service.alert_rules(site(river, prometheus=Prometheus(url=it.url))).level == "ok"
        it.answer = lambda _: reply_json(rules(known[1:]))
        found = service.alert_rules(site(river, prometheus=Prometheus(url=it.url)))
        assert (found.level, known[0] in found.says) == ("warn", True)
        for answer in (reply_json({}), reply_json([], 200), reply_json(rules(known), 500)):
            it.answer = lambda _, answer=answer: answer  # type: ignore[misc]
            with pytest.raises(Retry):
                service.alert_rules(site(river, prometheus=Prometheus(url=it.url)))


def test_the_alerts_it_looks_for_are_those_of_the_rules() -> None:
    files = [yaml.safe_load(file.read_text()) for file in (ROOT / "deploy/rules").glob("*.yaml")]
    rules = [rule for file in files for group in file["groups"] for rule in group["rules"]]
    assert {rule["alert"] for rule in rules if "alert" in rule} == service.ALERTS


def test_the_rights_it_asks_for_are_those_the_manifests_grant() -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy/manifests/rbac.yaml").read_text()))
    granted = {
        Right(verb, resource, group, namespace=document["metadata"].get("namespace", ""), name=name)
        for document in documents
        if document["kind"] in {"ClusterRole", "Role"}
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert set(access.needed("slurm", "remediator", "slurm")) == granted


def test_rights_beyond_need_are_named_wildcards_and_wider_ones_too() -> None:
    wanted = access.needed("slurm", "remediator")
    assert access.excess(frozenset(replace(right, namespace="") for right in wanted), wanted) == []
    wider = frozenset(
        {
            Right("*", "*", "*"),
            Right("delete", "pods"),
            Right("get", "leases", access.LEASES),
            Right("get", "nodes"),
        }
    )
    assert {str(right) for right in access.excess(wider, wanted)} == {
        "* *.*", "delete pods", "get leases.coordination.k8s.io",
    }  # fmt: skip


def test_a_site_without_an_acceptance_test_is_told_what_that_means(river: River) -> None:
    found = kubernetes.acceptance_test(site(river))
    assert (found.level, "acceptance.image" in found.change) == ("warn", True)
    tested = site(river, acceptance=Acceptance(image="localhost/test:1", namespace="slurm"))
    assert kubernetes.acceptance_test(tested).level == "ok"
    assert {"create pods in namespace slurm", "delete pods in namespace slurm"} <= {
        str(right) for right in kubernetes._wanted(tested)
    }


def test_pools_and_spares_are_counted(river: River) -> None:
    assert [found.says for found in kubernetes.pools(site(river))] == ["5 nodes at stage full"]
    (found,) = kubernetes.spares(site(river))
    assert (found.level, found.says) == ("ok", "1 ready: spare-0 (to be tested when it is taken)")
    boot = river.kube.view("spare-0").boot_id
    river.kube.annotate("spare-0", {PROOF: f"{rfc3339(river.clock.now() - 5400)} {boot} passed"})
    (found,) = kubernetes.spares(site(river))
    assert found.says == "1 ready: spare-0 (tested 1.5 h ago)"
    river.kube.cordon("spare-0")
    (found,) = kubernetes.spares(site(river))
    assert (found.level, "spare-0 is cordoned" in found.says, "kubectl taint" in found.change) == (
        "warn",
        True,
        True,
    )


def test_a_pool_without_nodes_is_an_error(river: River) -> None:
    for name in river.names:
        river.kube.remove_node(name)
    (found,) = kubernetes.pools(site(river))
    assert (found.level, found.change) == ("error", "kubectl label node NODE pool=training")


def test_a_check_without_an_answer_is_an_error_and_stops_no_other(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: Any, **__: Any) -> Any:
        raise Retry("nobody answers")

    here = site(river)
    monkeypatch.setattr(here.slurm, "config", down)
    monkeypatch.setattr(here.slurm, "ping", down)
    monkeypatch.setattr(here.slurm, "data_parser", down)
    for name in ("get", "list", "post", "server_time"):
        monkeypatch.setattr(here.api, name, down)
    found = list(examine(here))
    assert len(found) >= len(CHECKS)
    assert {one.check for one in found if one.level == "ok"} >= {"store", "audit chain", "alert rules"}
    assert all(one.change for one in found if one.level != "ok")
    assert status(found) == 2


@pytest.mark.parametrize(
    ("levels", "code"), [([], 0), (["ok"], 0), (["ok", "warn"], 1), (["warn", "error", "ok"], 2)]
)
def test_the_exit_status_is_the_worst_finding(levels: list[Any], code: int) -> None:
    assert status([Finding("x", level, "y") for level in levels]) == code


def test_the_command_prints_a_table_or_json_and_exits_with_the_status(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = river.folder / "settings.yaml"
    file.write_text("cluster: {name: t}\nslurm: {url: 'http://x:1'}\npools: {a: {node_selector: {b: c}}}\n")
    monkeypatch.setattr(doctor, "_site", lambda _: site(river, replace(GOOD, kill_wait=30)))
    told = CliRunner().invoke(app, ["doctor", "--settings", str(file)], env={"COLUMNS": "200"})
    assert told.exit_code == 2
    lines = told.stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if line.split()[:2] == ["error", "KillWait"])
    assert "→ KillWait=120 in slurm.conf" in lines[at + 1]
    assert lines[-1].endswith("to mend")
    as_json = CliRunner().invoke(app, ["doctor", "--settings", str(file), "--json"])
    assert as_json.exit_code == 2
    (found,) = [one for one in json.loads(as_json.stdout) if one["check"] == "KillWait"]
    assert (found["level"], found["says"][:3]) == ("error", "30:")


def test_one_trouble_behind_many_checks_is_to_be_mended_once(river: River) -> None:
    def down(_: Site) -> Finding:
        raise Retry("slurmrestd is away")

    def other(_: Site) -> Finding:
        raise Retry("so is the API server")

    found = list(examine(site(river), {"a": down, "b": other, "c": down, "d": down}))
    assert [one.change for one in found] == ["see runbooks/doctor.md"] * 2 + ["as `a`"] * 2
