"""Types, rows, settings and handles that all parts of a program share; the names of ``pyflink.common``."""

from __future__ import annotations

from typing import Any

from beadline.common._formats import find_row_format
from beadline.common.completable_future import CompletableFuture
from beadline.common.config_options import ConfigOption, ConfigOptions
from beadline.common.configuration import Configuration
from beadline.common.execution_config import ExecutionConfig
from beadline.common.input_dependency_constraint import InputDependencyConstraint
from beadline.common.job_client import JobClient
from beadline.common.job_execution_result import JobExecutionResult
from beadline.common.job_id import JobID
from beadline.common.job_status import JobStatus
from beadline.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from beadline.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from beadline.common.serializer import TypeSerializer
from beadline.common.time import Duration, Instant, Time
from beadline.common.typeinfo import TypeInformation, Types
from beadline.common.types import Row, RowKind
from beadline.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper, WatermarkStrategy

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]


def __getattr__(name: str) -> Any:
    return find_row_format(__name__, name)
