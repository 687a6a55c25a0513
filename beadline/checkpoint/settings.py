"""What the options under ``execution.checkpointing`` say, checked once and then fixed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from beadline.checkpoint.ends import End, Fate
from beadline.common.configuration import Configuration
from beadline.common.job_id import JobID
from beadline.errors import ConfigurationError
from beadline.state.segments.files import PRIVATE

E = TypeVar("E", bound=Enum)

_SHORTEST_MS = 10
_LARGEST_INLINE = 1 << 20
_UNLIMITED = 2**31 - 1


class Key:
    """The options that :meth:`CheckpointSettings.from_configuration` reads."""

    INTERVAL = "execution.checkpointing.interval"
    MODE = "execution.checkpointing.mode"
    TIMEOUT = "execution.checkpointing.timeout"
    MIN_PAUSE = "execution.checkpointing.min-pause"
    MAX_CONCURRENT = "execution.checkpointing.max-concurrent-checkpoints"
    TOLERABLE_FAILURES = "execution.checkpointing.tolerable-failed-checkpoints"
    NUM_RETAINED = "execution.checkpointing.num-retained"
    RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
    UNALIGNED = "execution.checkpointing.unaligned.enabled"
    ALIGNED_TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
    AFTER_TASKS_FINISH = "execution.checkpointing.checkpoints-after-tasks-finish"
    STORAGE = "execution.checkpointing.storage"
    DIRECTORY = "execution.checkpointing.dir"
    CREATE_SUBDIR = "execution.checkpointing.create-subdir"
    SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"
    INLINE_THRESHOLD = "execution.checkpointing.data-inline-threshold"
    WRITE_BUFFER_SIZE = "execution.checkpointing.write-buffer-size"
    COMPRESSION = "execution.checkpointing.snapshot-compression"
    INCREMENTAL = "execution.checkpointing.incremental"
    LOCAL_BACKUP = "execution.checkpointing.local-backup.enabled"
    # Flink has no key for the state limit of its job manager storage, because it can be set in code only.
    MAX_STATE_SIZE = "beadline.checkpointing.jobmanager.max-state-size"
    FOLDER_MODE = "beadline.checkpointing.folder-mode"
    JOB_ID = "beadline.job-id"
    FIXED_JOB_ID = "$internal.pipeline.job-id"  # Flink's word for it
    RESTORE_PATH = "execution.state-recovery.path"
    CLAIM_MODE = "execution.state-recovery.claim-mode"
    IGNORE_UNCLAIMED = "execution.state-recovery.ignore-unclaimed-state"
    IGNORED_IN_FLIGHT = "execution.state-recovery.without-channel-state.checkpoint-id"
    HISTORY = "web.checkpoints.history"


# Read, so that a wrong value is an error; otherwise they have no effect.
WITHOUT_EFFECT = frozenset({Key.WRITE_BUFFER_SIZE, Key.INCREMENTAL, Key.LOCAL_BACKUP})
KEYS = frozenset(key for name, key in vars(Key).items() if name.isupper())


class Retention(Enum):
    """The ends after which retained checkpoints are kept, among the ends that leave this to the retention."""

    NO_EXTERNALIZED_CHECKPOINTS = frozenset[End]()
    DELETE_ON_CANCELLATION = frozenset({End.FAILED})
    RETAIN_ON_CANCELLATION = frozenset({End.FAILED, End.CANCELLED})

    def keeps(self, end: End) -> bool:
        """Whether they outlive a job that ends that way."""
        if end.checkpoints is Fate.AS_RETENTION_SAYS:
            return end in self.value
        return end.checkpoints is not Fate.DELETED


class Storage(Enum):
    """Where checkpoints are kept: in the driver's memory, or as files."""

    JOBMANAGER = "jobmanager"
    FILESYSTEM = "filesystem"


class ClaimMode(Enum):
    """Who owns the checkpoint that a job started from."""

    NO_CLAIM = "no_claim"
    """Whoever made it: it is never deleted."""

    CLAIM = "claim"
    """The job: it is deleted when newer ones replace it."""


