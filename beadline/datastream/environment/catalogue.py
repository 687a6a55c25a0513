"""All options that have an effect: what each means, what it takes, and what it is if nobody sets it.

The reference in the documentation, ``beadline config`` and "did you mean" are made from it. A test holds it against
what the settings really read.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from beadline.common.configuration import known_keys

BOOLEAN, INTEGER, NUMBER, DURATION, SIZE, TEXT, PATH = (
    "true | false",
    "whole number",
    "number",
    "duration, such as 10 s",
    "size, such as 64 mb",
    "text",
    "path",
)


@dataclass(frozen=True)
class Option:
    """An option of a job.

    :ivar takes: its kind, or all its values
    :ivar default: as text; None if it has none, and then ``unset`` says what happens without it
    """

    key: str
    takes: str
    default: str | None
    meaning: str
    unset: str = ""

    @property
    def older_names(self) -> tuple[str, ...]:
        """The names that it had in earlier versions of Flink; they work too."""
        return known_keys(self.key)[1:]


_CHECKPOINTS = "execution.checkpointing."
_RECOVERY = "execution.state-recovery."
_RESTART = "restart-strategy."
_ROCKS = "state.backend.rocksdb."


def _group(
    prefix: str, *options: tuple[str, str, str | None, str] | tuple[str, str, str | None, str, str]
) -> list[Option]:
    return [
        Option(prefix + option[0], option[1], option[2], option[3], option[4] if len(option) > 4 else "")
        for option in options
    ]


OPTIONS: tuple[Option, ...] = (
    *_group(
        "",
        ("parallelism.default", INTEGER, None, "Subtasks of an operator that sets none.", "slots of Spark, or cores"),
        ("execution.runtime-mode", "STREAMING | BATCH | AUTOMATIC", "STREAMING", "BATCH gives final results only."),
        ("pipeline.name", TEXT, None, "Name of the job, if execute() gives none.", "Flink Streaming Job"),
        ("pipeline.max-parallelism", INTEGER, None, "Number of key groups.", "follows from the parallelism"),
        ("pipeline.operator-chaining.enabled", BOOLEAN, "true", "Operators call each other where they can."),
        ("pipeline.auto-generate-uids", BOOLEAN, "true", "If false, every operator needs a uid of its own."),
        ("pipeline.global-job-parameters", "map, such as k:v,l:w", None, "Parameters that functions can read."),
        ("pipeline.jars", "list", None, "Accepted for Flink's sake: connectors need no jars here."),
        ("pipeline.classpaths", "list", None, "Accepted for Flink's sake: connectors need no jars here."),
        ("python.files", "list of paths", None, "Modules and archives that are sent to the workers."),
        ("python.archives", "list of paths", None, "Archives that are unpacked for the workers."),
        ("python.requirements", PATH, None, "Requirements file of packages for the workers."),
        ("python.executable", PATH, None, "Python of the workers.", "the driver's"),
    ),
    *_group(
        _CHECKPOINTS,
        ("interval", DURATION, None, "From one checkpoint to the next.", "no checkpoints"),
        ("mode", "EXACTLY_ONCE | AT_LEAST_ONCE", "EXACTLY_ONCE", "What a failure may do to results."),
        ("timeout", DURATION, "10 min", "A checkpoint that takes longer is given up."),
        ("min-pause", DURATION, "0 ms", "Least time from the end of a checkpoint to the next."),
        ("max-concurrent-checkpoints", INTEGER, "1", "How many may be under way."),
        ("tolerable-failed-checkpoints", INTEGER, "0", "How many in a row may fail before the job does."),
        ("num-retained", INTEGER, "1", "How many completed checkpoints are kept."),
        (
            "externalized-checkpoint-retention",
            "NO_EXTERNALIZED_CHECKPOINTS | DELETE_ON_CANCELLATION | RETAIN_ON_CANCELLATION",
            "NO_EXTERNALIZED_CHECKPOINTS",
            "What stays when the job ends.",
        ),
        ("storage", "jobmanager | filesystem", None, "In memory or in files.", "filesystem if dir is set"),
        ("dir", PATH, None, "Where checkpoints go.", "into the driver's memory"),
        ("savepoint-dir", PATH, None, "Where savepoints go for which no directory is named."),
        ("create-subdir", BOOLEAN, "true", "A folder for each job in dir."),
        ("data-inline-threshold", SIZE, "20 kb", "Smaller state is put into _metadata."),
        ("snapshot-compression", BOOLEAN, "false", "Compress what savepoints hold."),
        ("checkpoints-after-tasks-finish", BOOLEAN, "true", "A last checkpoint when the input has ended."),
        ("unaligned.enabled", BOOLEAN, "false", "Checkpoints overtake the running step."),
        ("aligned-checkpoint-timeout", DURATION, "0 ms", "If unaligned: how long to wait before overtaking."),
    ),
    *_group("", ("web.checkpoints.history", INTEGER, "1000", "How many ended checkpoints are remembered.")),
    *_group(
        _RECOVERY,
        ("path", PATH, None, "Checkpoint or savepoint to start from, or latest (-s)."),
        ("claim-mode", "NO_CLAIM | CLAIM", "NO_CLAIM", "Who owns it then (--claim-mode)."),
        ("ignore-unclaimed-state", BOOLEAN, "false", "Drop state without an operator (-n)."),
        ("without-channel-state.checkpoint-id", INTEGER, "-1", "Checkpoint whose in-flight step is left out."),
    ),
    *_group(
        _RESTART,
        (
            "type",
            "none | fixed-delay | failure-rate | exponential-delay",
            None,
            "What follows a failure.",
            "exponential-delay with checkpoints, else none",
        ),
        ("fixed-delay.attempts", INTEGER, "1", "Restarts before the job fails."),
        ("fixed-delay.delay", DURATION, "1 s", "Time before each restart."),
        ("failure-rate.max-failures-per-interval", INTEGER, "1", "Failures in the interval before the job fails."),
        ("failure-rate.failure-rate-interval", DURATION, "1 min", "The interval."),
        ("failure-rate.delay", DURATION, "1 s", "Time before each restart."),
        ("exponential-delay.initial-backoff", DURATION, "1 s", "Time before the first restart."),
        ("exponential-delay.max-backoff", DURATION, "1 min", "Longest time before a restart."),
        ("exponential-delay.backoff-multiplier", NUMBER, "1.5", "How the time grows."),
        (
            "exponential-delay.reset-backoff-threshold",
            DURATION,
            "1 h",
            "Time without failure after which it starts over.",
        ),
        ("exponential-delay.jitter-factor", NUMBER, "0.1", "How much the time varies."),
        (
            "exponential-delay.attempts-before-reset-backoff",
            INTEGER,
            None,
            "Restarts before the job fails.",
            "no limit",
        ),
    ),
    *_group(
        "",
        ("state.backend.type", "hashmap | rocksdb", "hashmap", "What holds state while the job runs."),
    ),
    *_group(
        _ROCKS,
        ("localdir", "list of paths", None, "Local folders for its files.", "Spark's local folders"),
        (
            "predefined-options",
            "DEFAULT | SPINNING_DISK_OPTIMIZED | SPINNING_DISK_OPTIMIZED_HIGH_MEM | FLASH_SSD_OPTIMIZED",
            "DEFAULT",
            "A set of options; those that are set themselves win.",
        ),
        ("options-factory", TEXT, None, "Refused: it names a Java class."),
        ("memory.managed", BOOLEAN, "true", "Databases of a worker share their memory."),
        ("memory.fixed-per-slot", SIZE, "256 mb", "How much they share."),
        ("memory.write-buffer-ratio", NUMBER, "0.5", "The part of it that write buffers may take."),
        ("block.cache-size", SIZE, "8 mb", "Cache of a database that shares nothing."),
        ("block.blocksize", SIZE, "4 kb", "Size of a block."),
        ("writebuffer.size", SIZE, "64 mb", "Size of a write buffer."),
        ("writebuffer.count", INTEGER, "2", "Write buffers of a database."),
        ("writebuffer.number-to-merge", INTEGER, "1", "Write buffers that are merged before they are written."),
        ("thread.num", INTEGER, "2", "Threads for compaction."),
        ("files.open", INTEGER, "-1", "Open files of a database; -1 for as many as it can have."),
        ("use-bloom-filter", BOOLEAN, "true", "Filters that spare reads."),
        ("bloom-filter.bits-per-key", INTEGER, "10", "Size of the filters."),
        ("compaction.style", "level | universal | none", "level", "How files are compacted."),
        ("compaction.level.max-size-level-base", SIZE, "64 mb", "Size of the first level."),
        ("compaction.level.target-file-size-base", SIZE, "8 mb", "Size of a file."),
        ("compaction.level.use-dynamic-size", BOOLEAN, "false", "Levels that follow the size of the state."),
    ),
    *_group(
        "rest.",
        ("port", INTEGER, "0", "Port of the dashboard and of REST; 0 is any that is free."),
        ("bind-port", "port or range", None, "Ports to try in turn.", "rest.port"),
        ("bind-address", "address", "127.0.0.1", "Interface to listen on."),
        ("address", TEXT, None, "Name by which others reach this machine."),
    ),
    *_group(
        "beadline.",
        ("engine", "spark | resident | local", "spark", "What runs the tasks (--engine)."),
        ("job-id", "up to 64 letters, digits, - and _", None, "Id of the job.", "32 new hexadecimal digits"),
        ("rest.enabled", BOOLEAN, "true", "Whether the job can be asked at all."),
        ("rest.token", "none | text", None, "What changing calls must show; none for nothing.", "a new one"),
        ("rest.read-token", BOOLEAN, "false", "Whether reading needs the token too, also on this machine."),
        ("rest.savepoint-directories", "list of paths", None, "Where callers without a token may put savepoints."),
        ("history.dir", PATH, None, "Where records of ended jobs are kept.", "the user's state directory"),
        ("history.retained-jobs", INTEGER, "50", "How many of them are kept."),
        ("checkpointing.folder-mode", "rights | umask", "0700", "Rights of the folders of jobs and savepoints."),
        ("checkpointing.jobmanager.max-state-size", SIZE, "5 mb", "Most state of a subtask in the driver's memory."),
        ("poison.action", "fail | skip | side-output", "fail", "What happens to a record that fails again and again."),
        ("poison.tries", INTEGER, "3", "How often it may fail."),
        ("rocksdb.own-database.max-size", SIZE, "64 mb", "Up to this size a worker has a database of its own."),
        ("sink.max-staged-size", SIZE, "2 gb", "Output that may wait for a checkpoint."),
        (
            "sink.unknown-transactions",
            "fail | write-again | skip",
            "fail",
            "What to do about a transaction of which nobody knows whether it was committed.",
        ),
        ("source.max-records-per-second", NUMBER, None, "Limit for each source.", "no limit"),
        ("step.target", DURATION, "4 s", "What a step with a backlog should take."),
        ("step.first-records", INTEGER, "2000", "Records of the first step."),
        ("step.max-records", INTEGER, "4000000", "Most records of a step."),
        ("types.lenient", BOOLEAN, "false", "Integers of a collection that are too large for their type wrap."),
        ("types.strict", BOOLEAN, "false", "Results are checked against their type between chained functions too."),
        ("watermark.records", INTEGER, "1000", "Records of a subtask after which a watermark follows."),
    ),
)

BY_KEY: dict[str, Option] = {option.key: option for option in OPTIONS}
_NAMES = [name for option in OPTIONS for name in known_keys(option.key)]
# How alike two keys must be. Flink has keys that differ from others by a word, and are none of ours.
_ALIKE = 0.86


def meant(key: str) -> str | None:
    """The option that somebody may have meant who wrote a key that has no effect."""
    alike = get_close_matches(key.lower().replace("_", "-"), _NAMES, n=1, cutoff=_ALIKE)
    return alike[0] if alike else None
