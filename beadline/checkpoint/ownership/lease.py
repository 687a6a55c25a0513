"""One driver at a time: a lease with an epoch in the job's folder.

A driver that starts or resumes a job acquires the next epoch. It does not ask the last holder, which may be dead,
paused or cut off. From then on the old holder is *fenced*: what it still publishes does not count. A driver can stop
for any time between looking and acting, so looking alone proves nothing. Two orders of events close the gap:

*Acquire* epoch e:

1. create ``lease-e``; only one can
2. read which checkpoints count: all that are published, less those that an earlier fence left out
3. write ``fence-e``: the list of them
4. look for a higher lease; if there is one, give up

*Publish* a checkpoint with epoch e (see :mod:`beadline.checkpoint.storage.file_system`):

1. look for a higher lease; if there is one, give up
2. make ``chk-N`` with its ``_metadata`` appear, in one rename that never replaces another checkpoint
3. look again; only if there is still no higher lease has the checkpoint completed

A checkpoint *counts* if its epoch is not below that of the newest fence, or if that fence lists it.

Why this is enough. Each side first leaves its mark and then looks for the other's mark, so at least one of the two
sees the other's:

- If the last look of a publisher finds no higher lease, its checkpoint was there before any higher lease was. Each
  later owner lists after it created its lease, so all of them find it: *a checkpoint that completed counts for ever*.
  Therefore what follows from completion may be done at any later time, even by a driver that was fenced meanwhile and
  does not know: the sinks' commits are those that the new owner repeats on restore (commits are idempotent), and
  files that only subsumed checkpoints need are files that the new owner, which found the newer one, does not need.
- If that look finds a higher lease, the publisher treats the checkpoint as not completed: it commits nothing and
  deletes nothing. Either the new owner has seen the checkpoint and listed it: then it counts, and is consistent to go
  on from. Or it came too late: then it is not on the list and never counts, whatever the publisher does afterwards.
- An owner acts only after its fence is written and its own look found nothing. So a next owner reads that fence. An
  owner that stalls between its list and its fence finds the higher lease and gives up; its late fence is ignored,
  because only the fence with the highest epoch is asked.

*Withdraw* a checkpoint that is the newest, because the job goes back behind it: remove its ``_metadata``, then look; if
there is a higher lease, put it back. Who found it before may have published what it holds.

What remains: (1) someone resumes from a *subsumed* checkpoint by its path while the former driver is about to delete
it. Then files are missing, which is found before anything starts. (2) A worker of a fenced driver may still write
segments; they go to a folder of their epoch, ``shared/<epoch>``, where the new owner writes nothing. (3) The file
system must show a created name to the next one who lists: local disks, HDFS and S3 do; NFS clients may cache listings
for seconds. (4) An epoch must never come twice in a folder, also after a job has ended: where another job can come to
the same folder, because the user has chosen its name, the last lease and its fence stay. (5) ``pyarrow.fs`` has no
exclusive create for other than local disks. There a claim is a file of its own,
``lease-e-<random>``, and a driver that sees another claim of its epoch or higher after its own put goes higher: of
two equal claims the later one always sees the earlier, so no epoch is held twice. But a put of ``_metadata`` can
replace one of the same number; a driver that was paused in the middle of that put, and wakes after the new owner
published the same number, hides that checkpoint, and the next resume uses the one before. (6) A driver that is paused
before it withdraws a checkpoint, and dies, or is paused again, between removing it and looking, may leave the new
owner without the one that it has started from. That matters until its own first one is complete.

Fencing needs no clock and nobody's word. Whether a holder is *alive* is another question, for those who would rather
not take a job from it: see :mod:`beadline.checkpoint.ownership.holder`.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import json
import os
import random
import re
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.ownership.process import Beat, this_process
from beadline.errors import BeadlineError
from beadline.state.segments import files

_LEASE = re.compile(r"lease-(\d{1,9})(-[0-9a-f]{8})?")
_FENCE = re.compile(r"fence-(\d{1,9})")
_BEAT = re.compile(r"beat-(\d{1,9})")
_DRIVER = re.compile(r"driver-(\d{1,9})")
_CHECKPOINT = re.compile(r"chk-(\d{1,18})")
_TRIES = 100

# The leases that this process holds, by their tokens: a driver may end while its process goes on.
_held: set[str] = set()


class Fenced(BeadlineError):
    """This driver no longer has the job, mostly because another one took over, and may not publish anything."""

    def __init__(self, folder: str, epoch: int, why: str, by_epoch: int | None = None, by: str = "nobody") -> None:
        self.epoch, self.by_epoch, self.by = epoch, by_epoch, by
        goes_on = "" if by_epoch is None else " The job goes on in the other driver."
        super().__init__(
            f"this driver had epoch {epoch} of the job in {folder}, and {why}. It stops and publishes nothing more."
            f"{goes_on}"
        )


@dataclass(frozen=True)
class Claim:
    """A lease that somebody has taken."""

    epoch: int
    name: str


class Lease:
    """The right to publish checkpoints of the job in a folder, until somebody else acquires the next epoch."""

    def __init__(self, folder: str, epoch: int, name: str, owner: str, token: str) -> None:
        self.folder = folder
        self.epoch = epoch
        self.owner = owner
        self._name = name
        self._token = token
        self._beat: Beat | None = None
        _held.add(token)

    def __repr__(self) -> str:
        return f"<Lease epoch {self.epoch} of {self.folder}, held by {self.owner}>"

    @classmethod
    def acquire(
        cls,
        folder: str,
        owner: str | None = None,
        clock: Callable[[], float] = time.time,
        folder_mode: int | None = files.PRIVATE,
    ) -> Lease:
        """Take over the job in a folder and fence the driver that had it. Do this before choosing what to restore.

        1. create the lease of the next epoch
        2. read which checkpoints count
        3. write the fence with the list of them
        4. look for a higher lease: yet another driver may have taken over meanwhile
        """
        owner = owner or f"{_user()}@{socket.gethostname()} (process {os.getpid()})"
        since = datetime.fromtimestamp(clock(), timezone.utc).isoformat(timespec="milliseconds")
        token = uuid.uuid4().hex
        note = {"owner": owner, "since": since, "process": asdict(this_process()), "token": token}
        claim: Claim | None = None
        try:
            files.make_folder(files.parent(folder))
            files.make_folder(folder, folder_mode)
            claim = _create(folder, note)
            counting = [[number, epoch] for number, epoch in published(folder) if counts(folder, number, epoch)]
            fence = {**note, "epoch": claim.epoch, "checkpoints": counting}
            files.write_file(files.join(folder, f"fence-{claim.epoch}"), _as_json(fence), durable=True)
            files.sync(folder)
        except OSError as error:
            if claim is not None:
                # Whoever has taken over meanwhile removes files that are not finished, this fence among them.
                lease = cls(folder, claim.epoch, claim.name, owner, token)
                lease.let_go()
                with contextlib.suppress(OSError):
                    lease.check()
            raise SnapshotError(
                f"can't acquire the lease of the job in {folder}: {error}. The folder must be writable."
            ) from error
        lease = cls(folder, claim.epoch, claim.name, owner, token)
        lease.check()
        return lease

    def check(self) -> None:
        """Raise Fenced if this driver no longer holds the job, and OSError if the folder can't be reached now."""
        claims = claims_in(self.folder)
        if not claims and not files.is_folder(self.folder):
            raise FileNotFoundError(errno.ENOENT, "The folder of the job is away", self.folder)
        self._look(claims)

    def check_after_publishing(self) -> None:
        """The last look of a publisher. If nobody knows, the answer is no: the next driver decides."""
        try:
            claims = claims_in(self.folder)
        except OSError as error:
            raise Fenced(self.folder, self.epoch, f"nobody can tell whether it still has it: {error}") from error
        self._look(claims)

    def hold(self) -> None:
        """From now on show others that the driver is alive, until :meth:`let_go` or :meth:`release`."""
        if self._beat is None:
            self._beat = Beat(beat_path(self.folder, self.epoch))

    def let_go(self) -> None:
        """The driver has ended, and nothing is said about how: as if its process had died."""
        _held.discard(self._token)
        if self._beat is not None:
            self._beat.stop()

    def release(self) -> None:
        """The driver has ended in good order, and says so. The epoch stays taken: the next driver takes the next
        one."""
        self.let_go()
        path = files.join(self.folder, self._name)
        with contextlib.suppress(OSError, ValueError):
            note = json.loads(files.read_file(path))
            files.write_file(path, _as_json({**note, "ended": True}))

    def _look(self, claims: list[Claim]) -> None:
        highest = max(claims, key=lambda claim: claim.epoch, default=None)
        if highest is not None and highest.epoch > self.epoch:
            by = note_of(self.folder, highest.name)
            why = f"epoch {highest.epoch} is held by {by['owner']} since {by['since']}"
            raise Fenced(self.folder, self.epoch, why, highest.epoch, by["owner"])
        if not any(claim.name == self._name for claim in claims):
            raise Fenced(self.folder, self.epoch, "its lease is gone")


