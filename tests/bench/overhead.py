"""From the fault to the job running on a spare: which part was waiting for others, and which was ours."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from deploy.lab.api import Lab
from tests.bench.ctldlog import log_seconds
from tests.bench.figures import Figure, Goal
from tests.e2e.helpers import Servers, Site, Training, in_order
from tests.servers.slurm import wait_for

OWN = "own overhead"
WHOLE = "fault to RUNNING"
GOALS = {OWN: Goal(p50=30)}
WIDTH = 4
"""All workers: the job cannot go on before the spare is in."""
_SLINKY = "system:serviceaccount:slinky:slurm-operator"
_REMEDIATOR = "system:serviceaccount:slurm:remediator"
_DISRUPTION = "system:serviceaccount:kube-system:disruption-controller"


@dataclass(frozen=True)
class Marks:
    """Moments of one replacement (seconds since 1970), in the order in which they come."""

    fault: float
    requeue: float
    job_gone: float
    unprotected: float
    evicted: float
    pod_created: float
    admitted: float
    registered: float
    idle: float
    running: float


def terms(marks: Marks) -> dict[str, float]:
    """Seconds by what was waited for; ours first. They sum up to the whole way."""
    empty = max(marks.job_gone, marks.unprotected)
    ready = max(marks.pod_created, marks.admitted)
    return {
        "ours: fault to requeue": marks.requeue - marks.fault,
        "ours: idle to evicted": marks.evicted - empty,
        "ours: spare admitted after the new pod": ready - marks.pod_created,
        "grace used and COMPLETING": marks.job_gone - marks.requeue,
        "pod-protect lag": empty - marks.job_gone,
        "old pod ends": marks.pod_created - marks.evicted,
        "pod start and registration": marks.registered - ready,
        "the operator's IDLE lag": marks.idle - marks.registered,
        "queue": marks.running - marks.idle,
    }


def own(found: Mapping[str, float]) -> float:
    """The sum of what is ours."""
    return sum(seconds for name, seconds in found.items() if name.startswith("ours"))


def replacements(site: Site, n: int, tell: Callable[[str], None]) -> list[Figure]:
    """`n` replacements under a job over all workers; the repaired node is each time the next spare."""
    samples: list[dict[str, float]] = []
    for i in range(n):
        tell(f"replacements: {i} of {n}")
        found = terms(_replace(site))
        samples.append(found | {OWN: own(found), WHOLE: sum(found.values())})
        site.mend()
        site.refill()
    names = (WHOLE, OWN, *(name for name in samples[0] if name not in {WHOLE, OWN}))
    return [
        Figure(name, "s", tuple(sample[name] for sample in samples), goal=GOALS.get(name, Goal()))
        for name in names
    ]


def measure(lab: Lab, n: int, tell: Callable[[str], None]) -> list[Figure]:
    """The same at stage `full`, with the lab in order before and after."""
    with in_order(lab, "full") as site:
        return replacements(site, n, tell)


def _replace(site: Site) -> Marks:
    job = site.train(f"-N{WIDTH}")
    site.trains(job)
    sick = job.workers()[0]
    node = site.node_of(sick)
    servers = Servers(site.lab)
    fault = time.time()
    site.lab.inject.xid(node, 79)
    wait_for(f"job {job.address} on the spare", lambda: job.is_running(1), 120, every=0.2)
    site.closes(node, 120)
    return _marks(fault, servers, job, sick, site.node_of(sick))


def _marks(fault: float, servers: Servers, job: Training, worker: str, spare: str) -> Marks:
    ctld = servers.ctld_text()
    calls = list(_calls(servers.audit_text()))

    def called(user: str, verb: str, what: str, name: str, after: float) -> float:
        found = (at for at, *call in calls if at > after and call == [user, verb, what, name])
        return next(found)

    job_id = job.address
    requeue = _logged(ctld, rf"_job_requeue_op: JobId={job_id}\b", fault)
    gone = _logged(ctld, rf"Requeuing JobId={job_id}\b", requeue)
    evicted = called(_REMEDIATOR, "create", "pods/eviction", worker, gone)
    budgets = [
        at for at, *call in calls if call[:3] == [_DISRUPTION, "update", "poddisruptionbudgets/status"]
    ]
    admitted = max(at for at, *call in calls if call == [_REMEDIATOR, "patch", "nodes", spare])
    created = called(_SLINKY, "create", "pods", worker, evicted)
    registered = _logged(ctld, rf"node_registration complete for {worker}\b", max(created, admitted))
    idle = _logged(ctld, rf"update_node: node {worker} state set to IDLE", registered)
    return Marks(
        fault=fault,
        requeue=requeue,
        job_gone=gone,
        unprotected=max((at for at in budgets if gone <= at <= evicted), default=gone),
        evicted=evicted,
        pod_created=created,
        admitted=admitted,
        registered=registered,
        idle=idle,
        running=_logged(ctld, rf"creating credential for JobId={job_id}\b", idle),  # backfill says no more
    )


def _logged(text: str, pattern: str, after: float) -> float:
    """When slurmctld first wrote it at or after a moment."""
    for match in re.finditer(rf"^\[(\S+)\] .*{pattern}", text, re.MULTILINE):
        at = log_seconds(match[1])
        if at >= after - 0.001:
            return at
    raise LookupError(f"slurmctld's log has no {pattern!r} after {after:.3f}")


def _calls(text: str) -> Iterator[tuple[float, str, str, str, str]]:
    """Time, user, verb, resource and name of each call that the API server accepted."""
    for line in text.splitlines():
        event = json.loads(line)
        target = event.get("objectRef", {})
        if event["stage"] == "ResponseComplete" and event["responseStatus"]["code"] < 300:
            what = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
            at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            yield at, event["user"]["username"], event["verb"], what, target.get("name", "")
