"""A way to a server that breaks when the answer to a certain statement comes back."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Forwards what is said, and cuts the connection that said ``word`` before its answer arrives, once.

    :ivar cuts: how often it did
    """

    def __init__(self, port: int, word: bytes) -> None:
        self._target = port
        self._word = word
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                heard = threading.Event()
                threading.Thread(target=self._forward, args=(client, server, heard), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client, heard), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, heard: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._word in data and not self.cuts:
                    heard.set()
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket, heard: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if heard.is_set():
                    self.cuts += 1
                    break
                client.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def cutting(port: int, word: bytes) -> Iterator[Proxy]:
    proxy = Proxy(port, word)
    try:
        yield proxy
    finally:
        proxy.close()
