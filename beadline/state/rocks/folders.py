"""Where databases are, which worker has them, and how those of dead workers are removed.

``<local dir>/beadline-rocksdb-<user>/<execution>/<node>-<subtask>`` is common to the workers of a machine: one at a
time has its lock. ``…/<execution>/worker-<process>/`` is the :class:`Workplace` of one worker, which has its lock for
as long as it lives. A workplace whose lock is free was left by a worker that died; an execution without a workplace
is over, or all its workers died. The next worker that comes removes both. The local directory may be shared, such as
``/tmp``: each user has a folder of their own there, which nobody else may enter, and a folder that somebody else made
is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator

from beadline.errors import StepError
from beadline.state.backend_settings import RocksSettings

_RETRY_SECONDS = 0.005
BASE = f"beadline-rocksdb-{os.getuid()}"
_WORKER, _LOCK = "worker-", ".lock"

_held: set[str] = set()


class Lock:
    """The right to use a folder, which one process has at a time and loses when it dies.

    Processes that user code forks don't inherit POSIX locks; within this process a set takes their place.
    """

    def __init__(self, folder: str) -> None:
        self._path = folder + _LOCK
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def acquire(self, seconds: float) -> bool:
        """Wait a short while for it."""
        until = time.monotonic() + seconds
        while not self._try():
            if time.monotonic() >= until:
                return False
            time.sleep(_RETRY_SECONDS)
        return True

    def _try(self) -> bool:
        if self._path in _held:
            return False
        file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        _held.add(self._path)
        return True

    def release(self) -> None:
        if self._file is not None:
            _held.discard(self._path)
            os.close(self._file)
            self._file = None

    def forget(self) -> None:
        """Release it and remove its file: the folder is not used again."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self.release()


class Workplace:
    """This worker's part of an execution's folder. It exists as long as one of its stores needs it.

    :ivar execution_folder: where the common databases lie
    :ivar stores: how many need it
    """

    def __init__(self, root: str, execution: str) -> None:
        base = os.path.join(root, BASE)
        self.execution_folder = os.path.join(base, execution)
        self.folder = os.path.join(self.execution_folder, f"{_WORKER}{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self._base = base
        self._place = (root, execution)
        self._lock = Lock(self.folder)
        self.stores = 0
        try:
            _make_own(base)
            with _alone_in(base):
                _remove_dead(base)
                os.makedirs(self.folder)
                self._lock.acquire(0)
        except OSError as error:
            raise StepError(f"can't make the folder {self.folder} for RocksDB: {error}") from error

    def new_folder(self, name: str) -> str:
        return os.path.join(self.folder, f"{name}-{uuid.uuid4().hex[:8]}")

    def leave(self) -> None:
        """A store is closed; with the last one the workplace is removed."""
        self.stores -= 1
        if self.stores > 0:
            return
        _workplaces.pop(self._place, None)
        remove(self.folder)
        self._lock.forget()
        with contextlib.suppress(OSError), _alone_in(self._base):
            _remove_dead(self._base)


_workplaces: dict[tuple[str, str], Workplace] = {}


def enter_workplace(settings: RocksSettings, execution: str, number: int) -> Workplace:
    """The workplace for one store, made for the first of an execution. Spark removes its local folders when it ends."""
    spark = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
    roots = settings.directories or tuple(spark) or (tempfile.gettempdir(),)
    place = (roots[number % len(roots)], execution)
    found = _workplaces.get(place)
    if found is None:
        found = _workplaces[place] = Workplace(*place)
    found.stores += 1
    return found


def _make_own(base: str) -> None:
    """Make the user's folder, or see that the one that is there is the user's: whoever owns it can read and replace the
    databases in it."""
    os.makedirs(os.path.dirname(base), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(base, 0o700)
    found = os.lstat(base)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        what = f"belongs to user {found.st_uid}" if stat.S_ISDIR(found.st_mode) else "is no folder"
        raise StepError(
            f"RocksDB's databases of user {os.getuid()} are to be in {base}, which {what}: somebody else may have made "
            "it to read or replace them. Remove it, or name a directory of your own in state.backend.rocksdb.localdir."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(base, 0o700)


def remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone_in(base: str) -> Iterator[None]:
    """Workplaces are made and removed by one process at a time."""
    folder = os.open(base, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _remove_dead(base: str) -> None:
    for execution in os.listdir(base):
        folder = os.path.join(base, execution)
        alive = False
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.startswith(_WORKER) and name.endswith(_LOCK):
                workplace = os.path.join(folder, name.removesuffix(_LOCK))
                lock = Lock(workplace)
                if lock.acquire(0):
                    remove(workplace)
                    lock.forget()
                else:
                    alive = True
        if not alive:
            remove(folder)
