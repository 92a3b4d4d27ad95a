"""One module per step; the table below is what the engine runs."""

from __future__ import annotations

from remediator.workflow.step import Step
from remediator.workflow.steps.accept_node import AcceptNode
from remediator.workflow.steps.admit import Admit
from remediator.workflow.steps.admit_spare import AdmitSpare
from remediator.workflow.steps.attach_node import AttachNode
from remediator.workflow.steps.await_empty import AwaitEmpty
from remediator.workflow.steps.await_idle import AwaitIdle
from remediator.workflow.steps.await_save import AwaitSave
from remediator.workflow.steps.claim_spare import ClaimSpare
from remediator.workflow.steps.close import Close
from remediator.workflow.steps.count_loss import CountLoss
from remediator.workflow.steps.detach_node import DetachNode
from remediator.workflow.steps.drain_slurm import DrainSlurm
from remediator.workflow.steps.end_yield import EndYield
from remediator.workflow.steps.evict_pods import EvictPods
from remediator.workflow.steps.fence_node import FenceNode
from remediator.workflow.steps.force_down import ForceDown
from remediator.workflow.steps.free_place import FreePlace
from remediator.workflow.steps.hold_jobs import HoldJobs
from remediator.workflow.steps.hold_place import HoldPlace
from remediator.workflow.steps.prove_resume import ProveResume
from remediator.workflow.steps.rejoin_slurm import RejoinSlurm
from remediator.workflow.steps.release_jobs import ReleaseJobs
from remediator.workflow.steps.restart_job import RestartJob
from remediator.workflow.steps.resume_slurm import ResumeSlurm
from remediator.workflow.steps.start_jobs import StartJobs
from remediator.workflow.steps.survey import Survey
from remediator.workflow.steps.undo_claim import UndoClaim
from remediator.workflow.steps.undo_drain import UndoDrain
from remediator.workflow.steps.undo_fence import UndoFence
from remediator.workflow.steps.undo_hold import UndoHold
from remediator.workflow.steps.undo_place import UndoPlace
from remediator.workflow.steps.unfence_node import UnfenceNode
from remediator.workflow.steps.validate_node import ValidateNode
from remediator.workflow.steps.validate_spare import ValidateSpare

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Admit(),
        DrainSlurm(),
        FenceNode(),
        Survey(),
        AwaitSave(),
        HoldPlace(),
        ReleaseJobs(),
        RestartJob(),
        HoldJobs(),
        StartJobs(),
        ProveResume(),
        FreePlace(),
        CountLoss(),
        ClaimSpare(),
        ValidateSpare(),
        AwaitEmpty(),
        AwaitIdle(),
        ValidateNode(),
        ForceDown(),
        EvictPods(),
        DetachNode(),
        AdmitSpare(),
        RejoinSlurm(),
        AcceptNode(),
        AttachNode(),
        UnfenceNode(),
        ResumeSlurm(),
        Close(),
        UndoFence(),
        UndoDrain(),
        UndoPlace(),
        UndoHold(),
        UndoClaim(),
        EndYield(),
    )
}
