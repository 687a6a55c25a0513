"""Which options of a Configuration Beadline uses, and what it says about the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from beadline.checkpoint import restart
from beadline.checkpoint import settings as checkpoint_settings
from beadline.checkpoint.settings import CheckpointSettings
from beadline.common import Configuration, ExecutionConfig
from beadline.common.configuration import known_keys
from beadline.common.outer_options import option_files, origins
from beadline.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from beadline.connectors import sink_settings
from beadline.connectors.sink_settings import SinkSettings
from beadline.datastream.environment.catalogue import meant
from beadline.datastream.execution_mode import RuntimeExecutionMode
from beadline.errors import ConfigurationError
from beadline.master import engines, failures
from beadline.master.client import rest_settings
from beadline.master.client.rest_settings import RestSettings
from beadline.master.definition import JobSettings
from beadline.master.shipping.dependencies import Dependencies, PythonArchive, Requirements, python_file
from beadline.master.upkeep.pacing import Limits
from beadline.state import backend_settings
from beadline.state.backend_settings import BackendSettings

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
RUNTIME_MODE = "execution.runtime-mode"
BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
CHAINING = "pipeline.operator-chaining.enabled"
CHAINING_DIFFERENT_MAX = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
CHANGELOG = "state.changelog.enabled"
JOB_NAME = "pipeline.name"
AUTO_UIDS = "pipeline.auto-generate-uids"
JOB_PARAMETERS = "pipeline.global-job-parameters"
PYTHON_FILES = "python.files"
PYTHON_ARCHIVES = "python.archives"
PYTHON_REQUIREMENTS = "python.requirements"
PYTHON_EXECUTABLE = "python.executable"
WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
WATERMARK_RECORDS = "beadline.watermark.records"
LENIENT_TYPES = "beadline.types.lenient"
STRICT_TYPES = "beadline.types.strict"
ENGINE = engines.OPTION
STEP_TARGET = "beadline.step.target"
STEP_MAX_RECORDS = "beadline.step.max-records"
STEP_FIRST_RECORDS = "beadline.step.first-records"
SOURCE_RATE = "beadline.source.max-records-per-second"
# Programs name the jars of PyFlink's connectors. They are told that none is needed.
_JARS = ("pipeline.jars", "pipeline.classpaths")

_EFFECTIVE = {
    PARALLELISM,
    MAX_PARALLELISM,
    RUNTIME_MODE,
    CHAINING,
    JOB_NAME,
    AUTO_UIDS,
    JOB_PARAMETERS,
    PYTHON_FILES,
    PYTHON_ARCHIVES,
    PYTHON_REQUIREMENTS,
    PYTHON_EXECUTABLE,
    WATERMARK_RECORDS,
    LENIENT_TYPES,
    STRICT_TYPES,
    ENGINE,
    STEP_TARGET,
    STEP_MAX_RECORDS,
    STEP_FIRST_RECORDS,
    SOURCE_RATE,
    *_JARS,
    *(checkpoint_settings.KEYS - checkpoint_settings.WITHOUT_EFFECT),
    *backend_settings.KEYS,
    *failures.POISON_KEYS,
    *sink_settings.KEYS,
    *restart.KEYS,
    *rest_settings.KEYS,
}
# Options set to their only supported value: no warning.
_AS_IT_IS: dict[str, tuple[Any, ...]] = {
    # Checkpoints always share what has not changed; a full one is a savepoint.
    "execution.checkpointing.incremental": ("true", "True"),
    "execution.checkpointing.local-backup.enabled": ("false", "False"),
    "execution.checkpointing.unaligned.forced": ("false", "False"),
    "python.execution-mode": ("process", "thread"),
    WATERMARK_INTERVAL: ("0 ms", "0", "200 ms"),  # 0 turns watermarks off; their distance is counted in records
}


# Steps need not be shorter than this for the sake of a short checkpoint interval.
_SHORTEST_STEP_SECONDS = 1.0


def without_effect(configuration: Configuration) -> list[str]:
    """A sentence on the options that were set and do nothing in this version."""
    values = configuration.to_dict()
    names = {key: known_keys(key)[0] for key in values}
    effective = _EFFECTIVE - BackendSettings.from_configuration(configuration).without_effect(set(names.values()))
    idle = sorted(
        key
        for key, value in values.items()
        if names[key] not in effective
        and str(value) not in _AS_IT_IS.get(names[key], ())
        and not key.startswith("beadline.")
    )
    found = [f"no effect in this version of Beadline: {', '.join(map(_with_advice, idle))}"] if idle else []
    unknown = sorted(key for key in values if key.startswith("beadline.") and key not in _EFFECTIVE)
    if unknown:
        raise ConfigurationError(f"unknown options: {', '.join(map(_with_advice, unknown))}")
    return found


def _with_advice(key: str) -> str:
    """The key, with the one that may have been meant, and the file that it stands in."""
    named = meant(key) if known_keys(key)[0] not in _EFFECTIVE else None
    file = next((file.path for file in reversed(option_files()) if key in file.options), None)
    notes = [f"did you mean {named}?" if named else "", f"in {file}" if file else ""]
    told = "; ".join(note for note in notes if note)
    return f"{key} ({told})" if told else key


def runtime_mode(configuration: Configuration) -> str:
    """STREAMING, BATCH or AUTOMATIC."""
    text = configuration.get_string(RUNTIME_MODE, "STREAMING")
    if text.strip().upper() not in RuntimeExecutionMode.__members__:
        raise ConfigurationError(f"{RUNTIME_MODE}: {text!r} is none of {', '.join(RuntimeExecutionMode.__members__)}.")
    return text.strip().upper()


def watermark_every(configuration: Configuration) -> int:
    """After how many records of a subtask a watermark follows."""
    every = configuration.get_integer(WATERMARK_RECORDS, 1000)
    if every < 1:
        raise ConfigurationError(f"{WATERMARK_RECORDS} must be at least 1, got {every}")
    return every


def job_settings(configuration: Configuration, batch: bool, dependencies: Dependencies | None = None) -> JobSettings:
    limits = Limits(
        first_rows=configuration.get_integer(STEP_FIRST_RECORDS, Limits.first_rows),
        max_rows=configuration.get_integer(STEP_MAX_RECORDS, Limits.max_rows),
        target_seconds=configuration.get_duration_ms(STEP_TARGET, int(Limits.target_seconds * 1000)) / 1000,
        per_second=_rate(configuration),
    )
    if limits.first_rows < 1 or limits.max_rows < 1 or limits.target_seconds <= 0:
        raise ConfigurationError(f"step limits must be positive: {limits}")
    checkpoints = CheckpointSettings.from_configuration(configuration, batch=batch)
    if checkpoints.interval_ms is not None:
        # A checkpoint waits for the running step. A step has a fixed cost too, so there is a shortest useful one.
        longest = max(_SHORTEST_STEP_SECONDS, checkpoints.interval_ms / 1000)
        limits = replace(limits, target_seconds=min(limits.target_seconds, longest))
    return JobSettings(
        batch=batch,
        limits=limits,
        checkpoints=checkpoints,
        restart=restart.restart_strategy(configuration, checkpointing=checkpoints.enabled),
        poison=failures.PoisonSettings.from_configuration(configuration),
        backend=_backend(configuration),
        sinks=SinkSettings.from_configuration(configuration),
        dependencies=dependencies or Dependencies(),
        rest=RestSettings.from_configuration(configuration),
        options=configuration.to_dict(),
        origins=origins(configuration.to_dict()),
    )


def _rate(configuration: Configuration) -> float | None:
    if not configuration.contains_key(SOURCE_RATE):
        return None
    rate = configuration.get_float(SOURCE_RATE, 0.0)
    if not 0 < rate < float("inf"):
        raise ConfigurationError(f"{SOURCE_RATE} must be more than 0, got {rate}; leave it out for no limit")
    return rate


def _backend(configuration: Configuration) -> BackendSettings:
    backend = BackendSettings.from_configuration(configuration)
    if backend.kind == backend_settings.ROCKSDB:
        backend_settings.require_rocksdict()
    return backend


def jars(configuration: Configuration) -> list[str]:
    """The jars that the program names."""
    texts = [configuration.get_string(key, "") for key in _JARS]
    return [jar.strip() for text in texts for jar in text.split(";") if jar.strip()]


def python_files(configuration: Configuration) -> list[str]:
    return [python_file(path) for path in _list(configuration, PYTHON_FILES)]


def python_archives(configuration: Configuration) -> list[PythonArchive]:
    """``path#target`` each, or the path alone."""
    entries = [entry.partition("#") for entry in _list(configuration, PYTHON_ARCHIVES)]
    return [PythonArchive.checked(path, target or None) for path, _, target in entries]


