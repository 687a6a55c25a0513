"""What Spark calls in each task of a gang's barrier stage. The task lasts as long as the gang."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import selectors
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from beadline.runtime.functions import printed
from beadline.runtime.gang.handshake import Refused, examine, introduce
from beadline.runtime.gang.link import Address, Link, LinkLost, address_of, connect, listen, tune
from beadline.runtime.gang.member import Member
from beadline.runtime.gang.messages import Invitation, Ready, Seat

_LOG = logging.getLogger("beadline")

M = TypeVar("M")
# So long each wait may take until all members are connected.
_CONNECT_SECONDS = 15.0
_GATHER_SECONDS = 60.0
# A worker whose gang is over may take so long to come to the end of what it does.
PATIENCE = 2.0

# Which seats this process had: it still has the stores of their subtasks.
_seats: dict[str, int] = {}


def join(invitation: Invitation, shipment: Any, _: Any) -> Iterator[Any]:
    """Be a member of a gang until it is over. A worker that comes too late goes without a word."""
    printed.install()
    folder = tempfile.mkdtemp(prefix="beadline-gang-") if invitation.one_machine else None
    try:
        with contextlib.suppress(Refused):
            _join(invitation, shipment, folder)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return iter(())


def _join(invitation: Invitation, shipment: Any, folder: str | None) -> None:
    try:
        connection = connect(invitation.address, _CONNECT_SECONDS)
    except OSError as error:
        where = invitation.address if isinstance(invitation.address, str) else "{}:{}".format(*invitation.address)
        raise ConnectionError(
            f"a worker on {socket.gethostname()} can't reach the driver at {where}: {error}"
        ) from error
    host = "" if folder is not None else str(connection.getsockname()[0])
    listener = listen(os.path.join(folder, "data") if folder is not None else (host, 0))
    with contextlib.ExitStack() as stack:
        stack.callback(listener.close)
        stack.callback(connection.close)
        who = {"gang": invitation.number, "address": address_of(listener, host), "seat": _seats.get(invitation.job)}
        introduce(connection, invitation.token, {**who, "pid": os.getpid(), "host": socket.gethostname()})
        control = Link(connection, "the driver")
        watch = Watch(connection)
        stack.callback(watch.end)
        try:
            seat = _hear(control, Seat)
            _seats.clear()
            _seats[invitation.job] = seat.member
            peers = _meet(invitation, listener, seat)
            listener.close()
            control.send(pickle.dumps(Ready(), 5))
        except LinkLost:
            return  # the gang is over before it began
        member = Member(control, peers, seat.member, shipment)
        stack.callback(member.close)
        member.serve()


def _hear(control: Link, kind: type[M]) -> M:
    """The driver's next word, which is of that kind."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            selector.select()
            frames = control.receive()
            if frames:
                message = pickle.loads(frames[0])
                assert isinstance(message, kind), message
                return message


def _meet(invitation: Invitation, listener: socket.socket, seat: Seat) -> dict[int, Link]:
    """Connect with all other members: each calls those before it, and is called by those after it."""
    deadline = time.monotonic() + _GATHER_SECONDS
    peers: dict[int, Link] = {}
    for member, address in enumerate(seat.addresses[: seat.member]):
        connection = connect(_address(address), _CONNECT_SECONDS)
        introduce(connection, invitation.token, {"gang": invitation.number, "member": seat.member})
        peers[member] = Link(connection, f"worker {member}")

    def objection(who: dict[str, Any]) -> str | None:
        if who.get("gang") != invitation.number:
            return f"gang {who.get('gang')} is over: this is gang {invitation.number}"
        wanted = range(seat.member + 1, len(seat.addresses))
        return None if who.get("member") in wanted and who["member"] not in peers else "nobody else is awaited here"

    while len(peers) < len(seat.addresses) - 1:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ConnectionError(f"only {len(peers)} of {len(seat.addresses) - 1} other workers have connected")
        listener.settimeout(left)
        with contextlib.suppress(TimeoutError):
            connection, _ = listener.accept()
            try:
                tune(connection)
                caller = examine(connection, invitation.token, objection)["member"]
                peers[caller] = Link(connection, f"worker {caller}")
            except (Refused, LinkLost, OSError, ValueError) as error:
                _LOG.warning("a connection to a worker was refused: %s", error)
                connection.close()
    return peers


def _address(address: Any) -> Address:
    return address if isinstance(address, str) else (str(address[0]), int(address[1]))


class Watch:
    """Ends the process if its parent dies, or if the driver closes the link and the process does not notice soon:
    it may be in user code."""

    def __init__(self, control: socket.socket) -> None:
        self._ended = threading.Event()
        self._parent = os.getppid()
        self._control = control.fileno()
        threading.Thread(target=self._look, name="beadline-gang-watch", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._control, getattr(select, "POLLRDHUP", 0))
        while not self._ended.is_set():
            closed = poll.poll(1000)
            if os.getppid() != self._parent:
                os._exit(1)
            if closed:
                if not self._ended.wait(PATIENCE):
                    os._exit(1)
                return
