"""The loop around `turn`: nothing a worker found may get lost, and leadership lost ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from remediator.clock import ManualClock
from remediator.errors import Fenced, Retry
from remediator.model.view import Drained, SlurmView
from remediator.observe.metrics import Metrics
from remediator.run import loop as module
from remediator.run.core import RECONSIDER_S, Core, Turn
from remediator.run.inbox import Inbox
from remediator.run.loop import MOST_ASIDE_S, CoreLoop
from remediator.run.slurm_poll import SlurmPoll
from remediator.workflow.calls import Answer, Call
from tests.fakes.slurm import FakeSlurm
from tests.unit.run.calls import answer, call, entry, turn

Script = Callable[[], Turn]


class ScriptedCore(Core):
    """Plays one scripted turn after another, then stops the loop."""

    def __init__(self, *script: Script) -> None:
        self.script = list(script)
        self.given: list[list[Answer]] = []
        self.views: list[SlurmView] = []
        self.at: list[float] = []
        self.jumps: list[float] = []
        self.last: Callable[[], None] = lambda: None

    def turn(
        self,
        now: float,
        answers: Sequence[Answer] = (),
        view: SlurmView | None = None,
        jump: float = 0.0,
    ) -> Turn:
        self.jumps.append(jump)
        self.given.append(list(answers))
        self.at.append(now)
        if view is not None:
            self.views.append(view)
        if len(self.given) == len(self.script):
            self.last()
        return self.script[len(self.given) - 1]()


class PatientInbox(Inbox):
    """Never waits: a wait moves virtual time instead, and is written down."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.pauses: list[float] = []

    def gather(self, pause: float) -> list[Answer]:
        self.pauses.append(pause)
        found = super().gather(0.0)
        if not found:
            self.clock.advance(pause)
        return found


