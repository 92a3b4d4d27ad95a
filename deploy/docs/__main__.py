"""`python -m deploy.docs`: write the pages of runbooks/reference from the code."""

from __future__ import annotations

from deploy.docs import FOLDER, write
from deploy.setup.cache import REPO

written = write()
print(f"docs: {FOLDER.relative_to(REPO)}: {', '.join(written) or 'nothing to change'}")
