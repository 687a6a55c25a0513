"""A streaming standby of another server."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any

import psycopg

from beadline.services import PostgresServer


class Standby(PostgresServer):
    """Repeats what its primary does, and answers questions meanwhile."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def _set_up(self) -> None:
        self._programs = self._find_programs()
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            shutil.chown(data, "nobody")
        where = ["-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "postgres"]
        copy = ["-D", str(data), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        self._run_tool([str(self._programs / "pg_basebackup"), *where, *copy], "copying the primary")

    def catch_up(self) -> None:
        """Wait until all that the primary has done by now can be seen here."""
        with psycopg.connect(self._primary.url, autocommit=True) as primary:
            (there,) = _one(primary, "SELECT pg_current_wal_flush_lsn()::text")
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as standby:
                if _one(standby, f"SELECT pg_last_wal_replay_lsn() >= '{there}'")[0]:
                    return
            time.sleep(0.05)
        raise AssertionError("the standby does not follow its primary")


def _one(connection: psycopg.Connection[Any], statement: str) -> Any:
    return connection.execute(statement).fetchone()  # type: ignore[arg-type]
