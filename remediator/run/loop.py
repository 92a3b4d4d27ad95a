"""The core's thread: wakes on answers, commits and due times; everything else it leaves to `turn`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from remediator.clock import Clock
from remediator.errors import Retry
from remediator.model.plan import Done
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.run.core import RECONSIDER_S, Core, Turn
from remediator.run.inbox import Inbox
from remediator.run.jumps import Jumps
from remediator.run.slurm_poll import SlurmPoll
from remediator.workflow.calls import Answer, Call
from remediator.workflow.journal import NAMES

STORE_PAUSE_S = 0.5
ASIDE_S = 0.05
"""How long the core stands aside for calls it has handed out; most have left by then."""
MOST_ASIDE_S = 0.25
"""In a storm of signals their senders get as much time as the core took, or this if it took more."""
LOUD = frozenset(
    {"overdue", "incident-held", "condition-lost", "incident-yields", "clock-set", "policy-changed"}
)
REQUEUES = frozenset({"release-jobs", "restart-job"})
log = logger(stage="core")


class CoreLoop:
    """Runs turns until stopped; `submit` takes the calls that a turn hands out, `sweep` is called after one
    that found nothing to do.
    """

    def __init__(
        self,
        core: Core,
        inbox: Inbox,
        poll: SlurmPoll,
        clock: Clock,
        submit: Callable[[Call], None],
        beat: Callable[[], None],
        metrics: Metrics,
        sweep: Callable[[], None],
    ) -> None:
        self._core = core
        self._inbox = inbox
        self._poll = poll
        self._clock = clock
        self._submit = submit
        self._beat = beat
        self._metrics = metrics
        self._sweep = sweep
        self._jumps = Jumps(clock)
        self._stopping = False

    def stop(self) -> None:
        """End after the present turn."""
        self._stopping = True
        self._inbox.nudge()

    def run(self) -> None:
        """Turn until stopped; Fenced goes up, it ends the process."""
        answers: list[Answer] = []
        pause = jump = 0.0
        while not self._stopping:
            answers += self._inbox.gather(pause)
            jump += self._jumps.seconds()
            began = self._clock.steady()
            try:
                turn = self._core.turn(self._clock.now(), answers, self._poll.view(), jump)
            except Retry as error:
                log.warning("the store does not take a turn", problem=str(error))
                pause = STORE_PAUSE_S
                continue
            for call in turn.calls:
                self._submit(call)
            if turn.calls:
                self._inbox.idle(ASIDE_S)  # a drain may be among them: what is written for people comes later
            self._tell(answers, turn)
            answers, jump = [], 0.0
            self._poll.watch(turn.treated)
            if turn.more:
                self._clock.sleep(min(self._clock.steady() - began, MOST_ASIDE_S))
            elif not (turn.calls or turn.sentences):
                self._sweep()
            # At most: the clock may have been set back since.
            pause = min(max(0.0, turn.wake_at - self._clock.now()), RECONSIDER_S)

    def _tell(self, answers: list[Answer], turn: Turn) -> None:
        """What was committed goes to the log, and the numbers move."""
        self._beat()
        for sentence in turn.sentences:
            log.info("judged", sentence=sentence)
        for entry in turn.entries:
            write = log.warning if entry.action in LOUD else log.info
            what = entry.outcome or entry.action
            write(what, incident=entry.incident, step=entry.step, subject=entry.subject, why=entry.why)
            if entry.action == "decision":
                self._metrics.decided(str(entry.detail.get("plan")))
        for reason, count in Counter(turn.doubts).items():
            self._metrics.doubted(reason, count)
        for answer in answers:
            self._count(answer)
        self._metrics.incidents_open(turn.open_incidents)
        self._metrics.signals_waiting(turn.waiting)
        self._metrics.audited(len(turn.entries))

    def _count(self, answer: Answer) -> None:
        row, outcome = answer.call.row, answer.outcome
        if outcome is None:
            return
        self._metrics.step_attempted(row.name, NAMES[type(outcome)])
        if isinstance(outcome, Done):
            now = self._clock.now()
            self._metrics.step_ended(row.name, now - (row.started_at or now))
            if row.name in REQUEUES and row.acted_at is not None:
                self._metrics.requeued()
