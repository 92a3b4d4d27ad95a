"""The one door in: many submitters, one commit for all that wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from remediator.clock import Clock
from remediator.errors import GiveUp, RemediatorError, Retry
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.store.engine import Store
from remediator.store.signals import insert_new

MAX_ROWS = 500
MAX_WAITING = 20_000
STALL_S = 10.0
TOO_LONG = "the store takes too long"
HandIn = Callable[[Sequence[Signal]], Future[None]]
log = logger(stage="intake")


@dataclass
class _Ticket:
    """One submitter's signals and the news of their commit."""

    signals: Sequence[Signal]
    done: Future[None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.done.set_running_or_notify_cancel()  # a sender that gives up cancels nothing


class Intake:
    """Batches signals into commits of at most 500 rows; a commit takes all that gathered during the last one.

    `committed(rows, seconds)` is called after each commit, from the intake's thread.
    """

    def __init__(self, store: Store, committed: Callable[[int, float], None], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._committed = committed
        self._queue: queue.Queue[_Ticket | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def start(self) -> None:
        """Start the committing thread."""
        self._thread.start()

    def stop(self) -> None:
        """Commit what is queued, then end the thread."""
        self._queue.put(None)
        self._thread.join(STALL_S)

    def submit(self, signals: Sequence[Signal]) -> None:
        """Return once the signals are committed; Retry when they are not (the sender must send again)."""
        try:
            self.hand_in(signals).result(STALL_S)
        except TimeoutError:
            raise Retry(TOO_LONG, after=1.0) from None

    def hand_in(self, signals: Sequence[Signal]) -> Future[None]:
        """As `submit`, for who can wait otherwise than in a thread of its own."""
        ticket = _Ticket(signals)
        try:
            if signals:
                self._queue.put_nowait(ticket)
            else:
                ticket.done.set_result(None)
        except queue.Full:
            ticket.done.set_exception(Retry("intake is full", after=1.0))
        return ticket.done

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = self._gather(first)
            self._commit([ticket for ticket in batch if ticket is not None])
            if batch[-1] is None:
                return

    def _gather(self, first: _Ticket) -> list[_Ticket | None]:
        batch: list[_Ticket | None] = [first]
        rows = len(first.signals)
        while rows < MAX_ROWS:
            try:
                ticket = self._queue.get_nowait()
            except queue.Empty:
                break
            batch.append(ticket)
            if ticket is None:
                break
            rows += len(ticket.signals)
        return batch

    def _commit(self, batch: list[_Ticket]) -> None:
        rows = [signal for ticket in batch for signal in ticket.signals]
        began = self._clock.steady()
        error = self._store_all(rows)
        if error is None:  # before the senders: the core shall not wait for their answers to be written
            self._committed(len(rows), self._clock.steady() - began)
        for ticket in batch:
            if error is None:
                ticket.done.set_result(None)
            else:
                ticket.done.set_exception(error)

    def _store_all(self, rows: list[Signal]) -> RemediatorError | None:
        try:
            with self._store.write() as connection:
                insert_new(connection, rows)
        except GiveUp as error:  # the store's trouble: the signals are good, their senders are to keep them
            log.warning("signals not stored", rows=len(rows), problem=str(error))
            return Retry(str(error), after=1.0)
        except RemediatorError as error:
            return error
        # the thread's boundary: were it to die, every sender would wait in vain from then on
        except Exception as error:
            log.exception("signals not stored", rows=len(rows))
            return Retry(f"the store failed: {type(error).__name__}", after=1.0)
        return None
