"""Checks of the checkpoint clock: somebody looks where the pools say that jobs save, and saves are short."""

from __future__ import annotations

from remediator.clock import rfc3339
from remediator.errors import RemediatorError
from remediator.run.doctor.finding import Finding, ok, warn
from remediator.run.doctor.site import Site
from remediator.run.job_outlook import too_slow
from remediator.settings import Pool
from remediator.store import checkpoints
from remediator.workflow.saved import LOOKING_S

KEYS = ("{job}", "{user}", "{jobname}")
NAMED = 3


def checkpoint_clock(site: Site) -> list[Finding]:
    """One finding a pool."""
    return [_of_pool(site, name, pool) for name, pool in site.settings.pools.items()]


def _of_pool(site: Site, name: str, pool: Pool) -> Finding:
    check, glob = f"checkpoints of {name}", pool.checkpoint_glob
    where = f"set pools.{name}.checkpoint_glob and an agent's checkpoint_globs"
    if glob is None:
        if pool.timing == "at-checkpoint":
            return warn(check, "nobody sees them: at-checkpoint leaves jobs to their own end", where)
        return ok(check, "not looked at: lost work stays unknown")
    with site.store.read() as connection:
        readers = checkpoints.readers(connection, glob)
        jobs = checkpoints.all_of(connection, glob)
    now = site.clock.now()
    if not any(now - at <= LOOKING_S for _, at, _ in readers):
        return warn(
            check, f"no agent looks at {glob}{_last(readers)}", f"checkpoint_globs: [{glob}] of an agent"
        )
    slow = [f"{key}: {why}" for key, saved in jobs if (why := too_slow(saved.save_s, _kill_wait(site)))]
    if slow:
        more = f" and {len(slow) - NAMED} more" if len(slow) > NAMED else ""
        says = f"{'; '.join(slow[:NAMED])}{more}"
        return warn(check, says, "save more often by the job itself, or faster: see runbooks/checkpoints.md")
    if not any(key in glob for key in KEYS):
        return warn(
            check, f"{glob} names no job: each job of the pool counts as saved by it", f"name one of {KEYS}"
        )
    return ok(check, f"{len(jobs)} jobs seen by {', '.join(node for node, _, _ in readers)}")


def _last(readers: list[tuple[str, float, str]]) -> str:
    """Who did, and what keeps it from it."""
    if not readers:
        return ""
    node, at, problem = readers[0]
    since = f"; {node} has not since {rfc3339(at)}" if at > 0 else f"; {node} cannot"
    return f"{since}: {problem}" if problem else since


def _kill_wait(site: Site) -> int | None:
    """None where Slurm does not say, or does not answer: another check tells that."""
    try:
        return site.config.kill_wait
    except RemediatorError:
        return None
