"""What the options under execution.checkpointing mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beadline.checkpoint.settings import KEYS, CheckpointSettings, ClaimMode, Retention, Storage
from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError

CP = "execution.checkpointing."


def read(options: dict[str, str], batch: bool = False) -> CheckpointSettings:
    return CheckpointSettings.from_configuration(Configuration.from_dict(options), batch=batch)


def test_defaults_are_flinks():
    settings = read({})
    assert settings == CheckpointSettings()
    assert not settings.enabled
    assert settings.period_ms is None
    assert (settings.timeout_ms, settings.max_concurrent, settings.retained) == (600_000, 1, 1)
    assert (settings.tolerable_failures, settings.exactly_once, settings.after_tasks_finish) == (0, True, True)
    assert settings.storage is Storage.JOBMANAGER


ALL = {
    CP + "interval": "2 s",
    CP + "mode": "EXACTLY_ONCE",
    CP + "timeout": "3 s",
    CP + "min-pause": "1 s",
    CP + "max-concurrent-checkpoints": "1",
    CP + "tolerable-failed-checkpoints": "10",
    CP + "num-retained": "20",
    CP + "externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    CP + "unaligned.enabled": "true",
    CP + "aligned-checkpoint-timeout": "10 s",
    CP + "checkpoints-after-tasks-finish": "false",
    CP + "storage": "filesystem",
    CP + "dir": "file:///cp",
    CP + "create-subdir": "false",
    CP + "savepoint-dir": "file:///sp",
    CP + "data-inline-threshold": "1 kb",
    CP + "write-buffer-size": "8192",
    CP + "snapshot-compression": "true",
    CP + "incremental": "true",
    CP + "local-backup.enabled": "true",
    "beadline.checkpointing.jobmanager.max-state-size": "1 mb",
    "beadline.checkpointing.folder-mode": "2770",
    "beadline.job-id": "orders",
    "$internal.pipeline.job-id": "orders",
    "execution.state-recovery.path": "latest",
    "execution.state-recovery.claim-mode": "CLAIM",
    "execution.state-recovery.ignore-unclaimed-state": "true",
    "execution.state-recovery.without-channel-state.checkpoint-id": "5",
    "web.checkpoints.history": "7",
}


def test_every_option_is_read():
    assert read(ALL) == CheckpointSettings(
        interval_ms=2000,
        exactly_once=True,
        timeout_ms=3000,
        min_pause_ms=1000,
        max_concurrent=1,
        tolerable_failures=10,
        retained=20,
        retention=Retention.RETAIN_ON_CANCELLATION,
        unaligned=True,
        aligned_timeout_ms=10_000,
        ignored_in_flight=5,
        after_tasks_finish=False,
        storage=Storage.FILESYSTEM,
        directory="file:///cp",
        create_subdirectory=False,
        savepoint_directory="file:///sp",
        inline_threshold=1024,
        max_state_size=1 << 20,
        compression=True,
        folder_mode=0o2770,
        job_id="orders",
        restore_path="latest",
        claim_mode=ClaimMode.CLAIM,
        ignore_unclaimed_state=True,
        history=7,
    )
    assert set(ALL) == KEYS, "each key is read, and each that is read is tried here"


def test_a_job_id_is_one_by_either_name():
    assert read({"beadline.job-id": "orders"}).job_id == "orders"
    assert read({"$internal.pipeline.job-id": "66CD6C64862BFC970B7F067C65265A8C"}).job_id == (
        "66cd6c64862bfc970b7f067c65265a8c"
    )
    with pytest.raises(ConfigurationError, match=r"beadline\.job-id is 'a' and \$internal\.pipeline\.job-id 'b'"):
        read({"beadline.job-id": "a", "$internal.pipeline.job-id": "b"})
    with pytest.raises(ConfigurationError, match=r"beadline\.job-id: A job id has at most 64 letters, digits"):
        read({"beadline.job-id": "a/b"})


def test_older_names_of_options():
    settings = read({"state.checkpoints.num-retained": "20", "state.checkpoints.dir": "hdfs:///cp"})
    assert (settings.retained, settings.directory, settings.storage) == (20, "hdfs:///cp", Storage.FILESYSTEM)


def test_the_largest_int_means_any_number_of_failures():
    assert read({CP + "tolerable-failed-checkpoints": str(2**31 - 1)}).tolerable_failures is None


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("interval", "9 ms", "interval is 9; it must be at least 10 ms"),
        ("interval", "0 ms", "leave it out for no checkpoints"),
        ("timeout", "5 ms", "timeout is 5; it must be at least 10 ms"),
        ("max-concurrent-checkpoints", "0", "max-concurrent-checkpoints is 0; it must be at least 1"),
        ("tolerable-failed-checkpoints", "-1", "tolerable-failed-checkpoints is -1"),
        ("num-retained", "0", "num-retained is 0; it must be at least 1"),
        ("mode", "TWICE", "'TWICE' is none of EXACTLY_ONCE, AT_LEAST_ONCE"),
        ("externalized-checkpoint-retention", "KEEP", "'KEEP' is none of"),
        ("storage", "filesystem", "dir doesn't say where the files go"),
        ("storage", "tape", "'tape' is none of JOBMANAGER, FILESYSTEM"),
        ("data-inline-threshold", "2 mb", "must be from 0 to 1048576 bytes, not 2097152"),
        ("write-buffer-size", "-2", "write-buffer-size is -2"),
        ("incremental", "maybe", "maybe"),
        ("local-backup.enabled", "perhaps", "perhaps"),
    ],
)
def test_values_that_can_not_work(option: str, value: str, message: str):
    with pytest.raises(ConfigurationError, match=message):
        read({CP + option: value})


def test_legacy_claim_mode_is_refused_by_name():
    key = "execution.state-recovery.claim-mode"
    with pytest.raises(ConfigurationError, match=r"LEGACY leaves open who may delete .*: use NO_CLAIM .* or CLAIM"):
        read({key: "legacy"})
    with pytest.raises(ConfigurationError, match="'MINE' is none of NO_CLAIM, CLAIM"):
        read({key: "MINE"})
    assert read({key: "no-claim"}).claim_mode is ClaimMode.NO_CLAIM


def test_unaligned_checkpoints_run_one_at_a_time():
    with pytest.raises(ConfigurationError, match=r"one at a time: set .* to 1, not 2"):
        read({CP + "unaligned.enabled": "true", CP + "max-concurrent-checkpoints": "2"})


def test_at_least_once_stays_aligned_and_says_so():
    settings = read({CP + "mode": "at-least-once", CP + "unaligned.enabled": "true"})
    assert not settings.unaligned
    assert not settings.exactly_once
    assert "checkpoints stay aligned" in settings.warnings[0]
    with pytest.raises(ConfigurationError, match="EXACTLY_ONCE"):
        replace(settings, unaligned=True)


def test_a_batch_job_takes_none_and_says_so():
    settings = read({CP + "interval": "1 s"}, batch=True)
    assert not settings.enabled
    assert "batch" in settings.warnings[0]
