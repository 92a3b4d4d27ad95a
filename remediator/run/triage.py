"""Signals become incidents: asks the inventory, the store and the policy, writes what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import sqlalchemy as sa

from remediator.audit.chain import savepoint
from remediator.incidents.correlate import boot_of, of_another
from remediator.incidents.evidence import is_asked_first
from remediator.model.decision import UNKNOWN, Decision
from remediator.model.incident import GIVE_BACK, Incident
from remediator.model.machine import Machine
from remediator.model.signal import ONLY_RECORDED, Signal
from remediator.observe.logs import logger
from remediator.policy.decide import decide
from remediator.policy.rules import Rules
from remediator.run import called_off
from remediator.run.crashes import Crashes
from remediator.run.job_verdicts import OF_JOBS, JobVerdicts, Judged
from remediator.run.lost_runs import Keeper
from remediator.run.openings import Inventory, Openings, quoting
from remediator.run.share import Share
from remediator.run.stalled_jobs import StalledJobs
from remediator.run.storeview import StoreView
from remediator.run.tellings import tell, tell_once
from remediator.run.weighing import AGAIN_S, Later, named, weigh
from remediator.run.worsening import Worsening
from remediator.signals.answers import ANSWERS, PASSED
from remediator.signals.drains import DRAIN_OVER
from remediator.signals.episodes import REFUSED
from remediator.signals.saves import SLOW
from remediator.signals.silence import TOLD
from remediator.signals.soperator import NOTED
from remediator.store import incidents, signals
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger

PAGE = 50  # signals that are read together
OWN_LOOKS = frozenset({"slurm", "condition"})
"""Sources of signals that no agent and no alert can send."""
CATCH_UP_S = 120.0  # a watch that is silent for longer freezes everything
log = logger(stage="triage")


class Triage:
    """Judges each signal once, in the transaction that also starts what it causes."""

    def __init__(
        self,
        inventory: Inventory,
        rules: Rules,
        ledger: Ledger,
        engine: Engine,
        journal: Journal,
        crashes: Crashes | None = None,
        keeper: Keeper | None = None,
        stalled: StalledJobs | None = None,
    ) -> None:
        self._inventory = inventory
        self._rules = rules
        self._ledger = ledger
        self._engine = engine
        self._journal = journal
        self.openings = Openings(inventory, rules, ledger, engine, journal)
        self._jobs = JobVerdicts(inventory, rules, journal, self.openings, crashes, keeper, stalled)
        self._worsening = Worsening(rules, ledger, engine, self.openings)
        self._doubts: list[str] = []
        self.touched: frozenset[str] = frozenset()
        """Incidents that the last judgement was about."""

    @property
    def inventory(self) -> Inventory:
        """What is known about nodes."""
        return self._inventory

    @property
    def rules(self) -> Rules:
        """The policy that is applied."""
        return self._rules

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why signals of the last judgement lead to nothing: a word for each that is unknown in some way."""
        return tuple(self._doubts)

    def judge(
        self, connection: sa.Connection, now: float, is_wanted: Callable[[], bool] = lambda: False
    ) -> tuple[list[str], bool]:
        """Judge what is new: one sentence per signal, and whether there may be more. One that waits, for its
        companions or for its node's boot to settle, stands before no other. It ends early when `is_wanted`
        says that others wait for the store.
        """
        view = StoreView(connection, self._ledger, now, dry_run=self._engine.dry_run)
        self._doubts = []
        verdicts: list[signals.Verdict] = []
        later: dict[int, float] = {}
        last, more = signals.FIRST, True
        share = Share(is_wanted)
        while more and not share.is_taken(view.openings):
            found = signals.unhandled(connection, last, PAGE + 1, now)
            page, more = found[:PAGE], len(found) > PAGE  # no turn comes only to see that nothing is left
            view.meet(self._machines(signal for _, signal in page))
            for last, signal in page:
                if share.is_taken(view.openings):
                    more = True
                    break
                verdict = self._verdict(connection, view, signal, now)
                if isinstance(verdict, Later):
                    later[last.row] = verdict.until
                elif verdict is None and last.due_at:
                    later[last.row] = now + AGAIN_S  # else it would be due in every turn
                elif verdict is not None:
                    sentence, incident = verdict
                    verdicts.append(signals.Verdict(last.row, sentence, incident))
                share.judged = len(verdicts) + len(later)
        signals.settle(connection, now, verdicts)
        signals.defer(connection, later)
        self.touched = frozenset(verdict.incident for verdict in verdicts if verdict.incident)
        return [verdict.sentence for verdict in verdicts], more

    def _machines(self, found: Iterable[Signal]) -> list[Machine]:
        """What the signals are about; what makes one of them odd is found out when it is judged."""
        machines = []
        for node in {signal.node for signal in found}:
            with suppress(Exception):  # it stops no other signal
                machines.append(self._inventory.machine(node))
        return [machine for machine in machines if machine is not None]

    def _verdict(
        self, connection: sa.Connection, view: StoreView, signal: Signal, now: float
    ) -> Judged | Later | None:
        """A sentence and the incident it is about; a signal that cannot be judged stops no other."""
        if signal.kind == REFUSED:
            return f"alerts by {signal.source} were refused: {signal.detail.get('reason')}", None
        if is_asked_first(signal):
            return f"{signal.what} on {signal.node}: Prometheus is asked before this counts", None
        try:
            judge = self._judge_own if signal.source in OWN_LOOKS else self._judge_one
            return judge(connection, view, signal, now)
        except sa.exc.OperationalError:
            raise  # the store's trouble, not this signal's: nothing is settled
        except Exception as error:
            self._ledger.changed()  # what it drew is taken back
            view.forget()
            log.exception("a signal could not be judged", dedupe=signal.dedupe)
            why = f"internal error {type(error).__name__}: {signal.node} is left alone, see the log"
            return self._doubt("internal-error", why)

    def _judge_own(
        self, connection: sa.Connection, view: StoreView, signal: Signal, now: float
    ) -> Judged | Later | None:
        """What a look of our own found; nobody outside can say these things."""
        if signal.kind in OF_JOBS:
            judge = self._jobs.judge if self._jobs.takes(signal.kind) else self._judge_one
            return judge(connection, view, signal, now)
        if signal.kind == PASSED:
            with savepoint(connection):
                return called_off.judge(connection, self._engine, self._journal, self._inventory, signal, now)
        noted = _noted(signal)
        if noted is not None:
            return noted, None
        if signal.kind == DRAIN_OVER:
            return self.openings.drain_over(connection, signal, now)
        if signal.kind in TOLD or signal.kind == SLOW:
            return tell(connection, signal, now, dry_run=self._engine.dry_run), None
        return self._judge_one(connection, view, signal, now)

    def _judge_one(
        self, connection: sa.Connection, view: StoreView, signal: Signal, now: float
    ) -> Judged | Later | None:
        machine = self._inventory.machine(signal.node)
        boot = boot_of(signal, machine.boot_id, now) if machine else "present"
        if boot == "unsettled":
            return None
        what = f"{signal.what} on {signal.node}"
        if machine is not None and boot == "older":
            return self._of_an_older_boot(view, signal, machine)
        if machine is not None and of_another(signal, machine):
            return self._doubt(
                "another-machine", f"{what} began before this machine bore that name: recorded"
            )
        existing = view.open_for(machine) if machine else None
        if existing is not None and existing.dry_run and not self._engine.dry_run:
            self._engine.end_dry_run(connection, existing, now)
            existing = None
        if machine is not None and existing is not None:
            return self._fold(connection, view, signal, machine, existing, now)
        return self._judge_new(connection, view, signal, machine, now)

    def _of_an_older_boot(self, view: StoreView, signal: Signal, machine: Machine) -> Judged:
        """It is never acted on; of a node in no pool, such as a virtual kubelet, no boot would be."""
        if machine.pool is None:
            decision = decide(signal, machine, self._rules, view.of(machine))
            return self._doubt(decision.reason, decision.sentence)
        return self._doubt("older-boot", f"{signal.what} on {signal.node} is from an older boot: recorded")

    def _judge_new(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine | None,
        now: float,
    ) -> Judged | Later | None:
        """A signal about a machine without an open incident."""
        if machine is not None and _came_back_unseen(connection, machine, now):
            return None
        decision = quoting(signal, decide(signal, machine, self._rules, view.of(machine)))
        if machine is None or decision.action == "record":
            tell_once(connection, signal, decision, now)
            if decision.reason in UNKNOWN:
                return self._doubt(decision.reason, decision.sentence)
            return decision.sentence, None
        weighed = weigh(connection, view, signal, machine, decision, self._rules, now)
        if isinstance(weighed, Later):
            self._sighted(connection, view, signal, machine, decision, now)
            return weighed
        if not weighed.enough:
            why = f"{decision.cause} on {signal.node}: {weighed.sentence}"
            return self._doubt(weighed.reason, why) if weighed.reason else (why, None)
        decision = named(decision, weighed)
        with savepoint(connection):  # the only writes that an error may have to take back
            incident = self.openings.open(
                connection, view, signal, machine, decision, now, weighed.followed_by
            )
        return decision.sentence, incident.id

    def _doubt(self, reason: str, sentence: str) -> Judged:
        """Nothing is done, and that is counted; the record has the reason too."""
        self._doubts.append(reason)
        return f"{sentence}{'' if f'({reason})' in sentence else f' ({reason})'}", None

    def _sighted(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        decision: Decision,
        now: float,
    ) -> None:
        """What waits counts already: of many that fall ill together none goes ahead of the others."""
        if not self._engine.dry_run and self._ledger.sighted(
            connection, view.groups(), machine, decision, signal.received_at, now
        ):
            view.started()

    def _fold(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        existing: Incident,
        now: float,
    ) -> Judged | Later | None:
        """A signal about a machine that has an open incident."""
        if existing.plan == GIVE_BACK:
            return self._during_return(connection, view, signal, machine, existing, now)
        return self._worsening.fold(connection, view, signal, machine, existing, now)

    def _during_return(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        returning: Incident,
        now: float,
    ) -> Judged | Later | None:
        """A fault that would act stops the return, then it is judged as if nobody had asked for one."""
        unfenced = machine.model_copy(update={"fenced_by": None})
        decision = decide(signal, unfenced, self._rules, view.of(unfenced))
        if decision.action == "record":
            return decision.sentence, None
        weighed = weigh(connection, view, signal, machine, decision, self._rules, now)
        if isinstance(weighed, Later):
            return weighed
        if not weighed.enough:
            return f"{decision.cause} on {signal.node}: {weighed.sentence}", None
        if not self._engine.stop_return(connection, returning, decision.cause, now):
            return None
        return self._judge_one(connection, view, signal, now)


def _noted(signal: Signal) -> str | None:
    """The sentence of what is only recorded."""
    says = str(signal.detail.get("says"))
    if signal.detail.get(ONLY_RECORDED):
        return f"{says}: recorded"
    if signal.kind in ANSWERS:
        return says
    return f"{says}: recorded, that is Soperator's to act on" if signal.kind in NOTED else None


def _came_back_unseen(connection: sa.Connection, machine: Machine, now: float) -> bool:
    """Whether the watch still shows a fence that a return took off: the fault is of a node in service."""
    if machine.fenced_by is None:
        return False
    back, fence = incidents.last_return(connection, machine.key), incidents.get(connection, machine.fenced_by)
    if back is None or back.closed_at is None or fence is None:
        return False
    return fence.opened_at <= back.opened_at and now - back.closed_at < CATCH_UP_S