@dataclass(frozen=True)
class CheckpointSettings:
    """How checkpoints of a job are taken; times in milliseconds.

    :ivar interval_ms: from one checkpoint to the next; ``None`` if the clock takes none
    :ivar tolerable_failures: how many may fail in a row; ``None`` for any number
    :ivar aligned_timeout_ms: when unaligned, how long to wait for the running step before it is overtaken
    :ivar ignored_in_flight: the checkpoint whose in-flight step is left out when it is restored
    :ivar folder_mode: the rights of the folders of jobs and savepoints; ``None`` for those that the umask leaves
    :ivar job_id: what the user calls the job; its folder has that name. ``None`` for a random one
    :ivar history: how many checkpoints that have ended are remembered, for people to look at
    :ivar warnings: sentences for the user on options that can't have the effect they ask for
    """

    interval_ms: int | None = None
    exactly_once: bool = True
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int | None = 0
    retained: int = 1
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    ignored_in_flight: int | None = None
    after_tasks_finish: bool = True
    storage: Storage = Storage.JOBMANAGER
    directory: str | None = None
    create_subdirectory: bool = True
    savepoint_directory: str | None = None
    inline_threshold: int = 20 << 10
    max_state_size: int = 5 << 20
    compression: bool = False
    folder_mode: int | None = PRIVATE
    job_id: str | None = None
    restore_path: str | None = None
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    ignore_unclaimed_state: bool = False
    history: int = 1000
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.interval_ms is not None:
            _at_least(_SHORTEST_MS, self.interval_ms, Key.INTERVAL, " ms; leave it out for no checkpoints")
        _at_least(_SHORTEST_MS, self.timeout_ms, Key.TIMEOUT, " ms")
        _at_least(0, self.min_pause_ms, Key.MIN_PAUSE, " ms")
        _at_least(0, self.aligned_timeout_ms, Key.ALIGNED_TIMEOUT, " ms")
        _at_least(1, self.max_concurrent, Key.MAX_CONCURRENT)
        _at_least(1, self.retained, Key.NUM_RETAINED)
        _at_least(1, self.max_state_size, Key.MAX_STATE_SIZE, " bytes")
        _at_least(0, self.history, Key.HISTORY)
        if self.tolerable_failures is not None:
            _at_least(0, self.tolerable_failures, Key.TOLERABLE_FAILURES)
        if not 0 <= self.inline_threshold <= _LARGEST_INLINE:
            raise ConfigurationError(
                f"{Key.INLINE_THRESHOLD} must be from 0 to {_LARGEST_INLINE} bytes, not {self.inline_threshold}: the "
                "driver holds the metadata of all retained checkpoints."
            )
        if self.unaligned and not self.exactly_once:
            raise ConfigurationError(f"Unaligned checkpoints need {Key.MODE} EXACTLY_ONCE, not AT_LEAST_ONCE.")
        if self.unaligned and self.max_concurrent > 1:
            raise ConfigurationError(
                f"Unaligned checkpoints run one at a time: set {Key.MAX_CONCURRENT} to 1, not {self.max_concurrent}, "
                f"or {Key.UNALIGNED} to false."
            )
        if self.storage is Storage.FILESYSTEM and not self.directory:
            raise ConfigurationError(
                f"{Key.STORAGE} is 'filesystem', but {Key.DIRECTORY} doesn't say where the files go."
            )

    @classmethod
    def from_configuration(cls, configuration: Configuration, *, batch: bool = False) -> CheckpointSettings:
        """The settings of a job; a batch job takes no checkpoints, because it starts over."""
        warnings = []
        interval = configuration.get_duration_ms(Key.INTERVAL, None)
        if batch and interval is not None:
            interval = None
            warnings.append(f"{Key.INTERVAL} has no effect in batch mode: a batch job starts over after a failure")
        exactly_once = read_member(configuration, Key.MODE, _Mode.EXACTLY_ONCE) is _Mode.EXACTLY_ONCE
        unaligned = configuration.get_boolean(Key.UNALIGNED, False)
        if unaligned and not exactly_once:
            unaligned = False
            warnings.append(f"{Key.UNALIGNED} has no effect with {Key.MODE} AT_LEAST_ONCE: checkpoints stay aligned")
        directory = configuration.get_string(Key.DIRECTORY, None)
        failures = configuration.get_integer(Key.TOLERABLE_FAILURES, 0)
        ignored = configuration.get_integer(Key.IGNORED_IN_FLIGHT, -1)
        _at_least(0, configuration.get_integer(Key.WRITE_BUFFER_SIZE, 0), Key.WRITE_BUFFER_SIZE, " bytes")
        for key in (Key.INCREMENTAL, Key.LOCAL_BACKUP):
            configuration.get_boolean(key, False)
        return cls(
            interval_ms=interval,
            exactly_once=exactly_once,
            timeout_ms=configuration.get_duration_ms(Key.TIMEOUT, cls.timeout_ms),
            min_pause_ms=configuration.get_duration_ms(Key.MIN_PAUSE, cls.min_pause_ms),
            max_concurrent=configuration.get_integer(Key.MAX_CONCURRENT, cls.max_concurrent),
            tolerable_failures=None if failures >= _UNLIMITED else failures,
            retained=configuration.get_integer(Key.NUM_RETAINED, cls.retained),
            retention=read_member(configuration, Key.RETENTION, cls.retention),
            unaligned=unaligned,
            aligned_timeout_ms=configuration.get_duration_ms(Key.ALIGNED_TIMEOUT, cls.aligned_timeout_ms),
            ignored_in_flight=ignored if ignored >= 0 else None,
            after_tasks_finish=configuration.get_boolean(Key.AFTER_TASKS_FINISH, cls.after_tasks_finish),
            storage=read_member(configuration, Key.STORAGE, Storage.FILESYSTEM if directory else Storage.JOBMANAGER),
            directory=directory,
            create_subdirectory=configuration.get_boolean(Key.CREATE_SUBDIR, cls.create_subdirectory),
            savepoint_directory=configuration.get_string(Key.SAVEPOINT_DIRECTORY, None),
            inline_threshold=configuration.get_memory_bytes(Key.INLINE_THRESHOLD, cls.inline_threshold),
            max_state_size=configuration.get_memory_bytes(Key.MAX_STATE_SIZE, cls.max_state_size),
            compression=configuration.get_boolean(Key.COMPRESSION, cls.compression),
            folder_mode=_folder_mode(configuration),
            job_id=_job_id(configuration),
            restore_path=configuration.get_string(Key.RESTORE_PATH, None),
            claim_mode=_claim_mode(configuration, cls.claim_mode),
            ignore_unclaimed_state=configuration.get_boolean(Key.IGNORE_UNCLAIMED, cls.ignore_unclaimed_state),
            history=configuration.get_integer(Key.HISTORY, cls.history),
            warnings=tuple(warnings),
        )

    @property
    def takes_final(self) -> bool:
        """Whether the last step of a job gets a checkpoint."""
        return self.enabled and self.after_tasks_finish

    @property
    def enabled(self) -> bool:
        """Whether the clock takes checkpoints."""
        return self.interval_ms is not None

    @property
    def period_ms(self) -> int | None:
        """The interval, or the pause between checkpoints if that is longer."""
        return None if self.interval_ms is None else max(self.interval_ms, self.min_pause_ms)


