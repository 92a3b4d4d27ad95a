"""Pushes as an agent sends them: its own client, a token of its pod, a heartbeat every ten seconds."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from remediator.agent.push import HttpPusher
from remediator.agent.settings import AgentSettings
from remediator.model.signal import AgentPush, PushedEvent
from tests.bench.site import Site

HEARTBEAT_S = 10.0


class Pushers:
    """One client per node with a Slurm worker."""

    def __init__(self, site: Site) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-tokens-")  # removed with this object
        self._clients = {node: self._client(site, node) for node in site.worker_on}
        self._sent = dict.fromkeys(self._clients, float("-inf"))
        self._boots = {node: site.view(node).boot_id for node in site.worker_on}

    def send(self, node: str, boot: str, events: tuple[PushedEvent, ...]) -> None:
        """Return when the controller has answered."""
        self._boots[node] = boot
        self._sent[node] = time.monotonic()
        self._clients[node].send(AgentPush(node=node, boot_id=boot, events=events))

    def keep_known(self) -> None:
        """The heartbeats that are due; without them a push would pay for a TokenReview and a connection."""
        for node, sent in self._sent.items():
            if time.monotonic() - sent > HEARTBEAT_S:
                self.send(node, self._boots[node], ())

    def _client(self, site: Site, node: str) -> HttpPusher:
        path = Path(self._folder.name) / node
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(site.agent_token(node))
        settings = {"node": node, "controller_url": site.url, "token_path": path}
        return HttpPusher(AgentSettings.model_validate(settings))
