"""What a lab needs of the machine beyond memory and disk, checked first so that it fails with a reason."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.lab.errors import LabError

INOTIFY_NEEDED = 60
"""Inotify instances of one lab: six for each kubelet, one for each containerd and kube-proxy, a few more."""
_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")


def check_inotify() -> None:
    """LabError when the kernel's limit leaves no room: kubelets would fail one by one, with other words."""
    limit, used = int(_LIMIT.read_text()), inotify_in_use()
    if used + INOTIFY_NEEDED > limit:
        raise LabError(
            f"a lab needs {INOTIFY_NEEDED} inotify instances; {used} of {limit} are taken (by other labs?): "
            f"take one down, or run `sysctl -w fs.inotify.max_user_instances={max(512, 2 * limit)}`"
        )


def inotify_in_use() -> int:
    """Inotify instances that this user's processes hold."""
    return sum(_instances(process) for process in Path("/proc").iterdir() if process.name.isdigit())


def _instances(process: Path) -> int:
    """Of one process; none when it is another user's or just ended."""
    try:
        if process.stat().st_uid != os.getuid():
            return 0
        return sum(os.readlink(entry) == "anon_inode:inotify" for entry in (process / "fd").iterdir())
    except OSError:
        return 0