class _Mode(Enum):
    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


def _folder_mode(configuration: Configuration) -> int | None:
    """The rights of folders; None for those that the umask leaves."""
    text = configuration.get_string(Key.FOLDER_MODE, f"{PRIVATE:04o}").strip()
    if text == "umask":
        return None
    mode = int(text, 8) if re.fullmatch("[0-7]{3,4}", text) else 0
    if mode & PRIVATE != PRIVATE or mode & 0o5000:
        raise ConfigurationError(
            f"{Key.FOLDER_MODE} is {text!r}: it takes the rights of a folder as chmod does, with all of them for the "
            "user, such as 0700, 0770 or 2770, or umask."
        )
    return mode


def _job_id(configuration: Configuration) -> str | None:
    given = {key: text for key in (Key.JOB_ID, Key.FIXED_JOB_ID) if (text := configuration.get_string(key, None))}
    ids = set()
    for key, text in given.items():
        try:
            ids.add(str(JobID(text)))
        except ConfigurationError as error:
            raise ConfigurationError(f"{key}: {error}") from None
    if len(ids) > 1:
        first, second = given.values()
        raise ConfigurationError(f"{Key.JOB_ID} is {first!r} and {Key.FIXED_JOB_ID} {second!r}: set one.")
    return next(iter(ids), None)


def _claim_mode(configuration: Configuration, default: ClaimMode) -> ClaimMode:
    if (configuration.get_string(Key.CLAIM_MODE, None) or "").strip().upper() == "LEGACY":
        raise ConfigurationError(
            f"{Key.CLAIM_MODE}: LEGACY leaves open who may delete the snapshot, so it is not supported: use NO_CLAIM "
            "(it stays yours) or CLAIM (the job deletes it when it no longer needs it)."
        )
    return read_member(configuration, Key.CLAIM_MODE, default)


def read_member(configuration: Configuration, key: str, default: E) -> E:
    """The member of ``default``'s enum that is named under ``key``; case and hyphens don't matter."""
    text = configuration.get_string(key, None)
    if text is None:
        return default
    members = type(default).__members__
    name = text.strip().upper().replace("-", "_")
    if name not in members:
        raise ConfigurationError(f"{key}: {text!r} is none of {', '.join(members)}.")
    return type(default)[name]


def _at_least(minimum: int, value: int, key: str, unit: str = "") -> None:
    if value < minimum:
        raise ConfigurationError(f"{key} is {value}; it must be at least {minimum}{unit}.")
