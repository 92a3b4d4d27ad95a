"""Runs outside programs with a log, a deadline and progress; a silent registry is named by its kind."""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.setup import progress
from deploy.setup.cache import cache_root
from deploy.setup.errors import SetupError, SilentRegistryError

_NO_ANSWER = re.compile(
    r"timed? ?out|timeout|temporary failure|no such host|(could not|cannot) resolve"
    r"|connection (refused|reset)|network is unreachable|no route to host|failed to fetch|could not connect"
    r"|tls handshake|certificate verify|bad gateway|service unavailable|gateway time|couldn't download"
    r"|failed getting release|newconnectionerror",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(r"\w*Error: |^E: |^error: ")
_ADDRESS = re.compile(
    r"\w+://\S+|\b(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?\b(?:/\S*)?|\b\d+\.\d+\.\d+\.\d+(?::\d+)?\b", re.IGNORECASE
)

# from a line of output to the text shown on the screen; None shows nothing
LineText = Callable[[str], str | None]


_running: set[subprocess.Popen[str]] = set()
_stopped = threading.Event()


def stop_all() -> None:
    """End every program that `run` has running and refuse new ones, because one part has failed."""
    _stopped.set()
    for process in list(_running):
        process.kill()


def allow_all() -> None:
    """Take `stop_all` back, for the next build in this process."""
    _stopped.clear()


def bound_to_parent(argv: Sequence[str]) -> list[str]:
    """The command, killed when this process dies: a killed setup leaves nothing running."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *argv] if setpriv else list(argv)


def run(
    part: str,
    argv: Sequence[str],
    *,
    deadline: float,
    registry: str | None = None,
    env: Mapping[str, str] | None = None,
    line_text: LineText = str.strip,
) -> None:
    """Run a command; its output goes to the part's log, its newest line to the screen every few seconds.
    `deadline` in seconds; `registry` names the kind of registry the command talks to, for the error's text.
    """
    log = log_path(part)
    tail: collections.deque[str] = collections.deque(maxlen=40)
    with log.open("a") as out, progress.Ticker(part) as ticker:
        out.write(f"+ {' '.join(argv)}\n")
        process = subprocess.Popen(
            bound_to_parent(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=None if env is None else dict(env),
        )  # fmt: skip
        _running.add(process)
        if _stopped.is_set():
            process.kill()
        late = threading.Timer(deadline, process.kill)
        late.start()
        assert process.stdout is not None  # noqa: S101 (it is a pipe: said for the type checker)
        try:
            for line in process.stdout:
                out.write(line)
                tail.append(line.rstrip())
                text = line_text(line)
                if text:
                    ticker.update(text[:100])
            code = process.wait()
        finally:
            was_late = not late.is_alive()
            late.cancel()
            process.kill()
            process.wait()
            _running.discard(process)
    if code != 0:
        late_after = f"{deadline:.0f} s" if was_late else None
        raise failure(part, argv[0], list(tail), log=log, registry=registry, late_after=late_after)


def log_path(part: str) -> Path:
    """The log file of one part."""
    folder = cache_root() / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"{part}.log"


def failure(
    part: str, program: str, tail: Sequence[str], *, log: Path, registry: str | None, late_after: str | None
) -> SetupError:
    """The error for a failed command, one sentence; a registry is named by its kind, never by its address."""
    name = os.path.basename(program)
    unanswered = next((found[0] for line in reversed(tail) if (found := _NO_ANSWER.search(line))), None)
    if registry and (late_after or unanswered):
        why = f"{name} was not done after {late_after}" if late_after else unanswered
        return SilentRegistryError(f"{registry} does not answer: {why}; see {log}, then run this again")
    if late_after:
        return SetupError(f"{part}: {name} was not done after {late_after}; see {log}")
    telling = (line for line in reversed(tail) if _ERROR_LINE.search(line))
    last = next(telling, None) or next((line for line in reversed(tail) if line.strip()), "no output")
    return SetupError(f"{part}: {name} failed: {without_addresses(last)}; see {log}")


def without_addresses(text: str) -> str:
    """The text with every URL, host name and address left out, at most 200 characters."""
    return _ADDRESS.sub("(address)", text).strip()[:200]


def output(argv: Sequence[str], *, deadline: float = 30.0, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a short command; SetupError when it fails."""
    try:
        done = subprocess.run(
            list(argv), capture_output=True, text=True, timeout=deadline, check=True,
            env=None if env is None else dict(env),
        )  # fmt: skip
    except FileNotFoundError:
        raise SetupError(f"{argv[0]}: no such program") from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{argv[0]} was not done after {deadline:.0f} s") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout or "no output").strip().splitlines()[-1:]
        raise SetupError(f"{argv[0]} failed: {without_addresses(' '.join(last))}") from None
    return done.stdout
