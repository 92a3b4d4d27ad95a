"""The controller of the lab under a keeper that starts it again at once: armed to die, and counted."""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from deploy.lab.api import Lab
from deploy.lab.spec import SLURM_NAMESPACE
from remediator.run.failpoint import VARIABLE
from tests.e2e.helpers import ACCOUNT, DATA, HOME, Controller, Json, Servers, Site, Training, wait_for

KEEPER = Path(__file__).with_name("keeper.py")
PATIENCE_S = 400.0
STARTED = "controller started"


@dataclass(frozen=True)
class Death:
    """One end of a controller: at which moment, how (-9 is SIGKILL), when, and seconds until the next led."""

    moment: str
    status: int
    at: float
    back_s: float


class Drill:
    """One case on the lab: the moments at which the controller is killed, and what is seen of it."""

    _set: ClassVar[set[str]] = set()

    def __init__(self, site: Site, moments: Collection[str]) -> None:
        self.site = site
        self.moments = sorted(moments)
        self._began = 0.0

    def arm(self, **settings: str) -> None:
        """A new controller that dies once at each moment."""
        self.site.lab.exec(["find", DATA, "-name", "failpoint-*", "-delete"], node_name=HOME)
        self.let_go()
        given = {VARIABLE: ",".join(self.moments), **settings}
        pairs = [f"{name}={value}" for name, value in given.items()]
        pairs += [f"{name}-" for name in sorted(self._set - given.keys())]
        self._set.update(given)
        self.site.controller.change("set", "env", "deployment/remediator", *pairs)
        self._began = time.time()

    def hold(self, moment: str) -> None:
        """After its death at this moment the controller stays dead until `let_go`."""
        self.site.lab.exec(["sh", "-c", f"echo {moment} > {DATA}/hold"], node_name=HOME)

    def let_go(self) -> None:
        """The next life may begin."""
        self.site.lab.exec(["rm", "-f", f"{DATA}/hold"], node_name=HOME)

    def dies(self, moment: str) -> None:
        """Wait until the controller has died there."""
        met = lambda: moment in {death.moment for death in self.deaths()}  # noqa: E731
        with self.site.explained():
            wait_for(f"its death at {moment}", met, PATIENCE_S, every=0.3)

    def deaths(self) -> list[Death]:
        """So far, since it was armed."""
        said = [json.loads(line) for line in self.site.controller.lines() if line.startswith("{")]
        starts = [datetime.fromisoformat(one["time"]).timestamp() for one in said if _is_start(one)]
        ends = [one for one in said if "died" in one and one["at"] >= self._began]
        return [_death(one, starts) for one in ends]

    def runs_again(self, job: Training, restart: int = 1) -> None:
        """Wait until the job computes as this restart."""
        with self.site.explained():
            wait_for(f"restart {restart} of {job.address}", lambda: job.is_running(restart), PATIENCE_S, 0.3)

    def ends(self, node: str, plan: str, state: str = "closed") -> Json:
        """Wait until the node's newest incident, of this plan, is in this state; that incident."""
        found: list[Json] = []

        def ended() -> bool:
            found[:] = self.site.controller.incidents(node)
            return bool(found) and (found[0]["plan"], found[0]["state"]) == (plan, state)

        with self.site.explained():
            wait_for(f"the {plan} of {node} to be {state}", ended, PATIENCE_S, every=1.0)
        return found[0]

    @contextlib.contextmanager
    def slurmd_timeout(self, seconds: int) -> Iterator[None]:
        """Slurm itself gives a silent node up this late."""
        path = self.site.lab.layout.slurm_etc / "slurm.conf"
        before = path.read_text()
        path.write_text(re.sub(r"SlurmdTimeout=\d+", f"SlurmdTimeout={seconds}", before))
        self.site.lab.slurm("scontrol", "reconfigure")
        try:
            yield
        finally:
            path.write_text(before)
            self.site.lab.slurm("scontrol", "reconfigure")


def keep(lab: Lab) -> None:
    """Put the controller's container under the keeper: a pod that dies this often would be backed off."""
    container = {
        "name": "controller",
        "command": ["/opt/venv/bin/python", "-c", KEEPER.read_text()],
        "args": [DATA, "remediator", "controller"],
        "livenessProbe": None,
    }
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    Controller(lab).change("patch", "deployment/remediator", "-p", json.dumps(patch))


def accepted(servers: Servers) -> Counter[str]:
    """What the API server let our account change of nodes and pods, as "patch nodes gpu-0"."""
    events = [json.loads(line) for line in servers.audit_text().splitlines() if line.endswith("}")]
    return Counter(_what(event["verb"], event["objectRef"]) for event in events if _is_ours(event))


def in_lives(figures: list[Death]) -> str:
    """Deaths, and the seconds from each until the next controller led."""
    back = [death.back_s for death in figures]
    return f"{len(back)} deaths, back after {statistics.median(back):.1f} s, at most {max(back):.1f} s"


def _is_ours(event: Json) -> bool:
    ref = event.get("objectRef", {})
    changes = event["verb"] in {"patch", "update", "create", "delete"}
    taken = int(event.get("responseStatus", {}).get("code", 500)) < 300
    about = ref.get("resource") == "nodes" or ref.get("namespace") == SLURM_NAMESPACE
    return changes and taken and about and ref.get("resource") in {"nodes", "pods"} and _by_us(event)


def _by_us(event: Json) -> bool:
    return bool(event["user"]["username"] == ACCOUNT)


def _what(verb: str, ref: Json) -> str:
    kind = "/".join(filter(None, (ref["resource"], ref.get("subresource", ""))))
    named = ref.get("name", "") if kind != "pods" else ""
    return f"{verb} {kind} {named}".strip()


def _is_start(one: dict[str, Any]) -> bool:
    return one.get("event") == STARTED


def _death(one: dict[str, Any], starts: list[float]) -> Death:
    at = float(one["at"])
    after = [start for start in starts if start > at]
    return Death(one["moment"], one["died"], at, min(after, default=at) - at)
