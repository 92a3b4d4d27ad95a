"""Checks of Slurm: version, the three settings a requeue needs, the token, the clock."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from remediator.errors import GiveUp
from remediator.run.doctor.finding import Finding, error, of_clock, ok, warn
from remediator.run.doctor.site import ASK_S, Site
from slurm_bridge.pyslurm.backend import CANNOT
from slurm_bridge.rest.token import FileToken

NEED = (25, 11)
BEST = (26, 5)
NEWEST_PARSER = 45
WHERE = "in slurm.conf (Slinky: controller.extraConf), then `scontrol reconfigure`"
SOON = 0.2


def backend(site: Site) -> Finding:
    """Which way Slurm is spoken to, and what that way lacks."""
    check, chosen = "Slurm backend", site.settings.slurm.backend
    if site.worker is None:
        return ok(check, f"{chosen}: REST")
    worker = site.worker.about(deadline=ASK_S)
    if site.rest is not None:
        return ok(check, f"{chosen}: REST, and {worker} for what REST cannot do")
    lacks = f"{worker} alone cannot {'; '.join(CANNOT)}: what needs it is held"
    return warn(check, lacks, "slurm.backend: auto")


def slurm_answers(site: Site) -> Finding:
    """Slurmctld answers through slurmrestd, or through the pyslurm worker."""
    site.slurm.ping(deadline=ASK_S)
    through = site.settings.slurm.url if site.rest is not None else "the pyslurm worker"
    return ok("Slurm answers", f"slurmctld behind {through}")


def slurm_version(site: Site) -> Finding:
    """25.11 at least; a requeue by REST wants 26.05, one by pyslurm does not."""
    check, text = "Slurm version", site.config.version
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        return warn(check, f"not known: {text!r}", "look at `scontrol --version`; 26.05 or newer is needed")
    version = (int(found[1]), int(found[2]))
    if version < NEED:
        return error(check, text, "upgrade Slurm to 26.05 or newer")
    if version < BEST and site.worker is not None:
        return ok(check, f"{text}: requeues by pyslurm")
    if version < BEST:
        return error(check, f"{text}: drains, but cannot requeue by REST", "upgrade Slurm to 26.05 or newer")
    return ok(check, text)


def data_parser(site: Site) -> Finding:
    """The newest data_parser is spoken: with an older one jobs cannot be requeued."""
    check = "data_parser"
    if site.rest is None:
        return ok(check, f"not used: slurm.backend is {site.settings.slurm.backend}")
    spoken = site.rest.data_parser(deadline=ASK_S)
    says = f"v0.0.{spoken}"
    if spoken < NEWEST_PARSER and site.worker is not None:
        return ok(check, f"{says}: requeues by pyslurm")
    if spoken < NEWEST_PARSER:
        return error(check, f"{says} only: jobs cannot be requeued", "upgrade slurmrestd to 26.05 or newer")
    return ok(check, says)


def kill_wait(site: Site) -> Finding:
    """What a job has to save."""
    return _at_least("KillWait", site.config.kill_wait, 120, "jobs get less than two minutes to save")


def min_job_age(site: Site) -> Finding:
    """How long an ended job can be asked about."""
    return _at_least("MinJobAge", site.config.min_job_age, 300, "ended jobs are forgotten too soon")


def job_file_append(site: Site) -> Finding:
    """A requeue truncates a job's log otherwise."""
    check, value = "JobFileAppend", site.config.job_file_append
    if value is None:
        return _unseen(check, "1")
    return (
        ok(check, "1") if value else error(check, "0: a requeue empties the job's log", f"{check}=1 {WHERE}")
    )


def slurm_token(site: Site) -> Finding:
    """Whose token, and how long it still holds."""
    check, path = "Slurm token", site.settings.slurm.token_path
    claims = _claims(FileToken(path)())
    user, want = claims.get("sun"), site.settings.slurm.user
    renew = f"let {path} be renewed (Slinky: Token with `refresh: true` and `lifetime: 1h`)"
    if user != want:
        return error(check, f"is for user {user!r}, not {want!r}", f"slurm.user: {user}, or another token")
    ends, begun = claims.get("exp"), claims.get("iat")
    if not isinstance(ends, int | float):
        return ok(check, "for ever")
    left = ends - site.clock.now()
    if left <= 0:
        return error(check, f"expired {-left:.0f} s ago", renew)
    whole = ends - begun if isinstance(begun, int | float) and begun < ends else left
    says = f"{left / 60:.0f} of {whole / 60:.0f} minutes left"
    return warn(check, says, renew) if left < SOON * whole else ok(check, says)


def slurm_clock(site: Site) -> Finding:
    """Slurmctld counts whole seconds."""
    theirs = site.slurm.config(deadline=ASK_S).clock
    if theirs is None:
        return warn("clock of slurmctld", "seen through REST v0.0.45 only", "compare `date` on both machines")
    return of_clock("clock of slurmctld", theirs + 0.5 - site.clock.now(), "slurmctld's machine", 2.0)


def _at_least(check: str, value: int | None, least: int, otherwise: str) -> Finding:
    if value is None:
        return _unseen(check, str(least))
    if value < least:
        return error(check, f"{value}: {otherwise}", f"{check}={least} {WHERE}")
    return ok(check, str(value))


def _unseen(check: str, wanted: str) -> Finding:
    look = f"`scontrol show config | grep {check}` must say {wanted} or more"
    return warn(check, "cannot be seen before v0.0.45", look)


def _claims(token: str) -> dict[str, Any]:
    """What the token says of itself; only slurmctld can tell whether it is true."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, binascii.Error, ValueError, RecursionError):
        raise GiveUp("the Slurm token is no JSON web token") from None
    if not isinstance(claims, dict):
        raise GiveUp("the Slurm token is no JSON web token")
    return claims
