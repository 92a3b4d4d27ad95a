"""Checks of the service itself: store, leader, record, webhook tokens, alert rules."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from remediator.audit import chain
from remediator.run.doctor.finding import Finding, error, of_clock, ok, warn
from remediator.run.doctor.site import Site
from remediator.signals.sources import PrometheusRules
from remediator.store import commands, leadership
from remediator.store.engine import WAL_SAFE

ALERTS = frozenset(
    {
        "CoolingFails",
        "GpuEccUncorrected",
        "GpuHealthByDcgm",
        "GpuHot",
        "GpuHotterThanSiblings",
        "GpuMemoryHot",
        "GpuRowRemapFailed",
        "GpuRowRemapPending",
        "GpuSramUncorrected",
        "GpuThermalMarginGone",
        "GpuThermalSlowdown",
        "GpuXidByDcgm",
        "GpuXidByGpud",
        "GpuXidInKernelLog",
        "IbCounterStuck",
        "IbDiscards",
        "IbErrors",
        "IbFlapping",
        "IbLeafDown",
        "IbLinkErrors",
        "IbPortDown",
        "IbUnread",
        "IbWaitsMore",
        "NvlinkCrc",
        "NvlinkDown",
        "NvlinkErrors",
        "RemediatorAgentSilent",
        "RemediatorFrozen",
        "RemediatorIncidentStuck",
        "RemediatorNoLeader",
        "RemediatorPolicyRefused",
        "RemediatorPushRefused",
        "RemediatorServerSilent",
        "RemediatorSignalsUnknown",
        "RemediatorTwoLeaders",
    }
)
"""All alerts of deploy/rules."""
SHORTEST_TOKEN = 16


def store(site: Site) -> Finding:
    """A journal mode that this SQLite is safe with."""
    with site.store.read() as connection:
        mode = str(connection.execute(sa.text("PRAGMA journal_mode")).scalar_one())
    return journal(sqlite3.sqlite_version_info, mode)


def journal(version: tuple[int, ...], mode: str) -> Finding:
    """WAL is safe from SQLite 3.51.3 on only."""
    number = ".".join(map(str, version))
    if mode == "wal" and version < WAL_SAFE:
        says = f"SQLite {number} with journal_mode wal: its WAL-reset bug can corrupt the file"
        return error("store", says, "stop the controller, `PRAGMA journal_mode=TRUNCATE`, start it again")
    return ok("store", f"SQLite {number}, {'WAL' if mode == 'wal' else 'rollback journal'}")


def store_clock(site: Site) -> Finding:
    """Leases are counted by the store's clock."""
    with site.store.read() as connection:
        theirs = leadership.database_now(connection)
    return of_clock("clock of the store", theirs - site.clock.now(), "the store's machine", 1.0)


def leader(site: Site) -> Finding:
    """Somebody decides, and is allowed to write."""
    with site.store.read() as connection:
        holder = leadership.holder(connection)
        paused = commands.paused_by(connection)
    if holder is None:
        where = site.settings.kubernetes.lease_namespace
        return error(
            "leader", "no controller leads: nothing is decided", f"kubectl -n {where} logs deploy/remediator"
        )
    if paused:
        return warn("leader", f"{holder}; paused by {paused}: nothing is written", "remediator resume")
    return ok("leader", holder)


def dry_run(site: Site) -> Finding:
    """In a dry run everything is decided and nothing written."""
    if site.settings.dry_run:
        return warn("dry run", "on: nothing is written anywhere", "dry_run: false")
    return ok("dry run", "off")


def audit_chain(site: Site) -> Finding:
    """Nobody changed the record."""
    with site.store.read() as connection:
        verdict = chain.verify(connection)
    if not verdict.ok:
        says = f"broken at record {verdict.broken_at}: {verdict.problem}"
        return error("audit chain", says, "keep a copy of the store, then find out who changed it")
    return ok("audit chain", f"{verdict.records} records, whole")


def webhook_tokens(site: Site) -> Finding:
    """Alertmanager is let in by the token of a file."""
    check, files = "webhook tokens", site.settings.webhook.token_paths
    if not files:
        line = "webhook.token_paths: [/var/run/secrets/remediator/webhook-token]"
        return warn(check, "none: no alert of Alertmanager is let in", line)
    broken = [f"{file}: {problem}" for file in files if (problem := _token_problem(file))]
    if broken:
        return error(check, "; ".join(broken), "openssl rand -hex 32 > FILE, the same for Alertmanager")
    return ok(check, ", ".join(map(str, files)))


def alert_rules(site: Site) -> Finding:
    """Prometheus knows the alerts of deploy/rules."""
    check, prometheus = "alert rules", site.settings.prometheus
    if prometheus.url is None:
        return ok(check, "prometheus.url is not set: not looked at, and thresholds are only recorded")
    known = PrometheusRules(prometheus.url, prometheus.token_path, prometheus.deadline_s).alerts()
    missing = sorted(ALERTS - known)
    if missing:
        return warn(
            check,
            f"Prometheus has no {', '.join(missing)}",
            "rule_files: [deploy/rules/*.yaml] of Prometheus",
        )
    return ok(check, f"all {len(ALERTS)} known to Prometheus")


def _token_problem(file: Path) -> str:
    try:
        token = file.read_bytes().strip()
    except OSError as problem:
        return str(problem.strerror)
    return "too short to be a secret" if len(token) < SHORTEST_TOKEN else ""
