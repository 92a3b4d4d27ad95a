"""The part `gobin`: Kubernetes, etcd, CoreDNS and our two small programs, built from Go modules."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.setup import process, progress
from deploy.setup.cache import REPO, Part, cache_root, key_of

MODULE = REPO / "deploy/lab/gobin"
GO_PROXY = "the Go module proxy"
KUBERNETES_VERSION = "v1.37.2"
PACKAGES = (
    "./kube",
    "./deviceplugin",
    "./pause",
    "k8s.io/kubernetes/cmd/kubectl",
    "github.com/coredns/coredns",
)
# without a stamped version the server reports v0.0.0-master, which some clients refuse
LDFLAGS = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"


def gobin_part() -> Part:
    """Every Go program of the lab, static and stripped, in <cache>/bin."""
    return Part(
        name="gobin",
        path=cache_root() / "bin",
        key=key_of("gobin 1", LDFLAGS, *PACKAGES, MODULE),
        build=build,
    )


def environment() -> dict[str, str]:
    """The environment of every go command: static programs, go.mod left as it is, no toolchain download."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def build(path: Path) -> None:
    """List the packages (this fetches modules), then build; a killed build goes on from Go's cache."""
    env = environment()
    progress.say("gobin", "fetching Go modules (2 GB when nothing is cached)")
    packages = Counter()
    _go(["list", "-deps", *PACKAGES], env, packages.listed)
    progress.say("gobin", f"compiling up to {packages.total} packages (about 8 min when nothing is cached)")
    _go(
        ["build", "-v", "-trimpath", "-ldflags", LDFLAGS, "-o", f"{path}/", *PACKAGES], env, packages.compiled
    )


def _go(arguments: list[str], env: dict[str, str], line_text: process.LineText) -> None:
    command = ["go", arguments[0], "-C", str(MODULE), *arguments[1:]]
    process.run("gobin", command, deadline=3600, registry=GO_PROXY, env=env, line_text=line_text)


class Counter:
    """Turns the lines of `go list -deps` and `go build -v` into counts."""

    def __init__(self) -> None:
        self.total = 0
        self._fetched = 0
        self._compiled = 0

    def listed(self, line: str) -> str:
        """Count one line of `go list -deps`: a fetched module or a package."""
        if line.startswith("go: downloading"):
            self._fetched += 1
        else:
            self.total += 1
        return f"{self._fetched} modules fetched"

    def compiled(self, line: str) -> str:
        """Count one line of `go build -v`: the package that is compiled now (cached ones are not named)."""
        self._compiled += 1
        return f"compiled {self._compiled} of up to {self.total} packages: {line.strip()}"