def counts(folder: str, checkpoint_id: int, epoch: int) -> bool:
    """Whether a published checkpoint of the job in a folder may be used."""
    fences = [int(match[1]) for entry in files.entries_of(folder) if (match := _FENCE.fullmatch(entry.name))]
    newest = max(fences, default=0)
    if epoch >= newest:
        return True
    path = files.join(folder, f"fence-{newest}")
    try:
        return [checkpoint_id, epoch] in json.loads(files.read_file(path))["checkpoints"]
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{path} is damaged, so that nobody knows which checkpoints count: {error}") from error


def published(folder: str) -> list[tuple[int, int]]:
    """Number and epoch of the checkpoints in a job's folder that can be read, whether they count or not."""
    found = []
    for entry in files.entries_of(folder):
        match = _CHECKPOINT.fullmatch(entry.name)
        if match is None or not entry.folder:
            continue
        path = files.join(folder, entry.name, metadata.METADATA)
        # Nobody can go on from one that is damaged or being removed.
        with contextlib.suppress(SnapshotError, FileNotFoundError):
            found.append((int(match[1]), metadata.decode(files.read_file(path), path).epoch))
    return found


def is_lease_file(name: str) -> bool:
    return any(kind.fullmatch(name) for kind in (_LEASE, _FENCE, _BEAT, _DRIVER))


