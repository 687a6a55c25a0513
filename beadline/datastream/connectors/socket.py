"""Lines of text from a socket."""

from __future__ import annotations

from beadline.common import Duration
from beadline.common.typeinfo import Types
from beadline.connectors.socket import Peer, SocketLines
from beadline.datastream.connectors.base import Source

__all__ = ["SocketSource"]


class SocketSource(Source):
    """Lines that a server sends, until it closes the connection: ``SocketSource("localhost", 9999)``.

    A socket can't be read again, so the job's guarantee is at most once: what the driver had not yet sealed when its
    process died is lost. A task that fails loses nothing, because the driver keeps lines until a checkpoint has them.
    Flink's ``socketTextStream``, which PyFlink lacks.

    :param delimiter: what ends a line; if it is a line feed, a carriage return before it goes as well
    :param max_retries: how often to connect again when the server has closed, -1 for without limit
    :param retry_delay: how long to wait before that, half a second if not given
    """

    _produced_type = Types.STRING()

    def __init__(
        self,
        host: str,
        port: int,
        delimiter: str = "\n",
        encoding: str = "UTF-8",
        max_retries: int = 0,
        retry_delay: Duration | None = None,
    ) -> None:
        seconds = 0.5 if retry_delay is None else retry_delay.to_millis() / 1000
        peer = Peer(host, port, delimiter.encode(), max_retries, seconds)
        self._source = SocketLines(peer, encoding)

    def _make_source(self) -> SocketLines:
        return self._source
