"""`python -m remediator.agent`."""

from __future__ import annotations

import sys

from remediator.agent import lean

lean.prepare()

from remediator.agent.main import main  # noqa: E402 - the line above must come first

if __name__ == "__main__":
    sys.exit(main())
