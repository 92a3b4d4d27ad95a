"""`python -m deploy.setup.check`: all static checks; every one runs, then the failed are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.setup.cache import REPO

BIN = Path(sys.executable).parent
CHECKS = {
    "lint": [str(BIN / "ruff"), "check", "--quiet"],
    "format": [str(BIN / "ruff"), "format", "--check", "--quiet"],
    "types": [str(BIN / "mypy"), "--no-error-summary"],
    "imports": [str(BIN / "lint-imports")],
    "docstrings and sizes": [sys.executable, "-m", "deploy.setup.codecheck"],
}


def main() -> int:
    """Run each check in the repository's root; exit 1 and name those that failed."""
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    failed = []
    for name, command in CHECKS.items():
        print(f"check: {name}", flush=True)
        if subprocess.run(command, cwd=REPO, env=env, check=False).returncode != 0:
            failed.append(name)
    print(f"check: failed: {', '.join(failed)}" if failed else "check: ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
