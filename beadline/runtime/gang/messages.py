"""What the driver and the members of a gang say to each other. Frames are pickles of these, between ends that have
proved to each other who they are."""

from __future__ import annotations

from dataclasses import dataclass

from beadline.runtime.gang.link import Address


@dataclass(frozen=True)
class Invitation:
    """What a worker must know to join a gang; part of the closure of Spark's tasks.

    :ivar address: where the driver listens
    :ivar number: of the gang; a later gang of the same job has a higher one
    :ivar job: a name for all gangs of one job in one driver
    :ivar one_machine: whether all of them are on the driver's machine
    """

    address: Address
    token: bytes
    number: int
    job: str
    one_machine: bool


@dataclass(frozen=True)
class Seat:
    """The driver's answer when all have come.

    :ivar member: partition p of every level is worked on by member p modulo the size of the gang
    :ivar addresses: where each member listens
    """

    member: int
    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class Ready:
    """This member is connected with all others."""


@dataclass(frozen=True)
class Run:
    """Run a step. ``run`` counts the tries of all steps of a gang: rows of an earlier one are dropped.

    :ivar header: the pickled header of the step
    :ivar inputs: level, partition and pickled descriptor of this member's tasks
    """

    run: int
    header: bytes
    inputs: tuple[tuple[int, int, bytes], ...]


@dataclass(frozen=True)
class Abandon:
    """Stop that run: nobody wants its results."""

    run: int


@dataclass(frozen=True)
class Done:
    """The end of a run in one member, however it went: no task of it is active there.

    :ivar acks: the pickled acknowledgements of its tasks, if all went through
    :ivar error: the traceback, if a task failed
    :ivar again: whether it may help to run the step again
    :ivar lost: the connection to another member is broken: the gang can do no more work
    """

    run: int
    acks: tuple[bytes, ...] = ()
    error: str = ""
    again: bool = True
    lost: bool = False


@dataclass(frozen=True)
class Leave:
    """The job has ended: close what is held of it. ``live`` executions still go on."""

    live: tuple[str, ...]
