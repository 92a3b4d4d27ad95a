"""The floor of every commit: the store's settings and tables, and nothing of its code in the way."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from remediator.store.engine import journal_mode, open_store

_COLUMNS = "dedupe,source,node,boot_id,kind,code,pci,seen_at,received_at,detail"
_INSERT = f"INSERT INTO signal ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)"
_DETAIL = '{"pid": null, "process": null, "extra": {}, "raw": "' + 100 * "x" + '"}'


class RawStore:
    """A file of its own in `folder`, which should be on the disk of the store it is compared with."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bench-floor-", dir=folder))
        path = self._folder / "floor.db"
        open_store(f"sqlite:///{path}").close()
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute(f"PRAGMA journal_mode={journal_mode()}")
        self._connection.execute("PRAGMA synchronous=EXTRA")
        self._count = 0

    def commit(self, rows: int) -> None:
        """Insert `rows` signals and commit once."""
        first, self._count = self._count, self._count + rows
        values = [
            (f"agent:gpu-0:{i}", "agent", "gpu-0", 36 * "b", "xid", 79, "0000:18:00", 0.0, 0.0, _DETAIL)
            for i in range(first, first + rows)
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, values)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close and remove the file."""
        self._connection.close()
        shutil.rmtree(self._folder)
