"""`python -m deploy.lab`: errors are one line for a person, never a traceback."""

from __future__ import annotations

import sys

from deploy.lab.cli import app
from deploy.lab.errors import LabError
from deploy.setup.errors import SetupError

try:
    app()
except (LabError, SetupError) as error:
    sys.exit(f"error: {error}")
except KeyboardInterrupt:
    sys.exit("interrupted: `python -m deploy.lab down` cleans up")