def python_requirements(configuration: Configuration) -> Requirements | None:
    """``file#folder of packages``, or the file alone."""
    file, _, packages = configuration.get_string(PYTHON_REQUIREMENTS, "").partition("#")
    return Requirements.checked(file, packages or None) if file else None


def _list(configuration: Configuration, key: str) -> list[str]:
    return [entry.strip() for entry in configuration.get_string(key, "").split(",") if entry.strip()]


def job_parameters(configuration: Configuration, config: ExecutionConfig) -> dict[str, str]:
    return {str(key): str(value) for key, value in (config.get_global_job_parameters() or {}).items()}


def of_restart_strategy(strategy: RestartStrategyConfiguration) -> Configuration:
    """The options that a restart strategy object stands for."""
    options = Configuration()
    if isinstance(strategy, RestartStrategies.NoRestartStrategyConfiguration):
        return options.set_string(restart.Key.TYPE, "none")
    if isinstance(strategy, RestartStrategies.FixedDelayRestartStrategyConfiguration):
        options.set_string(restart.Key.TYPE, "fixed-delay")
        options.set_integer(restart.Key.FIXED_ATTEMPTS, strategy.get_restart_attempts())
        options.set_string(restart.Key.FIXED_DELAY, _ms(strategy.get_delay_between_attempts_interval()))
    elif isinstance(strategy, RestartStrategies.FailureRateRestartStrategyConfiguration):
        options.set_string(restart.Key.TYPE, "failure-rate")
        options.set_integer(restart.Key.RATE_FAILURES, strategy.get_max_failure_rate())
        options.set_string(restart.Key.RATE_INTERVAL, _ms(strategy.get_failure_interval()))
        options.set_string(restart.Key.RATE_DELAY, _ms(strategy.get_delay_between_attempts_interval()))
    elif isinstance(strategy, RestartStrategies.ExponentialDelayRestartStrategyConfiguration):
        options.set_string(restart.Key.TYPE, "exponential-delay")
        options.set_string(restart.Key.INITIAL_BACKOFF, _ms(strategy.initial_backoff))
        options.set_string(restart.Key.MAX_BACKOFF, _ms(strategy.max_backoff))
        options.set_float(restart.Key.MULTIPLIER, strategy.backoff_multiplier)
        options.set_string(restart.Key.RESET_THRESHOLD, _ms(strategy.reset_backoff_threshold))
        options.set_float(restart.Key.JITTER, strategy.jitter_factor)
        if strategy.attempts_before_reset_backoff is not None:
            options.set_integer(restart.Key.ATTEMPTS_BEFORE_RESET, strategy.attempts_before_reset_backoff)
    return options


def _ms(interval: timedelta) -> str:
    return f"{interval // timedelta(milliseconds=1)} ms"
