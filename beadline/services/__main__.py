"""``python -m beadline.services``: Kafka and PostgreSQL to try things with, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading

from beadline.errors import EnvironmentSetupError
from beadline.services import KafkaServer, PostgresServer, Server


def main() -> int:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    servers: list[Server] = []
    try:
        makers: list[type[KafkaServer] | type[PostgresServer]] = [KafkaServer, PostgresServer]
        for make in makers:
            if stopped.is_set():
                break
            server = make()
            servers.append(server)
            try:
                server.start()
            except EnvironmentSetupError as error:
                print(f"{server.name}: {error}", file=sys.stderr)
                return 1
            print(f"{server.name:<10} {_shown(server)}\n{'':<10} log: {server.log}", flush=True)
        print("Ctrl-C ends both and removes their data.", flush=True)
        stopped.wait()
    finally:
        for each in servers:
            each.close()
    return 0


def _shown(server: Server) -> str:
    return server.url if isinstance(server, PostgresServer) else server.address


if __name__ == "__main__":
    sys.exit(main())
