"""One member of a gang: runs its tasks of each level of a step, and exchanges rows with the other members.

It has one thread. Whatever it waits for, it reads all of its links meanwhile, so that no two members wait for each
other.
"""

from __future__ import annotations

import contextlib
import pickle
import selectors
import traceback
from collections.abc import Iterator
from typing import Any

from beadline.errors import StepError
from beadline.runtime.exchange.rows import ACK, DESCRIPTOR, DESCRIPTOR_SEQ, DRIVER, WireRow
from beadline.runtime.functions import printed
from beadline.runtime.gang.inbox import Inbox
from beadline.runtime.gang.link import Link, LinkLost
from beadline.runtime.gang.messages import Abandon, Done, Leave, Run
from beadline.runtime.messages import StepHeader, TaskInput
from beadline.runtime.task.task import Task
from beadline.runtime.worker import worker
from beadline.runtime.worker.garbage import between_steps, collect_between_steps

# Between members.
_ROWS, _END, _CREDIT = 0, 1, 2
#: So many bytes of rows may be on their way to another member that has not read them.
MOST_ON_THE_WAY = 16 << 20
_CREDIT_AFTER = 1 << 20
# A task that only reads looks after this many rows whether others want something.
_LOOK_EVERY = 16


class _Abandoned(Exception):
    """Nobody wants the results of the run."""


class _Left(Exception):
    """The driver has closed the link, or told the gang to go."""


