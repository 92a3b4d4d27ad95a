"""The list of all checks, and the one that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from remediator.errors import RemediatorError
from remediator.run.doctor import checkpoints, kubernetes, service, slurm
from remediator.run.doctor.finding import Finding, error
from remediator.run.doctor.site import Site

Check = Callable[[Site], Finding | list[Finding]]
CHECKS: dict[str, Check] = {
    "Slurm backend": slurm.backend,
    "Slurm answers": slurm.slurm_answers,
    "Slurm version": slurm.slurm_version,
    "data_parser": slurm.data_parser,
    "KillWait": slurm.kill_wait,
    "MinJobAge": slurm.min_job_age,
    "JobFileAppend": slurm.job_file_append,
    "Slurm token": slurm.slurm_token,
    "clock of slurmctld": slurm.slurm_clock,
    "Kubernetes version": kubernetes.kubernetes_version,
    "rights": kubernetes.rights_missing,
    "rights beyond need": kubernetes.rights_excessive,
    "clock of Kubernetes": kubernetes.kubernetes_clock,
    "pools": kubernetes.pools,
    "spares": kubernetes.spares,
    "acceptance test": kubernetes.acceptance_test,
    "checkpoints": checkpoints.checkpoint_clock,
    "store": service.store,
    "clock of the store": service.store_clock,
    "leader": service.leader,
    "dry run": service.dry_run,
    "audit chain": service.audit_chain,
    "webhook tokens": service.webhook_tokens,
    "alert rules": service.alert_rules,
}
"""By the name their findings bear; `pools`, `spares` and `checkpoints` have one a pool."""
EXIT = {"ok": 0, "warn": 1, "error": 2}


def examine(site: Site, checks: Mapping[str, Check] = CHECKS) -> Iterator[Finding]:
    """Every finding as it comes; a check that gets no answer is an error, and stops no other."""
    first: dict[str, str] = {}
    for name, check in checks.items():
        try:
            found = check(site)
        except RemediatorError as problem:
            says = str(problem)
            change = f"as `{first[says]}`" if says in first else "see runbooks/doctor.md"
            found = error(name, says, change)
            first.setdefault(says, name)
        yield from found if isinstance(found, list) else [found]


def status(findings: list[Finding]) -> int:
    """0 when all is well, 1 with a warning, 2 with an error."""
    return max((EXIT[finding.level] for finding in findings), default=0)
