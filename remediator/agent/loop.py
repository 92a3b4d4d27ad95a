"""The agent's one loop: read, parse, push, remember. A turn never waits; the caller does."""

from __future__ import annotations

import math
import queue
import random
import socket
from contextlib import suppress

from remediator.agent.boot import read_boot_id
from remediator.agent.bursts import Bursts
from remediator.agent.checkpoint_clock import CheckpointClock
from remediator.agent.collector import Log
from remediator.agent.events import FAULT_LINES, PUSHED, gap_event
from remediator.agent.kernel_log import parse
from remediator.agent.metrics import Metrics
from remediator.agent.outbox import Outbox
from remediator.agent.push import Pusher
from remediator.agent.records import Gap, Item, Record
from remediator.agent.settings import AgentSettings
from remediator.agent.sources import open_source
from remediator.agent.state import Cursor, StateDir
from remediator.clock import Clock
from remediator.errors import BadInput, GiveUp, Retry
from remediator.model.signal import AgentPush, KernelEvent, PushedEvent

FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 10.0
# Sources without a descriptor are looked at this often.
POLL_S = 1.0
# The others wake the loop; a file whose change inotify cannot tell is looked at this often.
LISTEN_S = 5.0
# Events that stand in no log are numbered by microseconds of uptime, above all numbers of records.
FIRST_OWN_SEQ = 2**62


