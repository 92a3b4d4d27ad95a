"""A small, real training job: data-parallel SGD of a two-layer network, deterministic to the last bit.

Each rank computes the gradients of its share of every batch, the ranks exchange them through the
shared folder and add them in rank order. It saves at SIGTERM and resumes from the newest complete
checkpoint. Environment: STEPS, STEP_SECONDS, CKPT_EVERY, WORKDIR, PEER_SECONDS.

Only + - * / and comparisons of floats are used, added one by one: `sum` and the C library's functions
differ in the last bit between versions.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

INPUTS, HIDDEN, BATCH = 4, 8, 16
PARAMETERS = INPUTS * HIDDEN + HIDDEN + HIDDEN + 1
RATE = 0.05
SEED = 20260101
KEEP = 3
STOPPED = 128 + signal.SIGTERM
LOST_PEER = 75
AFTER_TERM_S = 10.0


class LostPeerError(Exception):
    """Another rank has not sent its gradients in time."""


@dataclass(frozen=True)
class Config:
    """Who this rank is and what it was asked to do."""

    rank: int
    ranks: int
    restart: int
    run: str
    workdir: Path
    steps: int
    step_seconds: float
    checkpoint_every: int
    peer_seconds: float


@dataclass
class State:
    """Everything that a checkpoint holds: the next step, the weights, the random numbers' state."""

    step: int = 0
    weights: list[float] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - must repeat


def config_from(env: dict[str, str]) -> Config:
    """Slurm's variables say who we are; the defaults suit a run under sbatch."""
    job = env.get("SLURM_JOB_ID", "local")
    restart = int(env.get("SLURM_RESTART_COUNT", "0"))
    return Config(
        rank=int(env.get("SLURM_PROCID", "0")),
        ranks=int(env.get("SLURM_NTASKS", "1")),
        restart=restart,
        run=env.get("TRAIN_RUN", f"{job}.{restart}.{env.get('SLURM_STEP_ID', '0')}"),
        workdir=Path(env.get("WORKDIR", Path(__file__).resolve().parent / f"run-{job}")),
        steps=int(env.get("STEPS", "600")),
        step_seconds=float(env.get("STEP_SECONDS", "0.05")),
        checkpoint_every=int(env.get("CKPT_EVERY", "50")),
        peer_seconds=float(env.get("PEER_SECONDS", "60")),
    )


# --- the network


def new_state() -> State:
    """Step 0: small random weights."""
    state = State()
    state.weights = [state.rng.random() - 0.5 for _ in range(PARAMETERS)]
    return state


def target(x: list[float]) -> float:
    """The function to learn."""
    return x[0] * x[1] + 0.5 * x[2] - x[3] * x[3]


def add_gradient(weights: list[float], x: list[float], total: list[float]) -> float:
    """Forward and backward for one example: adds its gradient to `total`, returns its squared error."""
    first_bias, second = INPUTS * HIDDEN, INPUTS * HIDDEN + HIDDEN
    hidden = []
    for unit in range(HIDDEN):
        value = weights[first_bias + unit]
        for at in range(INPUTS):
            value += weights[unit * INPUTS + at] * x[at]
        hidden.append(max(value, 0.0))
    output = weights[second + HIDDEN]
    for unit in range(HIDDEN):
        output += weights[second + unit] * hidden[unit]
    error = output - target(x)
    total[second + HIDDEN] += error
    for unit in range(HIDDEN):
        total[second + unit] += error * hidden[unit]
        if hidden[unit] > 0.0:
            back = error * weights[second + unit]
            total[first_bias + unit] += back
            for at in range(INPUTS):
                total[unit * INPUTS + at] += back * x[at]
    return error * error


def share(state: State, rank: int, ranks: int) -> tuple[float, list[float]]:
    """Loss and gradients of this rank's examples; all ranks draw the whole batch, so one state is enough."""
    batch = [[state.rng.random() * 2.0 - 1.0 for _ in range(INPUTS)] for _ in range(BATCH)]
    loss, total = 0.0, [0.0] * PARAMETERS
    for x in batch[rank::ranks]:
        loss += add_gradient(state.weights, x, total)
    return loss, total


def descend(state: State, parts: list[list[float]]) -> None:
    """One SGD step with the ranks' gradients, added in rank order."""
    for at in range(PARAMETERS):
        total = 0.0
        for part in parts:
            total += part[at]
        state.weights[at] -= RATE * total / BATCH
    state.step += 1


def digest(weights: list[float]) -> str:
    """SHA-256 of the weights' bits."""
    return hashlib.sha256(struct.pack(f"<{PARAMETERS}d", *weights)).hexdigest()


# --- files


