"""Settings of the node agent: a YAML file, overridden by REMEDIATOR_AGENT_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator

from remediator.errors import BadInput
from remediator.model.base import Ours

PREFIX = "REMEDIATOR_AGENT_"
ADVICE = "see remediator/agent/README.md for every setting"


class AgentSettings(Ours):
    """What one agent reads, where it pushes, and where it keeps its place."""

    node: str = Field(min_length=1, max_length=253)
    """Kubernetes name of this node; in a DaemonSet from `spec.nodeName`."""

    controller_url: str
    """Address of the controller, `http(s)://host:port`; pushes go to /v1/signals below it."""

    kernel_log: str = Field(default="kmsg:/dev/kmsg", pattern=r"^(kmsg:/.+|file:/.+|journald)$")
    """Source of kernel lines: `kmsg:/dev/kmsg`, `journald`, or `file:/path` of kmsg-format records."""

    boot_id_path: Path = Path("/proc/sys/kernel/random/boot_id")
    """File with the node's boot id; a container's own /proc shows the right one on a real node."""

    token_path: Path = Path("/var/run/secrets/remediator/token")
    """File with the projected token; read again for each push, since the kubelet renews it."""

    ca_path: Path | None = None
    """CA certificates (PEM) that the controller's certificate must chain to; unset = the system's."""

    state_dir: Path = Path("/var/lib/remediator-agent")
    """Directory for the cursor, the spool and the dead letters; must outlive the pod."""

    metrics_host: str = "0.0.0.0"  # noqa: S104 - Prometheus reaches the agent from another node
    """Address on which /metrics and /healthz are served."""

    metrics_port: int = Field(default=9465, ge=0, le=65535)
    """TCP port of /metrics and /healthz; 0 takes any free port and logs it."""

    sysfs_root: Path = Path("/sys")
    """Where the node's sysfs is; InfiniBand ports are read below class/infiniband."""

    ib_interval_s: float = Field(default=10.0, ge=1, le=30)
    """Seconds between two looks at the InfiniBand ports."""

    ib_down_s: float = Field(default=240.0, ge=10, le=3600)
    """Seconds for which a port is down, or slower than it was, before that is pushed."""

    ib_exclude: frozenset[str] = frozenset()
    """Devices that are not read, such as restricted functions; in the environment `mlx5_8,mlx5_9`."""

    ib_rails: dict[str, str] = Field(default_factory=dict)
    """Device to rail, `mlx5_0=0,mlx5_4=1` in the environment; unset numbers InfiniBand devices in order."""

    heartbeat_s: float = Field(default=10.0, gt=0, le=300)
    """Seconds without a push after which an empty one is sent."""

    connect_timeout_s: float = Field(default=2.0, gt=0, le=5)
    """Deadline for the connection to the controller, in seconds."""

    push_timeout_s: float = Field(default=5.0, gt=0, le=30)
    """Deadline for one whole push, in seconds."""

    gpu_interval_s: float = Field(default=10.0, ge=0, le=300)
    """Seconds between two readings of all GPUs through NVML; 0 reads none."""

    nvml_path: Path | None = None
    """The driver's libnvidia-ml.so.1, where the loader does not find it by itself."""
    checkpoint_globs: tuple[str, ...] = Field(default=(), max_length=16)
    """Where jobs save, each match one checkpoint: `/shared/{job}/step_*`; several with commas between them.
    An agent that looks must mount the file system."""

    checkpoint_nodes: tuple[str, ...] = Field(default=(), max_length=64)
    """Nodes whose agents look, with commas between them; one or two will do, since each looks at every file.
    Unset: every agent that has globs."""

    checkpoint_marker: str = Field(default="", max_length=64, pattern=r"^(\.\./)?[^/]*$")
    """What a complete checkpoint holds, a file like `.complete` written last; or `../latest`: the file or
    link beside it that names the newest one. Unset: complete is what has not changed for one look."""

    checkpoint_every_s: float = Field(default=15.0, gt=0, le=300)
    """Seconds between two looks."""

    log_level: str = Field(default="info", pattern=r"^(debug|info|warning|error)$")
    """Least severe level that is logged."""

    @field_validator("ib_exclude", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return (
            [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        )

    @field_validator("ib_rails", mode="before")
    @classmethod
    def _paired(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and rail.strip() for name, _, rail in pairs):
            raise ValueError("must be device=rail,device=rail")
        return {name.strip(): rail.strip() for name, _, rail in pairs}

    @property
    def looks_at_checkpoints(self) -> bool:
        """Whether this agent is one of those that look."""
        return bool(self.checkpoint_globs) and self.node in (self.checkpoint_nodes or (self.node,))

    @field_validator("checkpoint_globs", "checkpoint_nodes", mode="before")
    @classmethod
    def _split(cls, globs: object) -> object:
        return (
            tuple(filter(None, (one.strip() for one in globs.split(","))))
            if isinstance(globs, str)
            else globs
        )

    @field_validator("controller_url")
    @classmethod
    def _bare_http_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be http://host:port or https://host:port")
        if parts.username or parts.password or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("must end after host and port and carry no credentials")
        _ = parts.port  # urlsplit checks the port only when asked
        return url.rstrip("/")


def load(path: Path | None, environ: Mapping[str, str]) -> AgentSettings:
    """Settings from the file at `path`, if any, and `environ`; BadInput names the first wrong field."""
    data = _read(path) if path else {}
    for name in AgentSettings.model_fields:
        if (text := environ.get(PREFIX + name.upper())) is not None:
            data[name] = text
    try:
        return AgentSettings.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        raise BadInput(field, f"{first['msg']}; {ADVICE}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml  # noqa: PLC0415 - a megabyte and a package that variables alone do not need
    except ImportError:
        raise BadInput(str(path), f"needs the package PyYAML; use {PREFIX}* variables instead") from None
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadInput(str(path), f"cannot be read ({error.strerror}); {ADVICE}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(str(path), f"is not valid YAML ({type(error).__name__}); {ADVICE}") from None
    if not isinstance(data, dict):
        raise BadInput(str(path), f"must be a mapping of settings; {ADVICE}")
    return data