class Agent:
    """Owns the source, the outbox and the state directory of one node."""

    def __init__(
        self,
        settings: AgentSettings,
        pusher: Pusher,
        clock: Clock,
        log: Log,
        jitter: random.Random | None = None,
        checkpoints: CheckpointClock | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._checkpoints = checkpoints
        if checkpoints:
            self.metrics.show_checkpoints(checkpoints.seen, clock.now)
        self._settings, self._pusher, self._clock, self._log = settings, pusher, clock, log
        self._jitter = jitter or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._state = StateDir(settings.state_dir)
        self._outbox = Outbox()
        self._bursts = Bursts()
        self._heard: queue.SimpleQueue[KernelEvent] = queue.SimpleQueue()
        self._news, self._nudge = socket.socketpair()
        for end in (self._news, self._nudge):
            end.setblocking(False)
        self._own_seq = FIRST_OWN_SEQ
        self._boot = read_boot_id(settings.boot_id_path)
        self.metrics.speak_for(settings.node, self._boot)
        self._read_to, self._saved = self._resume()
        self.source = open_source(settings.kernel_log, self._start_after())
        self._live = False
        self._due = self.turned_at = clock.steady()
        self._failures = 0
        self._trouble = ""

    def turn(self) -> float:
        """Read what is there and push what is due; seconds the caller may wait for the source."""
        self.turned_at = self._clock.steady()
        with suppress(BlockingIOError):
            self._news.recv(4096)
        if not self._outbox.full:
            self._read()
            self._hear()
            self._tell_held(self.turned_at)
        seen = self._checkpoints is not None and self._checkpoints.fresh
        if self._clock.steady() >= self._due or ((self._outbox or seen) and not self._failures):
            self._push()
        self.metrics.waiting.set(len(self._outbox))
        if (self.source.more and not self._outbox.full) or (self._outbox and not self._failures):
            return 0.0
        most = POLL_S if self.source.fileno() is None else LISTEN_S
        return max(0.0, min(most, self._due - self._clock.steady()))

    def tell(self, event: KernelEvent) -> None:
        """What a collector found out; any thread may call. It is pushed by the next turn, at once."""
        self._heard.put(event)
        self.nudge()

    def nudge(self) -> None:
        """Let the next turn begin now; any thread may call, also after the end."""
        with suppress(OSError):  # it is full of nudges already, or nobody listens any more
            self._nudge.send(b"!")

    @property
    def wakers(self) -> tuple[int, ...]:
        """What is readable when the next turn has something to do: not the log while there is no room."""
        log = None if self._outbox.full else self.source.fileno()
        return (self._news.fileno(),) if log is None else (self._news.fileno(), log)

    def close(self) -> None:
        """Keep what was not accepted and close the source."""
        self._tell_held(math.inf)
        self._keep()
        self.source.close()

    # --- where the last process stopped

    def _resume(self) -> tuple[Cursor | None, Cursor | None]:
        """How far the log was read and acknowledged; the events between the two wait in the outbox."""
        cursor, spool = self._state.load_cursor(), self._state.load_spool()
        if spool is None:
            return cursor, cursor
        self._outbox.restore(spool.events, spool.read)
        self._drop_old_boots()
        return spool.read, cursor

    def _start_after(self) -> Cursor | None:
        """A ring buffer and a journal of this boot know nothing of older ones; a file may hold both."""
        after = self._read_to
        known = after and (after.boot_id == self._boot or self._settings.kernel_log.startswith("file:"))
        return after if known else None

    # --- reading

    def _read(self) -> None:
        items = self.source.read()
        self._check_boot()
        for item in items:
            self._take(item)
        self._live = self._live or not self.source.more

    def _check_boot(self) -> None:
        try:
            boot = read_boot_id(self._settings.boot_id_path)
        except BadInput:
            return  # the one we know stays true until the file says otherwise
        if boot != self._boot:
            self._log.info("new boot", boot_id=boot)
            self._boot = boot
            self._bursts.clear()
            self.metrics.speak_for(self._settings.node, boot)
            self._due = min(self._due, self._clock.steady())
            self._drop_old_boots()

    def _drop_old_boots(self) -> None:
        """Evidence of an older boot never acts, and a push speaks for the present one."""
        if old := self._outbox.drop_other_boots(self._boot):
            self._bury(old, "older_boot")

    def _take(self, item: Item) -> None:
        if isinstance(item, Record):
            self._read_to = Cursor(boot_id=self._boot, seq=item.seq, place=item.place)
            self.metrics.records.inc()
            event = parse(item.text)
            if event is not None:
                self._take_event(event, item)
        elif isinstance(item, Gap):
            self.metrics.lost.inc(item.lost or 0)
            self._found(gap_event(item), item.first, self._clock.now())

    def _take_event(self, event: KernelEvent, record: Record) -> None:
        """Every line is counted; one that only repeats another is not always pushed."""
        if event.kind not in FAULT_LINES:
            self._found(event, record.seq, self._happened_at(record))
            return
        # a journal entry may come without its time: then it is now that counts, not the node's boot
        printed = record.usec / 1e6 if record.usec else self._clock.steady()
        lines, due = self._bursts.lines(event, printed)
        self.metrics.count_fault(event, begins=lines == 1)
        if lines > 1:
            event = event.model_copy(update={"extra": event.extra | {"burst_lines": lines}})
        seen_at = self._happened_at(record)
        self._found(event, record.seq, seen_at, push=due)
        if not due:
            self._bursts.hold(PushedEvent(seq=record.seq, seen_at=seen_at, event=event), self._clock.steady())

    def _tell_held(self, now: float) -> None:
        """Bursts that have stopped are told to their last line."""
        for line in self._bursts.overdue(now):
            self._outbox.add(line, self._boot, self._read_to)

    def _hear(self) -> None:
        """Events of collectors, while there is room for them."""
        while not self._outbox.full:
            try:
                event = self._heard.get_nowait()
            except queue.Empty:
                return
            self._own_seq = max(self._own_seq + 1, FIRST_OWN_SEQ + int(self._clock.steady() * 1e6))
            self._found(event, self._own_seq, self._clock.now())

    def _happened_at(self, record: Record) -> float:
        """Live records happened now; older ones are placed by their time since boot, never in the future."""
        now = self._clock.now()
        if self._live:
            return now
        return min(now, self.source.booted_at(now, self._clock.steady()) + record.usec / 1e6)

    def _found(self, event: KernelEvent, seq: int, seen_at: float, *, push: bool = True) -> None:
        self.metrics.events.labels(event.kind).inc()
        if push and event.kind in PUSHED:
            self._outbox.add(PushedEvent(seq=seq, seen_at=seen_at, event=event), self._boot, self._read_to)

    # --- pushing

    def _push(self) -> None:
        batch = self._outbox.batch()
        looks = self._checkpoints.take() if self._checkpoints else ()
        push = AgentPush(node=self._settings.node, boot_id=self._boot, events=batch, checkpoints=looks)
        started = self._clock.steady()
        try:
            self._pusher.send(push)
        except GiveUp as error:
            if looks:
                self._log.warning("looks at checkpoints refused", reason=str(error))  # the next push has none
            else:
                self._refused(batch, str(error))
        except Retry as error:
            if looks and self._checkpoints:
                self._checkpoints.again()
            self._failed(str(error))
        else:
            self._accepted(len(batch))
        self.metrics.push_seconds.observe(self._clock.steady() - started)

    def _accepted(self, count: int) -> None:
        self.metrics.pushes.labels("accepted").inc()
        self.metrics.last_accepted.set(self._clock.now())
        if self._trouble:
            self._log.info("controller reached again", after=self._trouble, failures=self._failures)
        self._failures, self._trouble = 0, ""
        self._due = self._clock.steady() + self._settings.heartbeat_s
        self._acknowledge(self._outbox.accepted(count))

    def _refused(self, batch: tuple[PushedEvent, ...], reason: str) -> None:
        """The controller will never take it: find the one event at fault and set it aside."""
        self.metrics.pushes.labels("refused").inc()
        if not batch:
            self._wait(reason)
        elif not self._outbox.narrow(len(batch)):
            cursor = self._outbox.accepted(1)
            self._log.warning("event refused", reason=reason, seq=batch[0].seq, kind=batch[0].event.kind)
            self._bury(batch, "refused")
            self._acknowledge(cursor)

    def _failed(self, reason: str) -> None:
        self.metrics.pushes.labels("retry").inc()
        self._wait(reason)
        self._keep()

    def _wait(self, reason: str) -> None:
        """Full jitter: retries of many nodes must not come together."""
        if reason != self._trouble:
            self._log.warning("push failed, will retry", reason=reason, waiting=len(self._outbox))
        self._trouble = reason
        ceiling = min(LAST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._due = self._clock.steady() + self._jitter.uniform(0.0, ceiling)

    # --- remembering

    def _acknowledge(self, cursor: Cursor | None) -> None:
        """Move the cursor behind what was accepted; with nothing waiting, to the last line read."""
        target = cursor if self._outbox else self._read_to
        if target is not None and target != self._saved and self._write(target):
            self._saved = target
        if not self._outbox and self._outbox.changed:
            self._outbox.changed = False
            self._state.drop_spool()

    def _write(self, cursor: Cursor) -> bool:
        try:
            self._state.save_cursor(cursor)
        except OSError as error:
            self._state_error(error)
            return False
        return True

    def _keep(self) -> None:
        """Spool what waits, when it changed since the last time."""
        if not (self._outbox.changed and self._outbox and self._read_to):
            return
        try:
            self._state.save_spool(self._outbox.spool(self._read_to))
        except OSError as error:
            self._state_error(error)
        else:
            self._outbox.changed = False

    def _bury(self, events: tuple[PushedEvent, ...], reason: str) -> None:
        self.metrics.dead_letters.labels(reason).inc(len(events))
        try:
            self._state.bury(events, reason)
        except OSError as error:
            self._state_error(error)

    def _state_error(self, error: OSError) -> None:
        """A full or read-only disk must not stop the pushes."""
        self.metrics.state_errors.inc()
        self._log.warning("state cannot be written", error=error.strerror, path=str(self._settings.state_dir))
