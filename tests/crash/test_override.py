"""A person steps in: nothing more on the side they touched, ours taken back on the other, once, for good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remediator.audit import chain
from remediator.errors import Ambiguous, GiveUp
from remediator.kube.fence import CORDON_REASON, DID, FENCED, INCIDENT
from remediator.kube.spare import CLAIM
from remediator.model.incident import VALIDATE, Incident
from remediator.store import commands, outbox
from remediator.store.commands import Command
from tests.crash.test_suspects import crashes, settle, watched
from tests.fakes.river import Crash, River
from tests.fakes.slurm import Write

SICK, WORKER = "gpu-0", "w-gpu-0"
ON_NODES = {"drain", "resume", "set_down"}
Hand = Callable[[River], None]


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def resume(river: River) -> None:
    """A person resumes the Slurm node."""
    seen, before, after = river.slurm.writes, river.slurm.before, river.slurm.after
    river.slurm.writes, river.slurm.before, river.slurm.after = [], _nothing, _nothing
    river.slurm.resume(WORKER, deadline=5.0)
    river.slurm.writes, river.slurm.before, river.slurm.after = seen, before, after


def take_over(river: River) -> None:
    """A person drains the Slurm node with a reason of their own."""
    seen = river.slurm.writes
    river.slurm.writes = []
    river.slurm.drain(WORKER, "admin: mine", deadline=5.0)
    river.slurm.writes = seen


def uncordon(river: River) -> None:
    river.kube.uncordon(SICK)


def untaint(river: River) -> None:
    kept = [dict(t.raw) for t in river.kube.view(SICK).taints if t.key != FENCED]
    river.kube.outside(SICK, "untaint", {"spec": {"taints": kept}}, by="admin")


def wipe(river: River) -> None:
    """A person takes everything of ours off the node."""
    kept = [dict(t.raw) for t in river.kube.view(SICK).taints if t.key != FENCED]
    notes = dict.fromkeys((INCIDENT, DID, CORDON_REASON))
    patch = {"metadata": {"annotations": notes}, "spec": {"unschedulable": None, "taints": kept}}
    river.kube.outside(SICK, "wipe", patch, by="admin")


def _nothing(_op: str, _target: str) -> None:
    """No hook."""


IN_SLURM: list[Hand] = [resume, take_over]
IN_KUBERNETES: list[Hand] = [uncordon, untaint, wipe]


def stands(river: River, **job: Any) -> int:
    """An incident whose node waits drained and fenced, because a job is left alone there."""
    held = river.submit_job(width=1, batch=False, **job)
    river.xid(SICK)
    river.run(10.0)
    assert only(river).goes_on
    assert river.kube.view(SICK).unschedulable
    return held


@pytest.mark.parametrize("hand", IN_SLURM)
@pytest.mark.parametrize("hangs", [0.0, 8.0])
def test_a_hand_in_slurm_while_the_fence_is_set_is_obeyed(river: River, hand: Hand, hangs: float) -> None:
    """The DRAIN was accepted and never read back: its step may know of no other one."""
    came: list[str] = []

    def before(op: str) -> None:
        if op == f"patch nodes/{SICK}" and not came:
            came.append(op)
            river.clock.advance(hangs)
            hand(river)

    river.kube.before = before
    job = river.submit_job(width=1, batch=False)
    river.xid(SICK)
    river.run(60.0)
    assert only(river).state == "overridden"
    assert [write.op for write in node_writes(river)] == ["drain"]
    assert_bare(river)
    found = river.slurm.job(job, deadline=5.0)
    assert found is not None
    assert found.state == "RUNNING"


def test_a_fence_that_lands_late_is_taken_back_too(river: River) -> None:
    """The PATCH was lost on its way, somebody resumes, and then it is there."""
    late: list[float] = []

    def before(op: str) -> None:
        if op == f"patch nodes/{SICK}" and not late:
            late.append(river.clock.now() + 5.0)
            resume(river)
            raise Ambiguous("the answer is lost")

    river.kube.before = before
    river.submit_job(width=1, batch=False)
    river.xid(SICK)
    while not late:
        river.turn()
    taint = {"key": FENCED, "value": only(river).id, "effect": "NoSchedule"}
    while river.clock.now() < late[0]:
        river.turn()
    river.kube.set_taints(SICK, [*(dict(one.raw) for one in river.kube.view(SICK).taints), taint])
    river.run(60.0)
    assert only(river).state == "overridden"
    assert_bare(river)


def node_writes(river: River, since: int = 0) -> list[Write]:
    return [write for write in river.slurm.writes[since:] if write.op in ON_NODES]


def only(river: River) -> Incident:
    (incident,) = river.all_incidents()
    return incident


def records(river: River, action: str) -> list[dict[str, Any]]:
    with river.store.read() as connection:
        return [found for found in chain.read(connection) if found["action"] == action]


def pages(river: River) -> list[str]:
    with river.store.read() as connection:
        waiting = outbox.due(connection, river.clock.now(), 1000)
    return [row.message.text for row in waiting if row.message.urgency == "page"]


def assert_bare(river: River) -> None:
    """Nothing of any incident is on the Kubernetes node."""
    node = river.kube.view(SICK)
    assert not node.unschedulable
    assert FENCED not in {taint.key for taint in node.taints}
    assert not {INCIDENT, DID, CORDON_REASON} & set(node.annotations)


def assert_overridden(river: River) -> None:
    assert only(river).state == "overridden"
    assert river.open_incidents() == []
    with river.store.read() as connection:
        assert chain.verify(connection).ok


@pytest.mark.parametrize("hand", IN_SLURM)
def test_a_hand_in_slurm_takes_our_fence_back_and_nothing_is_written_in_slurm(
    river: River, hand: Hand
) -> None:
    job = stands(river)
    hand(river)
    before, node = len(river.slurm.writes), river.slurm.node(WORKER, deadline=5.0)
    river.run(120.0)
    assert_overridden(river)
    assert_bare(river)
    assert river.slurm.writes[before:] == []
    after = river.slurm.node(WORKER, deadline=5.0)
    assert node is not None
    assert after is not None
    assert (after.is_drain, after.reason) == (node.is_drain, node.reason)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)


@pytest.mark.parametrize("hand", IN_KUBERNETES)
def test_a_hand_in_kubernetes_takes_our_drain_back_and_nothing_is_written_there(
    river: River, hand: Hand
) -> None:
    job = stands(river)
    hand(river)
    writes, node = len(river.kube.ours(SICK)), river.kube.view(SICK)
    river.run(120.0)
    assert_overridden(river)
    assert len(river.kube.ours(SICK)) == writes
    assert river.kube.view(SICK) == node
    slurm = river.slurm.node(WORKER, deadline=5.0)
    assert slurm is not None
    assert (slurm.is_drain, slurm.reason) == (False, "")
    assert [write.op for write in node_writes(river)] == ["drain", "resume"]
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)


@pytest.mark.parametrize("hand", IN_KUBERNETES)
def test_a_hand_on_the_node_is_seen_in_the_turn_its_watch_event_wakes(river: River, hand: Hand) -> None:
    stands(river)
    hand(river)
    calls = river.turn()
    assert [call.row.name for call in calls if call.row.track == "main"] == ["fence-node"]
    river.turn()
    assert only(river).state == "yielding"


def test_a_watch_that_is_behind_our_own_write_is_looked_past_once(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = river.inventory().machine(SICK)
    stands(river)
    monkeypatch.setattr(type(river.inventory()), "machine", lambda _self, _name: bare)
    river.run(30.0)
    assert only(river).goes_on
    assert len(records(river, "condition-lost")) == 1


@pytest.mark.parametrize("hand", [*IN_SLURM, *IN_KUBERNETES])
def test_a_cordon_and_a_reason_that_were_there_before_stay(river: River, hand: Hand) -> None:
    river.kube.cordon(SICK)
    river.kube.outside(SICK, "note", {"metadata": {"annotations": {CORDON_REASON: "disk swap"}}}, by="admin")
    stands(river)
    hand(river)
    kept = river.kube.view(SICK).annotations.get(CORDON_REASON), river.kube.view(SICK).unschedulable
    river.run(120.0)
    assert_overridden(river)
    node = river.kube.view(SICK)
    assert (node.annotations.get(CORDON_REASON), node.unschedulable) == kept


def test_a_job_that_had_its_signal_restarts_by_itself_and_its_place_is_given_up(river: River) -> None:
    job = river.submit_job(save=5.0)
    river.xid(SICK)
    while not river.slurm.count("requeue", str(job)):
        river.turn()
    resume(river)
    river.run(60.0)
    assert_overridden(river)
    assert_bare(river)
    assert river.slurm.reservations(deadline=5.0) == ()
    assert river.job(job).reservation == ""
    assert river.slurm.count("start_now", str(job)) == 0
    river.clock.advance(150.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    (told,) = records(river, "incident-yields")
    assert (told["detail"]["signalled"], told["detail"]["left"]) == ([str(job)], [])


def test_a_job_in_its_place_is_taken_out_before_the_place_is_deleted(river: River) -> None:
    job = river.submit_job(width=3)
    river.submit_job(width=1)
    river.xid(SICK)
    while not river.job(job).reservation:
        river.turn()
    uncordon(river)
    river.run(60.0)
    assert_overridden(river)
    ops = [write.op for write in river.slurm.writes if write.effect]
    assert ops[-2:] == ["set_job_reservation", "delete_reservation"]
    assert (river.job(job).reservation, river.job(job).held) == ("", False)


def test_a_claimed_spare_is_free_again_and_the_next_incident_takes_it(river: River) -> None:
    job = stands(river)
    assert CLAIM in river.kube.view("spare-0").annotations
    resume(river)
    river.run(60.0)
    assert_overridden(river)
    assert CLAIM not in river.kube.view("spare-0").annotations
    river.slurm.cancel(job)
    river.xid("gpu-1")
    river.run(120.0)
    assert [found.state for found in river.all_incidents()] == ["closed", "overridden"]
    assert river.admitted() == ["spare-0"]


def test_a_drain_before_ours_stays_and_its_end_is_no_invitation(river: River) -> None:
    river.slurm.drain(WORKER, "DIMM swap ticket 4711", deadline=5.0)
    before = river.slurm.node(WORKER, deadline=5.0)
    river.slurm.writes.clear()
    river.xid(SICK)
    river.run(30.0)
    assert only(river).state == "held"
    assert river.slurm.node(WORKER, deadline=5.0) == before
    resume(river)
    river.run(120.0)
    assert_overridden(river)
    river.xid(SICK, seq=2)
    river.run(30.0)
    assert_overridden(river)
    assert river.slurm.writes == []
    assert river.kube.ours(SICK) == []


@pytest.mark.parametrize("hand", [resume, wipe])
def test_the_same_fault_never_acts_again_in_its_boot_and_another_one_does(river: River, hand: Hand) -> None:
    stands(river)
    hand(river)
    river.run(120.0)
    before = len(river.slurm.writes), len(river.kube.writes)
    for seq in (1, 2, 3):
        river.xid(SICK, seq=seq)
        river.clock.advance(700.0)
        river.run(5.0)
    assert_overridden(river)
    assert (len(river.slurm.writes), len(river.kube.writes)) == before
    river.xid(SICK, 64, seq=4)
    river.run(10.0)
    assert [found.goes_on for found in river.all_incidents()] == [True, False]


def test_another_fault_while_it_yields_is_judged_by_how_it_ends(river: River) -> None:
    stands(river)
    resume(river)
    while only(river).state != "yielding":
        river.turn()
    river.xid(SICK, 64, seq=7)
    river.run(120.0)
    river.run(10.0)
    assert [found.cause[:6] for found in river.all_incidents()] == ["XID 64", "XID 79"]
    assert [found.goes_on for found in river.all_incidents()] == [True, False]


def test_the_same_fault_in_a_later_boot_acts(river: River) -> None:
    job = stands(river)
    resume(river)
    river.run(120.0)
    river.slurm.cancel(job)
    river.kube.reboot(SICK, "boot-next")
    river.xid(SICK, seq=9, boot="boot-next")
    river.run(120.0)
    assert [found.state for found in river.all_incidents()] == ["closed", "overridden"]


def test_a_run_that_was_left_is_moved_by_the_incident_of_its_other_node(river: River) -> None:
    job = river.submit_job()
    refuse: list[bool] = [True]

    def before(op: str, _target: str) -> None:
        if op == "requeue" and refuse[0]:
            raise Crash("before the requeue leaves")

    river.slurm.before = before
    river.xid(SICK)
    with pytest.raises(Crash):
        river.run(60.0)
    river.begin()
    river.xid("gpu-1")
    resume(river)
    refuse[0] = False
    river.run(300.0)
    assert {found.state for found in river.all_incidents()} == {"overridden", "closed"}
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert river.slurm.count("requeue", str(job)) == 1


def test_a_run_nobody_had_signalled_is_left_and_goes_with_the_next_sick_node(river: River) -> None:
    job = river.submit_job()
    river.xid(SICK)
    while not river.kube.ours(SICK):
        river.turn()
    resume(river)
    river.run(60.0)
    assert only(river).state == "overridden"
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    river.xid("gpu-1")
    river.run(120.0)
    assert [found.state for found in river.all_incidents()] == ["closed", "overridden"]
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)


def test_people_are_told_once_and_by_name(river: River) -> None:
    stands(river)
    uncordon(river)
    river.run(120.0)
    said = [text for text in pages(river) if "overridden by human: node gpu-0 was uncordoned" in text]
    assert len(said) == 1
    assert "what we set in Slurm is taken back" in said[0]


UNDO = ["undo-fence", "undo-drain", "undo-place", "undo-claim"]
OF_HAND = {
    resume: {"undo-fence", "undo-place", "undo-claim"},
    uncordon: {"undo-drain", "undo-place", "undo-claim"},
}
CRASHES = [
    (hand, f"{step}:{moment}")
    for hand, steps in OF_HAND.items()
    for step in UNDO
    for moment in ("intent", "accepted")
    if step in steps
]


def yielding_with_everything(river: River, hand: Hand) -> int:
    """A person steps in while a job saves, its place is kept and a spare is claimed."""
    job = river.submit_job(save=5.0)
    river.submit_job(width=1)
    river.xid(SICK)
    while not (river.slurm.count("requeue", str(job)) and CLAIM in river.kube.view("spare-0").annotations):
        river.turn()
    hand(river)
    return job


def assert_all_taken_back(river: River, job: int, hand: Hand, writes: tuple[int, int]) -> None:
    assert_overridden(river)
    slurm, kube = node_writes(river)[writes[0] :], river.kube.ours(SICK)[writes[1] :]
    if hand is resume:
        assert_bare(river)
        assert (len(slurm), len(kube)) == (0, 1)
    else:
        assert ([write.op for write in slurm if write.effect], len(kube)) == (["resume"], 0)
    assert river.slurm.reservations(deadline=5.0) == ()
    assert CLAIM not in river.kube.view("spare-0").annotations
    assert river.job(job).reservation == ""
    assert river.slurm.count("requeue", str(job)) == 1


@pytest.mark.parametrize(("hand", "moment"), CRASHES)
def test_a_crash_while_taking_back_repeats_nothing(river: River, hand: Hand, moment: str) -> None:
    job = yielding_with_everything(river, hand)
    writes = len(node_writes(river)), len(river.kube.ours(SICK))
    crashed = river.crash_at(moment)
    river.run_through_crashes()
    assert crashed == [moment]
    assert_all_taken_back(river, job, hand, writes)


@pytest.mark.parametrize("hand", OF_HAND)
@pytest.mark.parametrize("at", [0, 1, 2, 3, 5, 8])
def test_a_crash_right_after_the_hand_ends_the_same(river: River, hand: Hand, at: int) -> None:
    job = yielding_with_everything(river, hand)
    writes = len(node_writes(river)), len(river.kube.ours(SICK))
    for _ in range(at):
        river.turn()
    river.clock.advance(2.0)
    river.begin()
    river.run()
    assert_all_taken_back(river, job, hand, writes)


@pytest.mark.parametrize(
    ("hand", "op"), [(resume, "patch"), (uncordon, "resume"), (resume, "delete_reservation")]
)
def test_a_lost_answer_while_taking_back_is_looked_up(river: River, hand: Hand, op: str) -> None:
    job = yielding_with_everything(river, hand)
    writes = len(node_writes(river)), len(river.kube.ours(SICK))
    lost: list[str] = []

    def after(name: str, _target: str = "") -> None:
        if name.startswith(op) and not lost:
            lost.append(name)
            raise Ambiguous(f"{name}: the connection broke")

    river.slurm.after = river.kube.after = after
    river.run()
    assert len(lost) == 1
    assert_all_taken_back(river, job, hand, writes)


def test_a_way_back_that_is_refused_pages_at_once_and_goes_on_when_it_may(river: River) -> None:
    stands(river)

    def before(op: str, _target: str) -> None:
        if op == "resume":
            raise GiveUp("the token may not change nodes")

    uncordon(river)
    river.slurm.before = before
    river.run(60.0)
    assert only(river).state == "yielding"
    assert len([text for text in pages(river) if "the token may not" in text]) == 1
    river.slurm.before = _nothing
    river.run(120.0)
    assert_overridden(river)


def test_a_suspect_that_is_resumed_under_its_test_is_let_go_with_the_test(river: River) -> None:
    watched(river)
    river.kube.api.trials[SICK] = {"phase": "Running"}
    crashes(river, "one")
    settle(river, 20.0)
    crashes(river, "two")
    settle(river, 20.0)
    assert len(trials_on(river)) == 1
    resume(river)
    settle(river)
    (suspected,) = [one for one in river.all_incidents() if one.plan == VALIDATE]
    assert suspected.state == "overridden"
    assert trials_on(river) == []
    assert_bare(river)


def trials_on(river: River) -> list[str]:
    """Pods of acceptance tests on the sick node."""
    found = river.kube._driver.pods_on(SICK, deadline=5.0)
    return [pod.key for pod in found if not pod.name.startswith("w-") and not pod.finished]


def test_a_persons_hold_keeps_even_the_way_back(river: River) -> None:
    stands(river)
    uncordon(river)
    while only(river).state != "yielding":
        river.turn()
    held(river, "hold")
    before = len(river.slurm.writes)
    river.run(30.0)
    assert (only(river).state, only(river).held_by) == ("yielding", "ann")
    assert len(river.slurm.writes) == before
    held(river, "release")
    river.run(120.0)
    assert_overridden(river)


def held(river: River, verb: str) -> None:
    asked = Command(f"{verb}-{river.clock.now()}", verb, only(river).id, "ann", river.clock.now())
    with river.store.write() as connection:
        commands.ask(connection, asked)
    river.turn()