def files_of(epoch: int) -> re.Pattern[str]:
    """The names of the lease and the fence of an epoch, which keep it from being taken again, and of its driver's
    record."""
    return re.compile(rf"lease-{epoch}(-[0-9a-f]{{8}})?|(fence|driver)-{epoch}")


def is_old_beat(name: str, epoch: int) -> bool:
    """Whether a file is the sign of life of a driver that was fenced by the one with this epoch."""
    beat = _BEAT.fullmatch(name)
    return beat is not None and int(beat[1]) < epoch


def beat_path(folder: str, epoch: int) -> str:
    return files.join(folder, f"beat-{epoch}")


def is_held_here(token: object) -> bool:
    """Whether this process holds a lease."""
    return token in _held


def newest_claim(folder: str) -> Claim | None:
    """The lease that counts in a folder."""
    return max(claims_in(folder), key=lambda claim: claim.epoch, default=None)


def claims_in(folder: str) -> list[Claim]:
    matches = (_LEASE.fullmatch(entry.name) for entry in files.entries_of(folder))
    return [Claim(int(match[1]), match[0]) for match in matches if match]


def _create(folder: str, note: dict[str, Any]) -> Claim:
    for _ in range(_TRIES):
        epoch = max((claim.epoch for claim in claims_in(folder)), default=0) + 1
        claim = _create_local(folder, epoch, note) if files.local_path(folder) else _create_remote(folder, epoch, note)
        if claim is not None:
            return claim
    raise SnapshotError(
        f"can't acquire the lease of the job in {folder}: another driver was faster {_TRIES} times in a row"
    )


def _create_local(folder: str, epoch: int, note: dict[str, Any]) -> Claim | None:
    name = f"lease-{epoch}"
    path = files.local_path(files.join(folder, name))
    assert path is not None
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return None
    try:
        os.write(descriptor, _as_json(note))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    files.sync(folder)
    return Claim(epoch, name)


def _create_remote(folder: str, epoch: int, note: dict[str, Any]) -> Claim | None:
    mine = Claim(epoch, f"lease-{epoch}-{uuid.uuid4().hex[:8]}")
    files.write_file(files.join(folder, mine.name), _as_json(note))
    if any(claim.epoch >= epoch and claim.name != mine.name for claim in claims_in(folder)):
        time.sleep(random.uniform(0.0, 0.2))
        return None
    return mine


def note_of(folder: str, name: str) -> dict[str, Any]:
    """Who made a claim; its name counts, even if its content is not there yet."""
    note: dict[str, Any] = {"owner": "an unknown driver", "since": "an unknown time"}
    with contextlib.suppress(OSError, ValueError, TypeError):
        note.update(json.loads(files.read_file(files.join(folder, name))))
    return note


def _as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return f"user {os.getuid()}"
