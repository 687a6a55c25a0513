"""Where workers call the driver, for as long as a job is deployed."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from beadline.runtime.gang.handshake import Refused, examine
from beadline.runtime.gang.link import Address, LinkLost, address_of, listen, tune

_LOG = logging.getLogger("beadline")


class Entrance:
    """Listens in a thread; each caller is examined in a thread of its own, so that nobody holds up the others.

    :param host: the name that workers on other machines find the driver by; None if all are on this one
    :param bind: the interface to listen on
    :param objection: why somebody who knows the token is not let in, or None
    :param admit: takes who was let in, and the connection
    """

    def __init__(
        self,
        host: str | None,
        bind: str,
        objection: Callable[[dict[str, Any]], str | None],
        admit: Callable[[dict[str, Any], socket.socket], None],
    ) -> None:
        self.token = secrets.token_bytes(32)
        self._objection = objection
        self._admit = admit
        self._folder = tempfile.mkdtemp(prefix="beadline-gang-") if host is None else None
        self._listener = listen((bind, 0) if self._folder is None else os.path.join(self._folder, "driver"))
        self.address: Address = address_of(self._listener, host or "")
        threading.Thread(target=self._listen, name="beadline-gang-entrance", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or the thread would wait on
        self._listener.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._let_in, args=(connection,), daemon=True).start()

    def _let_in(self, connection: socket.socket) -> None:
        try:
            tune(connection)
            self._admit(examine(connection, self.token, self._objection), connection)
        except (Refused, LinkLost, OSError, ValueError) as error:
            _LOG.info("a connection to the driver was refused: %s", error)
            connection.close()