class Loop:
    """A loop in virtual time around a scripted core."""

    def __init__(self, *script: Script) -> None:
        self.clock = ManualClock()
        self.core = ScriptedCore(*script)
        self.inbox = PatientInbox(self.clock)
        self.slurm = FakeSlurm(self.clock, nodes=("w-0",))
        self.poll = SlurmPoll(self.slurm, self.clock, self.inbox.nudge, 2.0, 30.0)
        self.submitted: list[Call] = []
        self.beats: list[float] = []
        self.swept: list[float] = []
        self.metrics = Metrics()
        self.loop = CoreLoop(
            self.core,
            self.inbox,
            self.poll,
            self.clock,
            self.submitted.append,
            lambda: self.beats.append(self.clock.now()),
            self.metrics,
            lambda: self.swept.append(self.clock.now()),
        )
        self.core.last = self.loop.stop

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name with these labels."""
        families = text_string_to_metric_families(self.metrics.render().decode())
        samples = [sample for family in families for sample in family.samples]
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())


def refuse() -> Turn:
    raise Retry("database is locked")


def fence() -> Turn:
    raise Fenced("epoch 1 was superseded by 2", 1)


def test_answers_are_kept_and_given_again_until_the_store_takes_a_turn() -> None:
    here = Loop(refuse, refuse, turn, turn)
    one, two = answer("admit"), answer("survey")
    here.inbox.answer(one)
    script = here.core.script[0]

    def late() -> Turn:
        here.inbox.answer(two)
        return script()

    here.core.script[0] = late
    here.loop.run()
    assert here.core.given == [[one], [one, two], [one, two], []]


def test_a_refused_turn_hands_out_nothing_and_is_tried_again_soon() -> None:
    here = Loop(refuse, lambda: turn(calls=(call("survey"),), wake_at=here.clock.now() + 5.0))
    here.loop.run()
    assert [one.row.name for one in here.submitted] == ["survey"]
    assert here.inbox.pauses == [0.0, module.STORE_PAUSE_S]
    assert len(here.beats) == 1


def test_fenced_ends_the_loop_and_nothing_more_is_handed_out() -> None:
    here = Loop(fence, turn)
    with pytest.raises(Fenced):
        here.loop.run()
    assert len(here.core.given) == 1
    assert here.submitted == []


def test_the_loop_sleeps_until_the_turn_says() -> None:
    here = Loop(lambda: turn(wake_at=here.clock.now() + 3.0), lambda: turn(wake_at=0.0), turn)
    start = here.clock.now()
    here.loop.run()
    assert here.inbox.pauses == [0.0, 3.0, 0.0]
    assert here.core.at[:2] == [start, start + 3.0]


def test_what_is_unknown_is_counted_by_its_reason() -> None:
    here = Loop(lambda: turn(doubts=("no-node", "one-witness", "no-node")))
    here.loop.run()
    counted = "remediator_signals_unknown_total"
    assert [here.metric(counted, reason=one) for one in ("no-node", "one-witness", "older-boot")] == [2, 1, 0]


def test_every_call_of_a_turn_goes_to_a_worker() -> None:
    calls = (call("drain-slurm", may_act=True), call("survey"))
    here = Loop(lambda: turn(calls=calls))
    here.loop.run()
    assert tuple(here.submitted) == calls


def test_a_turn_sees_the_slurm_view_and_says_what_to_watch() -> None:
    here = Loop(lambda: turn(treated=frozenset({"w-0"})), turn)

    def look() -> Turn:
        here.poll.poll()
        return turn()

    here.core.script = [here.core.script[0], look, turn]
    here.loop.run()
    assert [sorted(view.nodes) for view in here.core.views] == [[], [], ["w-0"]]
    assert isinstance(here.core.views[2].nodes["w-0"], Drained)


def test_stop_ends_the_loop_after_the_present_turn() -> None:
    here = Loop(turn, turn)
    here.loop.stop()
    here.loop.run()
    assert here.core.given == []


def test_numbers_of_a_turn_are_counted_once() -> None:
    here = Loop(refuse, lambda: turn(open_incidents=2, entries=(entry(), entry())), turn)
    here.inbox.answer(answer("survey"))
    here.inbox.answer(Answer(call("drain-slurm"), None))
    here.loop.run()
    assert here.metric("remediator_audit_records_total") == 2
    assert here.metric("remediator_steps_total", step="survey", outcome="done") == 1
    assert here.metric("remediator_steps_total", step="drain-slurm") == 0


@pytest.mark.parametrize(
    ("action", "level"), [("overdue", "warning"), ("incident-held", "warning"), ("intent", "info")]
)
def test_what_was_committed_is_told_once_and_loudly_when_a_person_is_needed(action: str, level: str) -> None:
    told = entry(action, why="its bound has passed")
    here = Loop(refuse, lambda: turn(entries=(told,)), turn)
    with capture_logs() as logs:
        here.loop.run()
    mine = [line for line in logs if line.get("why") == "its bound has passed"]
    assert [(line["event"], line["log_level"], line["incident"]) for line in mine] == [(action, level, "i1")]


def test_each_verdict_on_a_signal_is_told() -> None:
    here = Loop(lambda: turn(sentences=("XID 79 on gpu-0: drain",)), turn)
    with capture_logs() as logs:
        here.loop.run()
    assert "XID 79 on gpu-0: drain" in [line.get("sentence") for line in logs]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_what_the_clock_was_set_by_is_told_until_a_turn_is_taken_and_nobody_sleeps_through_it(
    seconds: float,
) -> None:
    here = Loop(lambda: turn(wake_at=here.clock.now() + 3.0), refuse, turn, turn)
    first = here.core.script[0]

    def then_set() -> Turn:
        found = first()
        here.clock.jump(seconds)
        return found

    here.core.script[0] = then_set
    here.loop.run()
    assert here.core.jumps == [0.0, seconds, seconds, 0.0]
    assert max(here.inbox.pauses) <= RECONSIDER_S


def test_in_a_storm_the_senders_get_as_much_time_as_the_core_took() -> None:
    def busy(seconds: float, *, more: bool) -> Script:
        def script() -> Turn:
            loop.clock.advance(seconds)
            return replace(turn(wake_at=loop.clock.now()), more=more)

        return script

    loop = Loop(busy(0.1, more=True), busy(9.0, more=True), busy(0.1, more=False), busy(0.0, more=False))
    start = loop.clock.now()
    loop.loop.run()
    assert [at - start for at in loop.core.at] == pytest.approx(
        [0.0, 0.2, 9.2 + MOST_ASIDE_S, 9.3 + MOST_ASIDE_S]
    )


def test_garbage_is_looked_for_after_a_turn_without_work_only() -> None:
    loop = Loop(
        lambda: turn(calls=(call(),)),
        lambda: replace(turn(), sentences=("judged",)),
        lambda: replace(turn(), more=True),
        turn,
    )
    loop.loop.run()
    assert loop.swept == loop.core.at[3:]
