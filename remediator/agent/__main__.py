"""`python -m remediator.agent`."""

from __future__ import annotations

import sys

from remediator.agent.main import main

if __name__ == "__main__":
    sys.exit(main())
