"""From a kernel line, and from an agent's push, to DRAIN in slurmctld's log; floors in between."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from deploy.lab.kmsg import xid_line
from remediator.agent.kernel_log import parse
from remediator.model.signal import PushedEvent
from tests.bench.ctldlog import Drain
from tests.bench.figures import Figure, Goal, milliseconds, percentile
from tests.bench.phases import Moment, phases
from tests.bench.pushing import Pushers
from tests.bench.rawstore import RawStore
from tests.bench.site import MEASURED, Lost, Site
from tests.bench.webhook import QUEUED, Alertmanager

XID = 79
WARM_UP = 1
PATIENCE_S = 20.0
GPUS = 8
PCI = "0000:18:00"
BENCH_SEQUENCE = 1_000_000
"""Far above what the agent itself counts within the same boot."""
LINE, PUSH, ANSWER, FENCE = "line-to-drain", "push-to-drain", "push-to-answer", "drain-to-fence"
WEBHOOK, SHOWN = "webhook-to-drain", "drain-to-fence, as a watch shows it"
RAW_DRAIN, RAW_COMMIT, RAW_PATCH = "raw DRAIN", "raw commit", "raw PATCH"
RAW_PATH = "raw path to DRAIN"
GOALS = {PUSH: Goal(p50=50, p99=150, ratio=3), WEBHOOK: Goal(p99=150, ratio=3), FENCE: Goal(p50=25, p99=150)}
FLOORS = {LINE: RAW_PATH, PUSH: RAW_PATH, WEBHOOK: RAW_PATH, ANSWER: RAW_COMMIT, FENCE: RAW_PATCH}
QUEUE = f", {QUEUED} jobs queued"


class Latency:
    """One run: samples and floors take turns, so that both see the same machine."""

    def __init__(self, site: Site, tell: Callable[[str], None], *, under: str = "") -> None:
        """`under` says what burden the samples were taken under, and ends the names of all figures."""
        self._under = under
        self._alertmanager = Alertmanager(site)
        self._site = site
        self._tell = tell
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._moments: dict[str, list[Moment]] = defaultdict(list)
        self._raw = RawStore(site.lab.layout.root)
        self._pushers = Pushers(site)
        self._answered = 0.0
        self._cold: dict[str, float] = {}
        self._restless = 0

    def run(self, n: int, kinds: tuple[str, ...]) -> list[Figure]:
        """`n` samples of each kind. The first of each is told apart: connections are made in it."""
        samplers = {LINE: self._line, PUSH: self._push, WEBHOOK: self._webhook}
        nodes = list(self._site.worker_on)
        for i in range(n + WARM_UP):
            for shift, kind in enumerate(kinds):
                self._sample(kind, nodes[(i + 2 * shift) % len(nodes)], samplers[kind], cold=i < WARM_UP)
            self._floors(nodes[(i + 1) % len(nodes)], cold=i < WARM_UP)
            self._tell(f"{' and '.join(kinds)}: {max(0, i + 1 - WARM_UP)} of {n}")
        self._raw.close()
        limits = phases(self._site.store_file, self._moments)
        order = (LINE, PUSH, WEBHOOK, ANSWER, FENCE, SHOWN, RAW_DRAIN, RAW_COMMIT, RAW_PATH, RAW_PATCH)
        return [self._figure(what, limits.get(what, "")) for what in order if self._seconds[what]]

    def notes(self) -> list[str]:
        """What no table shows."""
        cold = ", ".join(f"{kind} {value:.0f} ms" for kind, value in self._cold.items())
        drain = self._seconds[RAW_DRAIN]
        alone = ", ".join(
            f"{kind} {percentile(self._seconds[kind], 50) / percentile(drain, 50):.1f}"
            for kind in (LINE, PUSH, WEBHOOK)
            if self._seconds[kind]
        )
        return [
            f"measured with {', '.join(f'{name}={value}' for name, value in MEASURED.items())}",
            f"first sample after the controller's start, not counted: {cold}",
            f"samples and floors that began on a machine that did not come to rest: {self._restless}",
            f"ratio of the medians to one raw DRAIN, with nothing stored: {alone}",
            f"{RAW_PATH}: request, 2 commits, GET of the node, DRAIN, with nothing decided in between",
        ]

    def _figure(self, what: str, limited_by: str) -> Figure:
        return Figure(
            what=what + self._under,
            unit="ms",
            samples=milliseconds(self._seconds[what]),
            floor=FLOORS[what] + self._under if what in FLOORS else "",
            goal=GOALS.get(what, Goal()),
            limited_by=limited_by,
        )

    def _sample(self, kind: str, node: str, sampler: Callable[[str, str], float], *, cold: bool) -> None:
        self._restless += not self._site.rest()
        began, drain = self._drain(node, sampler)
        fenced_at = self._fenced_at(node)
        if cold:
            self._cold[kind] = 1000 * (drain.at - began)
        else:
            self._seconds[kind].append(drain.at - began)
            self._seconds[FENCE].append(fenced_at - drain.at)
            self._seconds[SHOWN].append(self._site.cordoned_at[node] - drain.at)
            self._moments[kind].append(Moment(node, began, drain))
            if kind == PUSH:
                self._seconds[ANSWER].append(self._answered - began)
        self._site.recover(node)

    def _drain(self, node: str, sampler: Callable[[str, str], float]) -> tuple[float, Drain]:
        boot = self._site.await_boot(node)
        self._site.ctld.skip()
        self._site.audit.skip()
        began = sampler(node, boot)
        drain = self._site.ctld.drain_of(self._site.worker_on[node], PATIENCE_S)
        if drain is None:
            raise Lost(f"no DRAIN on {node} within {PATIENCE_S:.0f} s")
        return began, drain

    def _fenced_at(self, node: str) -> float:
        """As DRAIN by slurmctld's own log; a watch shows it some milliseconds after its server has it."""
        self._site.until(f"the fence on {node}", lambda: node in self._site.cordoned_at, 30)
        fenced_at = self._site.audit.patch_of(node, PATIENCE_S)
        if fenced_at is None:
            raise Lost(f"the API server's log has no fence on {node}")
        return fenced_at

    def _line(self, node: str, _boot: str) -> float:
        began = time.time()
        self._site.lab.inject.xid(node, XID, len(self._moments[LINE]) % GPUS)
        return began

    def _push(self, node: str, boot: str) -> float:
        event = parse(xid_line(XID, len(self._moments[PUSH]) % GPUS))
        if event is None:
            raise Lost("the agent's parser does not know the driver's line")
        pushed = PushedEvent(seq=BENCH_SEQUENCE, seen_at=time.time(), event=event)
        began = time.time()
        self._pushers.send(node, boot, (pushed,))
        self._answered = time.time()
        return began

    def _webhook(self, node: str, boot: str) -> float:
        """From before the first byte is written."""
        began = time.time()
        self._alertmanager.send(node, boot, XID, PCI)
        return began

    def _floors(self, node: str, *, cold: bool) -> None:
        """One of each; those taken while connections are made do not count."""
        self._restless += not self._site.rest()
        self._pushers.keep_known()
        found: dict[str, float] = {}
        began = time.time()
        found[RAW_DRAIN] = self._site.raw_drain(node) - began
        began = time.time()
        self._raw.commit(1)
        found[RAW_COMMIT] = time.time() - began
        found[RAW_PATH] = self._path(node)
        found[RAW_PATCH] = self._site.raw_patch(node)
        for what, seconds in found.items() if not cold else ():
            self._seconds[what].append(seconds)

    def _path(self, node: str) -> float:
        """What a signal cannot do without: a request, its commit, the INTENT's commit, the look at the node
        that comes before every act, and the DRAIN; nothing is decided in between.
        """
        began = time.time()
        self._site.raw_request()
        self._raw.commit(1)
        self._raw.commit(1)
        self._site.raw_look(node)
        return self._site.raw_drain(node) - began
