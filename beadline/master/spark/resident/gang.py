"""The driver's side of one gang: it is gathered, runs steps, and is over. It is over when it has lost a worker; the job
then gets another one, as a new Spark job."""

from __future__ import annotations

import contextlib
import logging
import pickle
import selectors
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from beadline.errors import JobExecutionError, StepError
from beadline.master.engines.engine import Descriptor
from beadline.runtime.gang.link import Address, Link, LinkLost
from beadline.runtime.gang.messages import Abandon, Done, Leave, Run, Seat
from beadline.runtime.messages import StepHeader, TaskAck

_LOG = logging.getLogger("beadline")

# A run that nobody wants may go on for so long; then the workers are ended.
PATIENCE = 2.0
_GO_SECONDS = 10.0
_CLOSE_SECONDS = 60.0
# So long after its start it is worth a word that a gang is still being gathered.
_LONG = 15.0


class Stage(Enum):
    GATHERING = "gathering"
    READY = "ready"
    OVER = "over"


class TaskFailed(Exception):
    """What a worker says of a task that failed; not the user's code."""


class Gang:
    """
    :param hold: runs the Spark job whose tasks are the workers; returns or raises when they are all gone
    :param let_go: cancels that Spark job, and waits until no task of it is active
    """

    def __init__(self, number: int, size: int, hold: Callable[[], None], let_go: Callable[[], None]) -> None:
        self.number = number
        self.size = size
        self._hold = hold
        self._let_go = let_go
        self._changed = threading.Condition()
        self._stage = Stage.GATHERING
        self._arrived: list[tuple[dict[str, Any], socket.socket]] = []
        self._links: list[Link] = []
        self._error: Exception | None = None
        self._selector = selectors.DefaultSelector()
        self._run = 0
        self._cancelled = self._closed = False
        self._waker, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._held = threading.Thread(target=self._hold_workers, name=f"beadline-gang-{number}", daemon=True)
        self._gathered = threading.Thread(target=self._gather, name=f"beadline-gather-{number}", daemon=True)

    def start(self) -> None:
        """Have Spark start the workers."""
        self._held.start()
        self._gathered.start()

    def __repr__(self) -> str:
        return f"<Gang {self.number}: {self.size} workers, {self._stage.value}, {self._run} runs>"

    @property
    def is_over(self) -> bool:
        return self._stage is Stage.OVER

    # -- gathering

    def objection(self) -> str | None:
        """Why one more worker is not let in."""
        if self._stage is not Stage.GATHERING:
            return f"gang {self.number} is {'complete' if self._stage is Stage.READY else 'over'}"
        return None

    def admit(self, who: dict[str, Any], connection: socket.socket) -> None:
        """A worker has come."""
        with self._changed:
            if self._stage is Stage.GATHERING and len(self._arrived) < self.size:
                self._arrived.append((who, connection))
                self._changed.notify_all()
                return
        connection.close()

    def _hold_workers(self) -> None:
        try:
            self._hold()
            self._end(StepError("the Spark job that holds the resident workers has ended"))
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        with self._changed:
            if self._error is None:
                self._error = error
            if self._stage is Stage.GATHERING:
                self._stage = Stage.OVER
            self._changed.notify_all()

    def _gather(self) -> None:
        started = time.monotonic()
        with self._changed:
            while self._stage is Stage.GATHERING and len(self._arrived) < self.size:
                if not self._changed.wait(_LONG) and self._stage is Stage.GATHERING:
                    _LOG.warning(
                        "%d of %d resident workers have come in %d s: Spark starts the others, or has no free slot",
                        len(self._arrived),
                        self.size,
                        time.monotonic() - started,
                    )
            arrived = self._arrived
            if self._stage is not Stage.GATHERING:
                for _, connection in arrived:
                    connection.close()
                return
            seated = seats(arrived)
            self._links = [Link(connection, name_of(who, i)) for i, (who, connection) in enumerate(seated)]
        try:
            addresses = tuple(_address(who["address"]) for who, _ in seated)
            for link in self._links:
                link.watch(self._selector)
            for member, link in enumerate(self._links):
                link.send(pickle.dumps(Seat(member, addresses), 5))
            waiting = set(self._links)
            while waiting and self._stage is Stage.GATHERING:
                for link, _ in self._read(1.0):
                    waiting.discard(link)
        except LinkLost as error:
            self._break(_lost(error))
            return
        with self._changed:
            if self._stage is Stage.GATHERING:
                self._stage = Stage.READY
            self._changed.notify_all()
        _LOG.debug("%r after %.2f s", self, time.monotonic() - started)

    def _wait_until_ready(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stage is not Stage.GATHERING or self._cancelled)
            if self._stage is Stage.OVER:
                raise self._error or StepError("the resident workers are gone")
            if self._cancelled:
                raise StepError("the tasks were cancelled")

    # -- steps

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        """Run a step in all workers. However it ends, no task of it is active afterwards, or the gang is over."""
        self._wait_until_ready()
        self._run += 1
        try:
            done = self._run_all(header, inputs)
        except LinkLost as error:
            self._break(_lost(error))
            assert self._error is not None
            raise self._error from None
        for each in done:
            if each.lost:
                self._break(StepError("resident workers have lost the connection to each other"))
        failed = [each for each in done if each.error]
        if self._cancelled:
            raise StepError("the tasks were cancelled")
        if failed:
            first = next((each for each in failed if each.error != "abandoned"), failed[0])
            raise TaskFailed(first.error) if first.again else JobExecutionError(first.error)
        return [pickle.loads(ack) for each in done for ack in each.acks]

    def _run_all(self, header: StepHeader, inputs: list[Descriptor]) -> list[Done]:
        packed = pickle.dumps(header, 5)
        for member, link in enumerate(self._links):
            own = tuple(each for each in inputs if each[1] % self.size == member)
            link.send(pickle.dumps(Run(self._run, packed, own), 5))
        waiting, done = set(self._links), []
        abandoned_at: float | None = None
        while waiting:
            for link, message in self._read(PATIENCE if abandoned_at is not None else None):
                if isinstance(message, Done) and message.run == self._run:
                    waiting.discard(link)
                    done.append(message)
            if abandoned_at is None and (self._cancelled or any(each.error for each in done)):
                abandoned_at = time.monotonic()
                for link in waiting:
                    link.send(pickle.dumps(Abandon(self._run), 5))
            elif waiting and abandoned_at is not None and time.monotonic() - abandoned_at > PATIENCE:
                raise LinkLost(f"{', '.join(sorted(link.name for link in waiting))} did not stop in {PATIENCE:g} s")
        return done

    def _read(self, timeout: float | None) -> list[tuple[Link, Any]]:
        """What has come from workers; what waits for room is sent."""
        heard = []
        for key, events in self._selector.select(timeout):
            link = key.fileobj
            if not isinstance(link, Link):
                with contextlib.suppress(BlockingIOError):
                    self._wakes.recv(4096)
                continue
            if events & selectors.EVENT_WRITE:
                link.flush()
            if events & selectors.EVENT_READ:
                heard += [(link, pickle.loads(frame)) for frame in link.receive()]
        return heard

    def check(self) -> None:
        """Notice workers that have gone since the last step."""
        if self._stage is Stage.READY:
            try:
                self._read(0)
            except LinkLost as error:
                self._break(_lost(error))

    def begin(self) -> None:
        """What was cancelled before does not matter to the step that begins."""
        self._cancelled = False

    def cancel(self) -> None:
        """Nobody wants the step that runs."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._waker.send(b".")

    # -- its end

    def _break(self, error: Exception) -> None:
        """The gang is over: workers that live go, and take their stores along to the next gang."""
        with self._changed:
            self._stage = Stage.OVER
            self._error = error
            self._changed.notify_all()
        for link in self._links:
            link.say_goodbye()

    def leave(self, live: tuple[str, ...]) -> None:
        """The job has ended: workers close what they hold of it, and go."""
        if self._stage is Stage.READY:
            for link in self._links:
                with contextlib.suppress(LinkLost):
                    link.send(pickle.dumps(Leave(live), 5))
            self._wait_for_links(_CLOSE_SECONDS)
        self._break(StepError("the job has ended"))
        self.wait_until_gone()

    def drop(self) -> None:
        """The engine is lost, and the workers with it."""
        self._break(StepError("the engine is lost"))
        self._close()

    def wait_until_gone(self) -> None:
        """No worker of a gang that is over may be active before its work is done again."""
        if self._stage is not Stage.OVER or self._closed:
            return
        for link in self._links:
            link.say_goodbye()
        self._wait_for_links(_GO_SECONDS)
        self._held.join(PATIENCE if self._links else 0)
        if self._held.is_alive():
            self._let_go()
            self._held.join(_GO_SECONDS)
        self._close()

    def _close(self) -> None:
        self._gathered.join(PATIENCE)  # it uses the links, but not for long
        self._closed = True
        for link in self._links:
            link.close()
        self._selector.close()
        self._waker.close()
        self._wakes.close()

    def _wait_for_links(self, seconds: float) -> None:
        """Until all workers have closed their links."""
        deadline = time.monotonic() + seconds
        open_links = list(self._links)
        while open_links and time.monotonic() < deadline:
            for link in list(open_links):
                try:
                    link.flush()
                    while link.receive():
                        pass
                except LinkLost:
                    open_links.remove(link)
            if open_links:
                time.sleep(0.005)


def seats(arrived: list[tuple[dict[str, Any], socket.socket]]) -> list[tuple[dict[str, Any], socket.socket]]:
    """Who sits where: on the seat that it had in an earlier gang, because it has the stores of that; others fill up."""
    free = list(arrived)
    seated: list[Any] = [None] * len(arrived)
    for each in arrived:
        wanted = each[0].get("seat")
        if isinstance(wanted, int) and 0 <= wanted < len(seated) and seated[wanted] is None:
            seated[wanted] = each
            free.remove(each)
    return [each if each is not None else free.pop(0) for each in seated]


def name_of(who: dict[str, Any], member: int) -> str:
    return f"worker {member} (process {who.get('pid')} on {who.get('host')})"


def _address(told: Any) -> Address:
    return told if isinstance(told, str) else (str(told[0]), int(told[1]))


def _lost(error: LinkLost) -> StepError:
    return StepError(f"a resident worker exited unexpectedly: {error}")
