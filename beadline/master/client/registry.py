"""The jobs of this user on this machine: one small file for each, for whoever wants to find a running job.

The files are in ``jobs`` of the state directory: ``$BEADLINE_STATE_DIR``, else ``$XDG_STATE_HOME/beadline``, else
``~/.local/state/beadline``. Only the user can read them, because they hold the token that changing calls need. A driver
writes a job's file when the job starts and removes it when the job ends. After ``kill -9`` the file stays; it names its
process, so whoever lists the jobs next sees that the process is gone. The file then goes to ``lost``, without its
token, and from there the job comes into the history of ended jobs, see :mod:`beadline.web.lost`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from beadline.checkpoint.ownership.process import Process, this_process
from beadline.errors import ConfigurationError

VARIABLE = "BEADLINE_STATE_DIR"
LOG_VARIABLE = "BEADLINE_LOG_FILE"
"""Who starts a driver names in this variable the file that its output goes to."""
DETACHED_VARIABLE = "BEADLINE_DETACHED"
"""Set to ``1`` for a driver that nobody's terminal waits for."""


class JobNotFoundError(ConfigurationError):
    """No running job, or more than one, has the id or name that was asked for."""


@dataclass(frozen=True)
class Entry:
    """A job as its file describes it.

    :ivar process_started: tells the process from later ones with its number; ``place`` is the machine since it was
        started, or the container
    :ivar token: what changing calls must show; None if they need none
    :ivar started_at: in milliseconds since 1970
    :ivar script: the program's file, or its module; empty in a notebook
    :ivar argv: the program's arguments, without values that look like passwords
    :ivar log: the file that the program's output goes to, if it is known
    :ivar history_dir: the archive that the job goes to when it ends, None for the user's own; ``history_jobs`` is how
        many that keeps
    """

    job_id: str
    name: str
    pid: int
    process_started: str
    place: str
    host: str
    port: int
    url: str
    token: str | None
    started_at: int
    script: str
    argv: tuple[str, ...]
    engine: str
    checkpoint_dir: str | None
    log: str | None = None
    detached: bool = False
    history_dir: str | None = None
    history_jobs: int = 0

    @property
    def is_alive(self) -> bool:
        """Whether its process still runs; False also if that is on another machine or in another container."""
        return self._process.is_running(this_process()) is True

    @property
    def _process(self) -> Process:
        return Process(self.place, self.pid, self.process_started)

    @property
    def is_gone(self) -> bool:
        """Whether its process is known to have ended: also if the machine was started again since."""
        running = self._process.is_running(this_process())
        if running is not None:
            return not running
        here = this_process().place.split()
        there = self.place.split()
        return len(here) == len(there) == 3 and here[0] == there[0] and here[1] != there[1]


def state_directory() -> Path:
    """Where Beadline keeps what belongs to the user, and to no single job."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "beadline"


def make_private(directory: Path) -> Path:
    """The directory, made if need be, closed to other users."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)
    return directory


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only the user can read; it appears whole, or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def add(entry: Entry) -> None:
    """Let others find the job."""
    make_private(state_directory())
    directory = make_private(_jobs())
    write_private(directory / f"{entry.job_id}.json", json.dumps(asdict(entry), indent=1).encode())


def remove(job_id: str) -> None:
    """The job has ended. The file stays if a later driver of the same job has written its own meanwhile."""
    path = _jobs() / f"{job_id}.json"
    entry = _read(path)
    if entry is not None and entry._process == this_process():
        path.unlink(missing_ok=True)


def entries() -> list[Entry]:
    """The jobs that run, oldest first. Files of processes that are gone are moved to those of :func:`lost` jobs."""
    found = []
    for path in sorted(_jobs().glob("*.json")):
        entry = _read(path)
        if entry is None:
            continue
        if entry.is_alive:
            found.append(entry)
        elif entry.is_gone:
            with contextlib.suppress(OSError):
                _lose(entry)
                path.unlink()
    return sorted(found, key=lambda entry: entry.started_at)


def lost() -> list[Entry]:
    """The jobs whose drivers were killed, and that nobody has archived yet; oldest first."""
    running = {entry.job_id for entry in entries()}
    found = [entry for path in _lost().glob("*.json") if (entry := _read(path)) is not None]
    for entry in found:
        if entry.job_id in running:  # another driver goes on with it
            forget(entry)
    return sorted((each for each in found if each.job_id not in running), key=lambda entry: entry.started_at)


def forget(entry: Entry) -> None:
    """A lost job is in the archive now, or runs again."""
    (_lost() / f"{entry.job_id}.json").unlink(missing_ok=True)


def _lose(entry: Entry) -> None:
    """Keep what is known of a job whose driver was killed, for its archive; no more of them than that would keep."""
    if entry.history_jobs == 0:
        return
    directory = make_private(_lost())
    write_private(directory / f"{entry.job_id}.json", json.dumps(asdict(replace(entry, token=None)), indent=1).encode())
    known = sorted(directory.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in known[: -entry.history_jobs]:
        path.unlink(missing_ok=True)


def find(text: str) -> Entry:
    """The job with that id or name, or the only one whose id or name begins so."""
    running = entries()
    by_rule: tuple[Callable[[Entry], bool], ...] = (
        lambda entry: entry.job_id == text,
        lambda entry: entry.name == text,
        lambda entry: bool(text) and entry.job_id.startswith(text),
        lambda entry: bool(text) and entry.name.startswith(text),
    )
    for rule in by_rule:
        matches = [entry for entry in running if rule(entry)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise JobNotFoundError(f"{text!r} may be any of these jobs; give more of the id:\n{_listed(matches)}")
    if not running:
        raise JobNotFoundError(f"no job {text!r} runs here, nor any other (looked in {_jobs()})")
    raise JobNotFoundError(f"no job has the id or name {text!r}. These run:\n{_listed(running)}")


def here() -> dict[str, Any]:
    """The fields of an entry that say which process it is."""
    process = this_process()
    return {
        "pid": process.number,
        "process_started": process.started,
        "place": process.place,
        "host": socket.gethostname(),
        "log": os.environ.get(LOG_VARIABLE) or None,
        "detached": os.environ.get(DETACHED_VARIABLE) == "1",
    }


def _jobs() -> Path:
    return state_directory() / "jobs"


def _lost() -> Path:
    return state_directory() / "lost"


def _listed(entries: list[Entry]) -> str:
    return "\n".join(f"  {entry.job_id}  {entry.name}" for entry in entries)


def _read(path: Path) -> Entry | None:
    """What a file describes; None if it is gone, or not such a file."""
    try:
        read = json.loads(path.read_bytes())
        known = {field.name for field in fields(Entry)}
        entry = Entry(**{key: value for key, value in read.items() if key in known} | {"argv": tuple(read["argv"])})
        return entry if entry.job_id == path.stem else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
