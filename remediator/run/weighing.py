"""Whether a signal whose rule acts may act: its past, its companions and its witnesses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa

from remediator.incidents.companions import COMPANIONS_S, decides_at, followers_of, root_of
from remediator.incidents.correlate import of_another
from remediator.incidents.evidence import AGREE_S, ONE_WITNESS, Verdict, before_close, judge, overruled
from remediator.incidents.memory import HEALS
from remediator.model.decision import Decision
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.rules import Rules
from remediator.run.storeview import StoreView
from remediator.settings import MachineLimits
from remediator.signals.drains import DRAIN
from remediator.store import signals
from remediator.workflow.suspects import AFTER_FAILURE

AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Later:
    """It is judged at `until`: what it waits for may still come, and is judged itself when it does."""

    until: float


def weigh(
    connection: sa.Connection,
    view: StoreView,
    signal: Signal,
    machine: Machine,
    decision: Decision,
    rules: Rules,
    now: float,
) -> Verdict | Later:
    """Whether this signal may act as decided. Final evidence (T0) waits for no companion and no machine to
    settle.
    """
    closed = view.last_closed(machine)
    past = _of_the_past(connection, signal, machine, decision, closed)
    if past is None and view.limits is not None and decision.tier != "T0":
        past = _unsettled(view, signal, machine, closed, view.limits, now)
    if past is not None:
        return past
    if _is_record(signal, decision):
        return witnessed(connection, signal, machine, decision, now)
    if decision.tier != "T0" and now < decides_at(signal):
        return Later(decides_at(signal))
    within = AGREE_S[decision.tier]
    others = _of_machine(connection, machine, signal.seen_at - max(within, COMPANIONS_S))
    root = None if decision.tier == "T0" else root_of(signal, others, lambda one: rules.leads(one, machine))
    if root is not None:
        return Verdict(False, f"follows {root.what} within {COMPANIONS_S:.0f} s: recorded with it")
    verdict = judge(signal, others, machine.boot_id, decision.tier, now)
    if verdict.enough:
        return replace(verdict, followed_by=tuple(followers_of(signal, others)))
    last = signal.received_at + within
    return verdict if now >= last or verdict.reason != ONE_WITNESS else Later(min(last, now + AGAIN_S))


def witnessed(
    connection: sa.Connection, signal: Signal, machine: Machine, decision: Decision, now: float
) -> Verdict:
    """Whether its witnesses of now are enough; asks neither for its past nor for companions."""
    if _is_record(signal, decision):
        return Verdict(True, "Slurm's own record, and no job is interrupted for it")
    others = _of_machine(connection, machine, signal.seen_at - AGREE_S[decision.tier])
    return judge(signal, others, machine.boot_id, decision.tier, now)


def _of_machine(connection: sa.Connection, machine: Machine, since: float) -> list[Signal]:
    """Signals of this name, without those that may be of the machine that bore it before."""
    found = signals.of_node(connection, machine.name, since)
    return [one for one in found if not of_another(one, machine)]


def _is_record(signal: Signal, decision: Decision) -> bool:
    return signal.kind == DRAIN and decision.plan in AFTER_FAILURE


def named(decision: Decision, verdict: Verdict) -> Decision:
    """The decision with what only followed its root."""
    also = ", ".join(sorted({one.what for one in verdict.followed_by}))
    if not also:
        return decision
    return decision.model_copy(update={"sentence": f"{decision.sentence}; {also} came with it"})


def _of_the_past(
    connection: sa.Connection, signal: Signal, machine: Machine, decision: Decision, closed: Incident | None
) -> Verdict | None:
    """Why the signal belongs to the machine's last incident, if it does."""
    if closed is None:
        return None
    if closed.rule == decision.rule and before_close(signal, closed.closed_at):
        return Verdict(False, f"began before incident {closed.id} was closed: recorded")
    if closed.state == "overridden":
        past = signals.of_incident(connection, closed.id)
        if overruled(signal, past, closed, machine.boot_id):
            return Verdict(False, f"a person has overridden incident {closed.id} for this: recorded")
    return None


def _unsettled(
    view: StoreView,
    signal: Signal,
    machine: Machine,
    closed: Incident | None,
    limits: MachineLimits,
    now: float,
) -> Verdict | None:
    """What began before the service watched, or comes right after its own repair, tells of neither."""
    since = view.watching_since()
    if since is not None and signal.seen_at < since and now < since + limits.settle_s:
        return Verdict(False, "began before the service first watched: recorded")
    given_back = view.last_return(machine)
    healed = closed if closed is not None and closed.plan in HEALS and closed.state == "closed" else None
    ended = [one.closed_at for one in (given_back, healed) if one is not None and one.closed_at]
    if ended and now < max(ended) + limits.settle_s:
        return Verdict(False, f"comes within {limits.settle_s:.0f} s of its own repair: recorded")
    return None
