from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from beadline.common.configuration import Configuration
from beadline.common.without_java import WithoutJava
from beadline.errors import ConfigurationError, UnsupportedFeatureError

__all__ = ["ExecutionConfig"]

_PARALLELISM = "parallelism.default"
_MAX_PARALLELISM = "pipeline.max-parallelism"
_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
_LATENCY_INTERVAL = "metrics.latency.interval"
_CANCELLATION_INTERVAL = "task.cancellation.interval"
_CANCELLATION_TIMEOUT = "task.cancellation.timeout"
_CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
_AUTO_UIDS = "pipeline.auto-generate-uids"
_OBJECT_REUSE = "pipeline.object-reuse"
_JOB_PARAMETERS = "pipeline.global-job-parameters"
_SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"


class ExecutionConfig(WithoutJava):
    """How a program is run; get it from the environment.

    All settings live in the configuration that was passed in, under Flink's keys, so a value set here and one set by
    key are the same.
    """

    #: The parallelism is up to the environment.
    PARALLELISM_DEFAULT = -1

    #: No parallelism is known; setting it leaves the parallelism as it is.
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Kept for programs that call it: Python functions need no cleaning before they are sent."""
        return self._set(_CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        return self._set(_CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE").upper() != "NONE"

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Milliseconds between two watermarks of a source in Flink. Here only 0 has an effect: no watermarks,
        so that event time passes only at the end of the input."""
        return self._set(_WATERMARK_INTERVAL, f"{_at_least_zero('The watermark interval', interval)} ms")

    def get_auto_watermark_interval(self) -> int:
        return self._configuration.get_duration_ms(_WATERMARK_INTERVAL, 200)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Milliseconds between two latency marks of a source; 0 or less turns them off."""
        return self._set(_LATENCY_INTERVAL, f"{max(0, interval)} ms")

    def get_latency_tracking_interval(self) -> int:
        return self._configuration.get_duration_ms(_LATENCY_INTERVAL, 0)

    def get_parallelism(self) -> int:
        """How many subtasks an operator has by default; ``PARALLELISM_DEFAULT`` if that was not set."""
        return self._configuration.get_integer(_PARALLELISM, self.PARALLELISM_DEFAULT)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(_PARALLELISM)
            return self
        if parallelism < 1:
            raise ConfigurationError(
                f"The parallelism must be at least 1, or ExecutionConfig.PARALLELISM_DEFAULT; got {parallelism}."
            )
        return self._set(_PARALLELISM, parallelism)

    def get_max_parallelism(self) -> int:
        """The number of key groups; -1 if it follows from the parallelism."""
        return self._configuration.get_integer(_MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """The number of key groups, and so the highest parallelism that the job's state can be restored at."""
        if not 0 < max_parallelism <= 32768:
            raise ConfigurationError(f"The maximum parallelism must be from 1 to 32768, got {max_parallelism}.")
        return self._set(_MAX_PARALLELISM, max_parallelism)

    def get_task_cancellation_interval(self) -> int:
        """Milliseconds between two tries to cancel a task."""
        return self._configuration.get_duration_ms(_CANCELLATION_INTERVAL, 30_000)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        return self._set(_CANCELLATION_INTERVAL, f"{_at_least_zero('The cancellation interval', interval)} ms")

    def get_task_cancellation_timeout(self) -> int:
        """Milliseconds after which a task that does not stop is given up; 0 for never."""
        return self._configuration.get_duration_ms(_CANCELLATION_TIMEOUT, 180_000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        return self._set(_CANCELLATION_TIMEOUT, f"{_at_least_zero('The cancellation timeout', timeout)} ms")

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Let an operator without ``uid`` have one made from the shape of the program. On by default."""
        return self._set(_AUTO_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Ask for a ``uid`` on every operator, so that state finds its operator after the program has changed."""
        return self._set(_AUTO_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return self._configuration.get_boolean(_AUTO_UIDS, True)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Let chained operators share a record instead of a copy of it. A function must not change what it received."""
        return self._set(_OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        return self._set(_OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        return self._configuration.get_boolean(_OBJECT_REUSE, False)

    def get_global_job_parameters(self) -> dict[str, str]:
        """What functions read with ``runtime_context.get_job_parameter``."""
        return self._configuration.get_map(_JOB_PARAMETERS, {})

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, Any]) -> ExecutionConfig:
        """Set them all; values become strings."""
        self._configuration.set_map(_JOB_PARAMETERS, {k: str(v) for k, v in global_job_parameters_dict.items()})
        return self

    def is_use_snapshot_compression(self) -> bool:
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Compress full checkpoints and savepoints."""
        return self._set(_SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def _set(self, key: str, value: str | int | bool) -> ExecutionConfig:
        self._configuration._put(key, value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def __repr__(self) -> str:
        return f"ExecutionConfig({self._configuration})"


def _at_least_zero(name: str, value: int) -> int:
    if value < 0:
        raise ConfigurationError(f"{name} must be 0 ms or more, got {value}.")
    return value


def _about_java(method: str) -> Callable[[ExecutionConfig], NoReturn]:
    def refused(self: ExecutionConfig) -> NoReturn:
        raise UnsupportedFeatureError(
            f"ExecutionConfig.{method}() is about Kryo, Avro and POJOs, which only Java programs have "
            "(in PyFlink 2.3 the call fails too). Remove it; declare types with beadline.common.Types."
        )

    return refused


# PyFlink 2.3 has these methods, but Flink 2.x no longer has what they call: they fail there as well.
for _method in (
    "enable_force_kryo",
    "disable_force_kryo",
    "is_force_kryo_enabled",
    "enable_generic_types",
    "disable_generic_types",
    "has_generic_types_disabled",
    "enable_force_avro",
    "disable_force_avro",
    "is_force_avro_enabled",
    "get_default_kryo_serializer_classes",
    "get_registered_kryo_types",
    "get_registered_pojo_types",
):
    setattr(ExecutionConfig, _method, _about_java(_method))
