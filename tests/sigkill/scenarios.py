"""Which play kills the controller at which steps of which plan, and which step no play can reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from remediator.model.incident import GIVE_BACK, HOLD_JOB, RESTART_JOB, VALIDATE
from tests.sigkill import plays
from tests.sigkill.drill import Drill

WAY_BACK = "way back"
MOMENTS = ("intent", "accepted")


@dataclass(frozen=True)
class Scenario:
    """`kills`: steps by plan; `at_once`: both moments in one life story, else one story for each."""

    stage: str
    play: Callable[[Drill], None]
    kills: Mapping[str, tuple[str, ...]]
    at_once: bool = True
    also: tuple[str, ...] = ()

    def moments(self, when: str) -> set[str]:
        """Where the controller dies: after INTENTs, after acts, or ("both") after each."""
        steps = {step for names in self.kills.values() for step in names}
        kinds = MOMENTS if when == "both" else (when,)
        return {f"{step}:{kind}" for step in steps for kind in kinds} | set(self.also)


SCENARIOS = {
    "replaced": Scenario(
        "full",
        plays.is_replaced,
        {
            "replace": (
                "drain-slurm",
                "fence-node",
                "hold-place",
                "release-jobs",
                "start-jobs",
                "free-place",
                "claim-spare",
                "validate-spare",
                "evict-pods",
                "detach-node",
                "admit-spare",
            )
        },
        at_once=False,
    ),
    "moves only": Scenario(
        "move-jobs",
        plays.moves_only,
        {"move-jobs": ("drain-slurm", "fence-node", "release-jobs", "start-jobs")},
        at_once=False,
    ),
    "drained and returned": Scenario(
        "drain-only",
        plays.is_drained_and_returned,
        {
            "drain-only": ("drain-slurm", "fence-node"),
            GIVE_BACK: ("unfence-node", "resume-slurm"),
        },
    ),
    "rejoins DOWN and is returned": Scenario(
        "full",
        plays.rejoins_and_is_returned,
        {"replace": ("rejoin-slurm",), GIVE_BACK: ("accept-node", "attach-node", "unfence-node")},
        also=("admit-spare:accepted",),
    ),
    "forced": Scenario("full", plays.is_forced, {"replace": ("force-down",)}),
    "silent": Scenario("full", plays.goes_silent, {"replace": ("release-jobs", "hold-jobs", "start-jobs")}),
    "silent, moves only": Scenario(
        "move-jobs", plays.goes_silent_and_only_its_job_moves, {"move-jobs": ("hold-jobs",)}
    ),
    "lost to Slurm": Scenario("move-jobs", plays.is_lost_to_slurm, {HOLD_JOB: ("hold-jobs", "start-jobs")}),
    "resumed while held by a person": Scenario(
        "move-jobs",
        plays.is_resumed_while_its_job_is_held,
        {"move-jobs": ("hold-jobs",), WAY_BACK: ("undo-fence",)},
    ),
    "suspected": Scenario("full", plays.is_suspected, {VALIDATE: ("drain-slurm", "fence-node")}),
    "crashes by itself": Scenario(
        "move-jobs", plays.crashes_by_itself, {RESTART_JOB: ("restart-job", "start-jobs")}
    ),
    "resumed by a person": Scenario(
        "full", plays.is_resumed_by_a_person, {WAY_BACK: ("undo-fence", "undo-place", "undo-claim")}
    ),
    "uncordoned by a person": Scenario("full", plays.is_uncordoned_by_a_person, {WAY_BACK: ("undo-drain",)}),
}
IN_PROCESS_ONLY: Mapping[str, tuple[str, ...]] = {VALIDATE: ("validate-node",), WAY_BACK: ("undo-hold",)}
"""tests/crash kills there. On the lab a suspect's worker holds its GPUs, so the step writes nothing; and what
proves that a hold may be undone is a new slurmd there, beside which a missing DRAIN is nobody's doing.
"""

CASES = [
    (name, when)
    for name, scenario in SCENARIOS.items()
    for when in (("both",) if scenario.at_once else MOMENTS)
]
