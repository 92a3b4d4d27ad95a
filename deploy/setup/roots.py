"""The parts `slurm-root` and `python-root`: Debian file trees that become chroots and image layers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from deploy.setup import process, progress
from deploy.setup.cache import Part, cache_root, key_of, remove_tree
from deploy.setup.errors import SetupError, SilentRegistryError
from deploy.setup.host import APT, apt_update

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SCRIPTS = Path("/usr/share/debootstrap/scripts")


@dataclass(frozen=True)
class Recipe:
    """A debootstrap root: suites in order of preference, packages, and a command whose output must match."""

    name: str
    suites: tuple[str, ...]
    packages: tuple[str, ...]
    check: tuple[str, ...]
    expect: str


SLURM = Recipe(
    name="slurm",
    suites=("sid", "forky"),
    packages=(
        "slurmctld", "slurmd", "slurmrestd", "slurm-client", "libslurm-dev", "slurm-wlm-jwt-plugin",
        "python3", "python3-dev", "python3-venv", "gcc", "procps", "iproute2",
    ),
    check=("/usr/sbin/slurmctld-wlm", "-V"),
    expect="slurm-wlm 26.05",
)  # fmt: skip
PYTHON = Recipe(
    name="python",
    suites=("bookworm",),
    packages=("python3", "python3-pip", "python3-venv", "ca-certificates", "procps"),
    check=("/usr/bin/python3", "-V"),
    expect="Python 3.11",
)


def root_part(recipe: Recipe) -> Part:
    """The part that holds this recipe's file tree."""
    return Part(
        name=f"{recipe.name}-root",
        path=cache_root() / "roots" / recipe.name,
        key=key_of("root 1", repr(recipe)),
        build=lambda path: build(recipe, path),
        needs=("apt",),
    )


def build(recipe: Recipe, path: Path) -> None:
    """Try the suites in order until one gives the wanted version."""
    part = f"{recipe.name}-root"
    apt_update(part)
    found = []
    for suite in recipe.suites:
        try:
            debootstrap(recipe, suite, path)
            version = process.output(["chroot", str(path), *recipe.check]).strip()
        except SilentRegistryError:
            raise
        except SetupError as error:  # a suite under development is not installable every day
            version = str(error)
        if version.startswith(recipe.expect):
            progress.say(part, f"{version} from Debian {suite}")
            clean(path)
            return
        found.append(f"{suite}: {version}")
        empty(path)
    raise SetupError(f"{part}: wanted {recipe.expect}; {'; '.join(found)}")


def debootstrap(recipe: Recipe, suite: str, path: Path) -> None:
    """Make the tree in namespaces of its own, so that its mounts and processes end with it."""
    part = f"{recipe.name}-root"
    progress.say(part, f"debootstrap {suite} (about 90 s)")
    archives = cache_root() / "archives" / suite
    archives.mkdir(parents=True, exist_ok=True)
    keyring = [f"--keyring={KEYRING}"] if KEYRING.exists() else []
    command = [
        "unshare", "-m", "--propagation", "private", "-p", "-f", "--kill-child=KILL",
        "debootstrap", "--variant=minbase", f"--cache-dir={archives}", *keyring,
        f"--include={','.join(recipe.packages)}", suite, str(path), *mirror_and_script(suite),
    ]  # fmt: skip
    process.run(part, command, deadline=1500, registry=APT, line_text=debootstrap_text)
    remove_tree(archives)


def debootstrap_text(line: str) -> str | None:
    """The part of a debootstrap line that tells a person what it does; no addresses."""
    found = re.match(r"I: (.+)", line)
    return re.sub(r"\w+://\S+", "the mirror", found[1]) if found else None


def mirror_and_script(suite: str) -> list[str]:
    """Debootstrap's optional arguments; an older one lacks the newest suites' scripts, but `sid` fits."""
    address = mirror()
    known = (SCRIPTS / suite).exists()
    return address if known or not address else [*address, str(SCRIPTS / "sid")]


def mirror() -> list[str]:
    """On Debian the mirror that this machine's apt uses; elsewhere none, which means debootstrap's own."""
    query = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"]
    for line in process.output(query).splitlines():
        origin, label, address = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian") and address.startswith("http"):
            return [address]
    return []


def clean(path: Path) -> None:
    """Remove what only apt needs: it would be in every image."""
    for folder in ("var/cache/apt", "var/lib/apt/lists"):
        empty(path / folder)


def empty(path: Path) -> None:
    """Remove everything inside a folder."""
    for child in path.iterdir():
        if child.is_dir() and not child.is_symlink():
            remove_tree(child)
        else:
            child.unlink()
