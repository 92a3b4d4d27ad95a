"""`python -m remediator.agent`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def _later(name: str) -> None:
    """Let `import name` succeed without it; it is loaded when something in it is used."""
    stub = ModuleType(name)

    def load(attribute: str) -> object:
        if sys.modules.get(name) is stub:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    stub.__getattr__ = load  # type: ignore[method-assign]
    sys.modules.setdefault(name, stub)


# structlog loads both for what an agent never has, a console and coroutines: 4 and 3.5 MB of 44.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
_later("asyncio")

from remediator.agent.main import main  # noqa: E402 - the lines above must come first

if __name__ == "__main__":
    sys.exit(main())
