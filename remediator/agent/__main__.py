"""`python -m remediator.agent`."""

from __future__ import annotations

import sys

# structlog loads rich, where it is installed, for a console that an agent never has: 4 MB of 44.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]

from remediator.agent.main import main  # noqa: E402 - the line above must come first

if __name__ == "__main__":
    sys.exit(main())