def write_atomically(path: Path, data: bytes) -> None:
    """Readers see the old file or the whole new one, also after a power cut."""
    new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def save(state: State, workdir: Path) -> None:
    """Write a checkpoint and let go of all but the newest three."""
    version, numbers, spare = state.rng.getstate()
    body: dict[str, Any] = {
        "step": state.step,
        "weights": [weight.hex() for weight in state.weights],
        "rng": [version, numbers, spare],
        "sha256": digest(state.weights),
    }
    write_atomically(workdir / f"checkpoint-{state.step:08d}.json", json.dumps(body).encode())
    for old in sorted(workdir.glob("checkpoint-*.json"))[:-KEEP]:
        old.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> State | None:
    """The state in a checkpoint, None when the file is damaged."""
    try:
        body = json.loads(path.read_bytes())
        weights = [float.fromhex(text) for text in body["weights"]]
        state = State(int(body["step"]), weights)
        version, numbers, spare = body["rng"]
        state.rng.setstate((version, tuple(numbers), spare))
        return state if digest(weights) == body["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def newest(workdir: Path) -> State:
    """The newest complete checkpoint, or a new beginning."""
    for path in sorted(workdir.glob("checkpoint-*.json"), reverse=True):
        if state := read_checkpoint(path):
            return state
    return new_state()


def say(line: str) -> None:
    """A line on standard output; srun may be gone before its ranks, and they must save all the same."""
    with contextlib.suppress(OSError):
        os.write(1, line.encode())


class EventLog:
    """`events.log`: one line per start, TERM, save and end of any rank, appended in one write."""

    def __init__(self, config: Config) -> None:
        self._who = f"rank={config.rank} restart={config.restart}"
        self._fd = os.open(config.workdir / "events.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event: str, step: int, **more: object) -> None:
        """Append `EVENT rank=R restart=K step=S … time=T`; safe in a signal handler."""
        fields = "".join(f" {name}={value}" for name, value in more.items())
        line = f"{event} {self._who} step={step}{fields} time={time.time():.3f}\n"
        os.write(self._fd, line.encode())
        say(line)


class Exchange:
    """Messages between ranks as files in the shared folder; a folder per run, so runs never mix."""

    def __init__(self, config: Config, term: Term) -> None:
        self._config, self._term = config, term
        self._folder = config.workdir / "exchange" / config.run
        self._folder.mkdir(parents=True, exist_ok=True)

    def forget_other_runs(self) -> None:
        """Called by rank 0 at its start; a rank of an older run that still lives loses its peers."""
        for other in self._folder.parent.iterdir():
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)

    def send(self, name: str, data: bytes) -> None:
        """Publish this rank's message `name`."""
        path = self._folder / f"{name}.{self._config.rank}"
        new = path.with_suffix(".tmp" + path.suffix)
        try:
            new.write_bytes(data)
            new.replace(path)
        except FileNotFoundError:
            raise LostPeerError("a newer run has taken over") from None

    def receive(self, name: str, rank: int) -> bytes:
        """Wait for the message `name` of `rank`, a shorter while once this rank was told to stop."""
        path, started = self._folder / f"{name}.{rank}", time.monotonic()
        while True:
            try:
                return path.read_bytes()
            except FileNotFoundError:
                if time.monotonic() - max(started, self._term.at) > self._patience():
                    raise LostPeerError(f"rank {rank} is silent") from None
                time.sleep(0.002)

    def _patience(self) -> float:
        longest = self._config.peer_seconds
        return min(AFTER_TERM_S, longest) if self._term.seen else longest

    def drop(self, step: int) -> None:
        """Remove this rank's message of a step that every rank has read."""
        (self._folder / f"{step}.{self._config.rank}").unlink(missing_ok=True)


class Term:
    """Counts SIGTERM in the event log: a line for each one that arrives."""

    def __init__(self, log: EventLog, state: State) -> None:
        self.seen, self.at = False, 0.0
        self._log, self.state = log, state
        signal.signal(signal.SIGTERM, self._handle)

    def await_own(self) -> None:
        """A rank that stopped because another was told to is told itself a moment later."""
        until = time.monotonic() + AFTER_TERM_S
        while not self.seen and time.monotonic() < until:
            time.sleep(0.01)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._log.write("TERM", self.state.step)
        self.seen, self.at = True, time.monotonic()


# --- the run


def begin(config: Config, exchange: Exchange) -> State:
    """Rank 0 chooses the checkpoint; the others load exactly that one."""
    if config.rank == 0:
        exchange.forget_other_runs()
        state = newest(config.workdir)
        exchange.send("begin", str(state.step).encode())
        return state
    step = int(exchange.receive("begin", 0))
    chosen = read_checkpoint(config.workdir / f"checkpoint-{step:08d}.json") if step else new_state()
    if chosen is None:
        raise LostPeerError(f"the checkpoint of step {step} cannot be read")
    return chosen


def step_once(config: Config, state: State, exchange: Exchange, term: Term) -> tuple[float, bool]:
    """One step on all ranks: the loss, and whether any rank was told to stop before it."""
    rng = state.rng.getstate()
    loss, gradients = share(state, config.rank, config.ranks)
    exchange.send(str(state.step), struct.pack(f"<?{PARAMETERS + 1}d", term.seen, loss, *gradients))
    try:
        messages = [exchange.receive(str(state.step), rank) for rank in range(config.ranks)]
    except LostPeerError:
        state.rng.setstate(rng)  # the step did not happen
        raise
    parts = [struct.unpack(f"<?{PARAMETERS + 1}d", message) for message in messages]
    exchange.drop(state.step - 1)
    descend(state, [list(part[2:]) for part in parts])
    loss = 0.0
    for part in parts:
        loss += part[1]
    return loss / BATCH, any(part[0] for part in parts)


def train(config: Config, state: State, exchange: Exchange, term: Term) -> bool:
    """Steps until the end or until all ranks agree to stop; True at the end."""
    while state.step < config.steps:
        started = time.monotonic()
        loss, stop = step_once(config, state, exchange, term)
        if config.rank == 0:
            note_progress(config, state, loss)
        if stop:
            return False
        time.sleep(max(0.0, config.step_seconds - (time.monotonic() - started)))
    return True


def note_progress(config: Config, state: State, loss: float) -> None:
    """Rank 0: how far the job has come, and a checkpoint every so many steps."""
    reached_fd = os.open(config.workdir / "reached", os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(reached_fd, b"%08d\n" % state.step)  # nine bytes at once: a kill never leaves half a number
    os.close(reached_fd)
    if state.step % 20 == 0:
        say(f"step {state.step} loss {loss:.6f}\n")
    if state.step % config.checkpoint_every == 0:
        save(state, config.workdir)


def reached(workdir: Path) -> int:
    """The last step that any earlier run had done."""
    try:
        return int((workdir / "reached").read_text())
    except (OSError, ValueError):
        return 0


def finish(config: Config, state: State) -> None:
    """Rank 0: the last checkpoint, then `result.json`."""
    save(state, config.workdir)
    starts = [line.split() for line in (config.workdir / "events.log").read_text().splitlines()]
    again = [
        int(word[6:])
        for words in starts
        if words[:2] == ["START", "rank=0"]
        for word in words
        if "again=" in word
    ]
    result = {
        "steps": state.step,
        "sha256": digest(state.weights),
        "restarts": config.restart,
        "starts": len(again),
        "steps_recomputed": sum(again),
    }
    write_atomically(config.workdir / "result.json", json.dumps(result).encode() + b"\n")


def keep(config: Config, state: State, exchange: Exchange, *, done: bool) -> None:
    """Rank 0 saves, the others stay until it has: srun may end all ranks when the first one fails."""
    with contextlib.suppress(LostPeerError):
        if config.rank == 0:
            finish(config, state) if done else save(state, config.workdir)
            exchange.send("saved", b"")
        else:
            exchange.receive("saved", 0)


def rank_main(config: Config) -> int:
    """One rank's life; its exit status: 0 done, 143 stopped after saving, 75 another rank is gone."""
    config.workdir.mkdir(parents=True, exist_ok=True)
    log = EventLog(config)
    term = Term(log, State())
    exchange = Exchange(config, term)
    try:
        state = term.state = begin(config, exchange)
    except LostPeerError as error:
        log.write("LOST", 0, why=str(error).replace(" ", "_"))
        return LOST_PEER
    again = max(0, reached(config.workdir) - state.step)
    log.write("START", state.step, again=again, node=socket.gethostname(), pid=os.getpid())
    try:
        done = train(config, state, exchange, term)
    except LostPeerError as error:
        log.write("LOST", state.step, why=str(error).replace(" ", "_"))
        done = False
        code = STOPPED if term.seen else LOST_PEER
    else:
        code = 0 if done else STOPPED
    keep(config, state, exchange, done=done)
    if code == STOPPED:
        term.await_own()
    log.write("END", state.step, code=code)
    return code


def local_main(ranks: int) -> int:
    """Run all ranks as processes of this machine and pass one SIGTERM on to each."""
    run = uuid.uuid4().hex
    children = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(ranks), "TRAIN_RUN": run},
        )
        for rank in range(ranks)
    ]

    def forward(_number: int, _frame: FrameType | None) -> None:
        for child in children:
            child.terminate()

    signal.signal(signal.SIGTERM, forward)
    return max(child.wait() for child in children)


def main() -> int:
    """Under srun: one rank. With --local-ranks N: all of them here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--local-ranks", type=int, metavar="N", help="run N ranks on this machine, without Slurm"
    )
    ranks = parser.parse_args().local_ranks
    return local_main(ranks) if ranks else rank_main(config_from(dict(os.environ)))


if __name__ == "__main__":
    sys.exit(main())