class Member:
    """
    :param control: the link to the driver
    :param peers: the links to all other members, by number
    :param shipment: the broadcast plan of the job
    """

    def __init__(self, control: Link, peers: dict[int, Link], member: int, shipment: Any) -> None:
        self._control = control
        self._peers = peers
        self._member = member
        self._size = len(peers) + 1
        self._shipment = shipment
        self._selector = selectors.DefaultSelector()
        for link in (control, *peers.values()):
            link.watch(self._selector)
        self._run = 0  # the present one, or the last
        self._next: Run | None = None
        self._abandoned = 0
        self._leaving: Leave | None = None
        self._lost: str | None = None
        self._inboxes: dict[int, Inbox] = {}

    def __repr__(self) -> str:
        return f"<Member {self._member} of {self._size}, run {self._run}>"

    # -- the life of a member

    def serve(self) -> None:
        """Run steps until the driver closes the link."""
        with between_steps():
            with contextlib.suppress(_Left):
                while True:
                    self._serve_one()
            if self._leaving is not None:
                worker.forget_all_but(self._leaving.live)

    def _serve_one(self) -> None:
        while self._next is None:
            if self._leaving is not None:
                raise _Left
            self._pump(wait=True)
        command, self._next = self._next, None
        self._tell(self._result(command))
        collect_between_steps()

    def _tell(self, message: Any) -> None:
        try:
            self._control.send(pickle.dumps(message, 5))
        except LinkLost:
            raise _Left from None

    def close(self) -> None:
        for link in (self._control, *self._peers.values()):
            link.close()
        self._selector.close()
        for inbox in self._inboxes.values():
            inbox.close()

    # -- a run

    def _result(self, command: Run) -> Done:
        """Run a step, however it ends."""
        self._run = command.run
        for old in [run for run in self._inboxes if run < command.run]:
            self._inboxes.pop(old).close()
        inbox = self._inbox(command.run)
        try:
            return Done(command.run, tuple(self._step(command, inbox)))
        except _Left:
            raise
        except _Abandoned:
            return Done(command.run, error="abandoned")
        except SystemExit as error:
            return Done(command.run, error=f"a function of the program called sys.exit({error.code!r})", again=False)
        except Exception:
            return Done(command.run, error=traceback.format_exc(), lost=self._lost is not None)
        finally:
            del self._inboxes[command.run]
            inbox.close()

    def _step(self, command: Run, inbox: Inbox) -> list[bytes]:
        """One level after the other; a level begins when all members have ended the one before it. Every member ends
        every level, also one where it has no task."""
        self._check()
        header: StepHeader = pickle.loads(command.header)
        execution = worker.enter_execution(header.context, self._shipment)
        own: dict[int, TaskInput] = {}
        for level, partition, data in command.inputs:
            if level == 0:
                own[partition] = pickle.loads(data)
            else:
                inbox.add([WireRow(partition, level, 0, DESCRIPTOR_SEQ, DESCRIPTOR, data)])
        plan, acks = execution.plan, list[bytes]()
        for level in range(len(plan.levels)):
            while level > 0 and inbox.ended(level - 1) < self._size - 1:
                self._pump(wait=True)
                self._check()
            for partition in range(self._member, plan.width(level), self._size):
                task = Task(execution, header, level, partition)
                given = own[partition] if level == 0 and partition in own else None
                with (
                    printed.gathered(task.printed),
                    contextlib.closing(task.work(self._reading(inbox.take(level, partition)), given)) as work,
                ):
                    for rows in work:
                        acks += self._send(rows, inbox)
            if level < len(plan.levels) - 1:
                self._send_to_all((_END, self._run, level))
        return acks

    def _reading(self, rows: Iterator[WireRow]) -> Iterator[WireRow]:
        """The same rows; now and then the links are looked at."""
        for number, row in enumerate(rows, start=1):
            yield row
            if number % _LOOK_EVERY == 0:
                self._pump(wait=False)
                self._check()

    def _send(self, rows: list[WireRow], inbox: Inbox) -> list[bytes]:
        """Send rows to the members whose tasks they are for; gives those for the driver."""
        acks, by_member = [], dict[int, list[WireRow]]()
        for row in rows:
            if row.target != DRIVER:
                by_member.setdefault(row.dest % self._size, []).append(row)
            elif row.kind == ACK:
                acks.append(row.payload)
        inbox.add(by_member.pop(self._member, ()))
        for member, theirs in by_member.items():
            frame = pickle.dumps((_ROWS, self._run, [tuple(row) for row in theirs]), 5)
            link = self._peer(member)
            while link.unacknowledged and link.unacknowledged + len(frame) > MOST_ON_THE_WAY:
                self._pump(wait=True)
                self._check()
            link.unacknowledged += len(frame)
            self._send_to(member, frame)
        self._pump(wait=False)
        self._check()
        return acks

    def _check(self) -> None:
        """Raise if the run can't or need not go on."""
        if self._abandoned >= self._run or self._leaving is not None:
            raise _Abandoned
        if self._lost is not None:
            raise StepError(self._lost)

    # -- links

    def _inbox(self, run: int) -> Inbox:
        """Others may have begun a run that this one has not heard of yet."""
        found = self._inboxes.get(run)
        if found is None:
            found = self._inboxes[run] = Inbox()
        return found

    def _peer(self, member: int) -> Link:
        link = self._peers.get(member)
        if link is None:
            raise StepError(self._lost or f"there is no member {member}")
        return link

    def _send_to_all(self, message: Any) -> None:
        frame = pickle.dumps(message, 5)
        for member in list(self._peers):
            self._send_to(member, frame)
        self._check()

    def _send_to(self, member: int, frame: bytes) -> None:
        try:
            self._peer(member).send(frame)
        except LinkLost as error:
            self._lose(member, error)

    def _lose(self, member: int, error: LinkLost) -> None:
        self._lost = f"the gang has lost a member: {error}"
        link = self._peers.get(member)
        if link is not None:
            link.close()
            del self._peers[member]

    def _pump(self, wait: bool) -> None:
        """Read what has come, and send what waited for room; ``wait`` until there is something to do."""
        for key, events in self._selector.select(None if wait else 0):
            link = key.fileobj
            assert isinstance(link, Link)
            member = next((member for member, peer in self._peers.items() if peer is link), None)
            try:
                if events & selectors.EVENT_WRITE:
                    link.flush()
                if events & selectors.EVENT_READ:
                    self._read(link)
            except LinkLost as error:
                if link is self._control:
                    raise _Left from None
                if member is not None:
                    self._lose(member, error)

    def _read(self, link: Link) -> None:
        for frame in link.receive():
            message = pickle.loads(frame)
            if link is self._control:
                self._hear(message)
                continue
            if message[0] == _ROWS:
                _, run, rows = message
                if run >= self._run:
                    self._inbox(run).add(WireRow(*row) for row in rows)
                link.uncredited += len(frame)
                if link.uncredited >= _CREDIT_AFTER:
                    credit, link.uncredited = link.uncredited, 0
                    link.send(pickle.dumps((_CREDIT, credit), 5))
            elif message[0] == _END:
                _, run, level = message
                if run >= self._run:
                    self._inbox(run).end(level)
            else:
                link.unacknowledged -= message[1]

    def _hear(self, message: Any) -> None:
        if isinstance(message, Run):
            self._next = message
        elif isinstance(message, Abandon):
            self._abandoned = max(self._abandoned, message.run)
        elif isinstance(message, Leave):
            self._leaving = message
