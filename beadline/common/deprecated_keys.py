"""The option keys that Flink has renamed; programs for older versions still use the first names."""

from __future__ import annotations

_RENAMED: dict[str, tuple[str, ...]] = {
    "execution.buffer-timeout.interval": ("execution.buffer-timeout",),
    "execution.checkpointing.aligned-checkpoint-timeout": ("execution.checkpointing.alignment-timeout",),
    "execution.checkpointing.checkpoints-after-tasks-finish": (
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
    ),
    "execution.checkpointing.cleaner.parallel-mode": ("state.checkpoint.cleaner.parallel-mode",),
    "execution.checkpointing.create-subdir": ("state.checkpoints.create-subdir",),
    "execution.checkpointing.data-inline-threshold": (
        "state.storage.fs.memory-threshold",
        "state.backend.fs.memory-threshold",
    ),
    "execution.checkpointing.dir": ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    "execution.checkpointing.incremental": ("state.backend.incremental",),
    "execution.checkpointing.local-backup.dirs": ("taskmanager.state.local.root-dirs",),
    "execution.checkpointing.local-backup.enabled": ("state.backend.local-recovery",),
    "execution.checkpointing.num-retained": ("state.checkpoints.num-retained",),
    "execution.checkpointing.savepoint-dir": ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    "execution.checkpointing.storage": ("state.checkpoint-storage",),
    "execution.checkpointing.unaligned.enabled": ("execution.checkpointing.unaligned",),
    "execution.checkpointing.write-buffer-size": (
        "state.storage.fs.write-buffer-size",
        "state.backend.fs.write-buffer-size",
    ),
    "execution.state-recovery.approximate-local-recovery": ("execution.checkpointing.approximate-local-recovery",),
    "execution.state-recovery.claim-mode": ("execution.savepoint-restore-mode",),
    "execution.state-recovery.ignore-unclaimed-state": ("execution.savepoint.ignore-unclaimed-state",),
    "execution.state-recovery.path": ("execution.savepoint.path",),
    "execution.state-recovery.without-channel-state.checkpoint-id": (
        "execution.checkpointing.recover-without-channel-state.checkpoint-id",
    ),
    "pipeline.operator-chaining.enabled": ("pipeline.operator-chaining",),
    "restart-strategy.type": ("restart-strategy",),
    "state.backend.type": ("state.backend",),
    "state.changelog.enabled": ("state.backend.changelog.enabled",),
    "state.changelog.max-failures-allowed": ("state.backend.changelog.max-failures-allowed",),
    "state.changelog.periodic-materialize.enabled": ("state.backend.changelog.periodic-materialize.enabled",),
    "state.changelog.periodic-materialize.interval": ("state.backend.changelog.periodic-materialize.interval",),
    "state.changelog.storage": ("state.backend.changelog.storage",),
}

_CURRENT: dict[str, str] = {old: new for new, olds in _RENAMED.items() for old in olds}


def known_keys(key: str) -> tuple[str, ...]:
    """All names of the option that ``key`` names, today's first."""
    current = _CURRENT.get(key, key)
    return (current, *_RENAMED.get(current, ()))
