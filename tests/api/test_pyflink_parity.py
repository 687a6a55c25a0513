"""Every name and parameter of PyFlink's DataStream API is here too, except where a reason is given.

The inventories were recorded from PyFlink 2.3.0 with ``tests/tools/record_api.py``. Names are compared for all modules
of ``pyflink.common``, ``pyflink.datastream`` and ``pyflink.metrics``: whatever a program can import from one of them,
also what PyFlink itself only imports there.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline import pyflink_alias
from tests.tools.record_api import describe_class, describe_module, parameters

HERE = Path(__file__).parent
PYFLINK = {
    module: entry
    for file in ("pyflink_datastream_api.json", "pyflink_metrics_api.json", "../common/pyflink_common_api.json")
    for module, entry in json.loads((HERE / file).read_text())["modules"].items()
}
MODULES = [
    "datastream.async_data_stream",
    "datastream.async_retry_predicates",
    "datastream.async_retry_strategies",
    "datastream.checkpoint_config",
    "datastream.checkpoint_storage",
    "datastream.checkpointing_mode",
    "datastream.connectors.base",
    "datastream.connectors.file_system",
    "datastream.connectors.kafka",
    "datastream.connectors.number_seq",
    "datastream.data_stream",
    "datastream.execution_mode",
    "datastream.externalized_checkpoint_retention",
    "datastream.formats.avro",
    "datastream.formats.csv",
    "datastream.formats.json",
    "datastream.formats.orc",
    "datastream.formats.parquet",
    "datastream.functions",
    "datastream.output_tag",
    "datastream.slot_sharing_group",
    "datastream.state",
    "datastream.state_backend",
    "datastream.stream_execution_environment",
    "datastream.time_domain",
    "datastream.timerservice",
    "datastream.window",
    "metrics.metricbase",
]
# Base classes that PyFlink leaves out of __all__, though programs name or inherit from them.
BASES = {"Function", "KeyedStateStore", "State", "StateDescriptor", "AppendingState", "MergingState"}

COMMON = [module.removeprefix("pyflink.") for module in PYFLINK if module.startswith("pyflink.common.")]
MODULES += COMMON

# Programs get these modules' objects from builders, factories and streams: PyFlink's constructors take Java objects.
FACTORIES = (
    "datastream.connectors",
    "datastream.data_stream",
    "datastream.formats",
    "datastream.stream_execution_environment",
)

DELIBERATE = {
    "datastream.connectors.file_system.FileSink.get_transformer": "it prepares a stream for Java's bulk formats",
    "datastream.connectors.file_system.StreamingFileSink.BaseBuilder": "its builders are those of FileSink",
    "datastream.data_stream.KeyedStream.AccumulateType": "an inner part of min_by and max_by",
    "datastream.checkpoint_config.CheckpointConfig.__init__": "views a Configuration, not a Java object",
    "datastream.functions.SinkFunction.__init__": "a sink of the program's own wraps nothing",
    "datastream.slot_sharing_group.MemorySize.__init__": "without a Java object the size is required",
    "datastream.slot_sharing_group.SlotSharingGroup.__init__": "holds the values, not a Java object",
    "datastream.slot_sharing_group.SlotSharingGroup.Builder.__init__": "takes the name, not a Java builder",
    "datastream.window.ContinuousEventTimeTrigger.register_next_fire_timestamp": "an inner step of the trigger",
    "datastream.window.ContinuousProcessingTimeTrigger.register_next_fire_timestamp": "an inner step of the trigger",
    "common.job_client.JobClient.stop_with_savepoint": "may choose the format, after PyFlink's parameters",
    "common.job_client.JobClient.trigger_savepoint": "may choose the format, after PyFlink's parameters",
    **{
        f"common.{name}.__init__": "takes plain data, where PyFlink's takes a Java object"
        for name in (
            "completable_future.CompletableFuture",
            "config_options.ConfigOption",
            "config_options.ConfigOptions.OptionBuilder",
            "config_options.ConfigOptions.TypedConfigOptionBuilder",
            "execution_config.ExecutionConfig",
            "job_client.JobClient",
            "job_execution_result.JobExecutionResult",
            "job_id.JobID",
            "restart_strategy.RestartStrategies.FailureRateRestartStrategyConfiguration",
            "restart_strategy.RestartStrategies.FixedDelayRestartStrategyConfiguration",
            "serialization.Encoder",
            "time.Duration",
            "watermark_strategy.WatermarkStrategy",
        )
    },
}


REFUSED = ["self", "*_", "**__"]

# Why a name can't be imported here, by where PyFlink has it from: a module, or a name in one.
JVM = "reaches into Flink's JVM"
LATER = "a connector that is not there yet"
INSIDE = "an inner part of PyFlink's own operators"
MISSING_NAMES = {
    "pyflink.java_gateway": JVM,
    "pyflink.util.exceptions": JVM,
    "pyflink.util.java_utils": JVM,
    "pyflink.util.api_stability_decorators": "marks PyFlink's own methods",
    "pyflink.serializers": "how PyFlink's driver and JVM talk",
    "pyflink.datastream.utils.create_hadoop_configuration": JVM,
    "pyflink.datastream.utils.create_java_properties": JVM,
    "pyflink.datastream.utils.convert_to_python_obj": JVM,
    "pyflink.datastream.utils.pickled_bytes_to_python_obj": JVM,
    "pyflink.datastream.functions.JavaFunctionWrapper": JVM,
    "pyflink.datastream.functions.FunctionWrapper": INSIDE,
    "pyflink.datastream.functions.ReduceFunctionWrapper": INSIDE,
    "pyflink.datastream.functions.NullByteKeySelector": INSIDE,
    "pyflink.datastream.functions.Internal": INSIDE,
    "pyflink.datastream.functions.PassThrough": INSIDE,
    "pyflink.datastream.data_stream.WINDOW_STATE_NAME": INSIDE,
    "pyflink.datastream.window.Min": INSIDE,
    "pyflink.datastream.window.WindowOperationDescriptor": INSIDE,
    "pyflink.datastream.window.long_to_int_with_bit_mixing": INSIDE,
    "pyflink.datastream.window.mod_inverse": INSIDE,
    "pyflink.datastream.connectors.cassandra": LATER,
    "pyflink.datastream.connectors.dynamic_kafka": LATER,
    "pyflink.datastream.connectors.elasticsearch": LATER,
    "pyflink.datastream.connectors.pulsar": LATER,
    "pyflink.datastream.connectors.rabbitmq": LATER,
}
# Names that PyFlink has dropped or moved since 1.x, and that published programs import.
OLD_NAMES = {
    "common.serialization": {
        *(f"{kind}Row{way}Schema" for kind in ("Avro", "Csv", "Json") for way in ("Deserialization", "Serialization")),
        "SimpleStringEncoder",
    },
    "datastream": {"FsStateBackend", "MemoryStateBackend", "RocksDBStateBackend", "TimeCharacteristic"},
    "datastream.connectors": {"StreamingFileSink"},
    "datastream.time_characteristic": {"TimeCharacteristic"},
}


def excused(module: str, name: str, origin: str) -> str | None:
    """The entry of ``MISSING_NAMES`` that says why a name is not there."""
    full = (f"{module}.", f"{origin}.{name}")
    return next((key for key in MISSING_NAMES if full[0].startswith(f"{key}.") or full[1].startswith(key)), None)


def recorded_names() -> Iterator[tuple[str, str, str]]:
    for module, entry in PYFLINK.items():
        for name, origin in entry.get("names", {}).items():
            yield module, name, origin


def imported(module: str, name: str) -> Any:
    """What ``from module import name`` gives, or None."""
    try:
        return getattr(importlib.import_module(module.replace("pyflink", "beadline", 1)), name, None)
    except ImportError:
        return None


def names_to_compare(entry: dict[str, Any]) -> set[str]:
    own = set(entry.get("classes", {})) | set(entry.get("functions", {}))
    return own & (set(entry["all"]) | BASES) if "all" in entry else own


def without_java(recorded: list[str]) -> list[str]:
    """Parameters that only carry a Java object are of no use here."""
    return [parameter for parameter in recorded if not parameter.startswith("j_")]


def class_differences(path: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, method in theirs["methods"].items():
        if "java" in name:
            continue
        mine = ours["methods"].get(name)
        expected = without_java(method["parameters"])
        if mine is not None and mine["parameters"] == REFUSED:
            continue  # it raises, in PyFlink and here
        if name == "__init__" and path.startswith(FACTORIES):
            continue
        if mine is None:
            if name != "__init__" or expected not in (["self"], ["self", "*args", "**kwargs"]):
                yield f"{path}.{name}", "missing"
        elif (mine["kind"], without_java(mine["parameters"])) != (method["kind"], expected):
            yield f"{path}.{name}", f"{mine['kind']} {mine['parameters']}, not {method['kind']} {expected}"
    for name, value in theirs.get("members", {}).items():
        if ours.get("members", {}).get(name) != value:
            yield f"{path}.{name}", "member is missing or has another value"
    for name, value in theirs.get("constants", {}).items():
        if ours.get("constants", {}).get(name) != value:
            yield f"{path}.{name}", "constant is missing or has another value"
    for name, inner in theirs.get("classes", {}).items():
        if name not in ours.get("classes", {}):
            yield f"{path}.{name}", "missing"
        else:
            yield from class_differences(f"{path}.{name}", inner, ours["classes"][name])


def module_differences(module: str) -> Iterator[tuple[str, str]]:
    theirs = PYFLINK[f"pyflink.{module}"]
    ours = importlib.import_module(f"beadline.{module}")
    for name, value in theirs.get("constants", {}).items() if module in COMMON else ():
        if getattr(ours, name, None) != value:
            yield f"{module}.{name}", f"the constant is not {value}"
    for name in sorted(names_to_compare(theirs)):
        path = f"{module}.{name}"
        if not hasattr(ours, name):
            yield path, "missing"
        elif name in theirs.get("functions", {}):
            if parameters(getattr(ours, name)) != theirs["functions"][name]:
                yield path, f"{parameters(getattr(ours, name))}, not {theirs['functions'][name]}"
        else:
            yield from class_differences(path, theirs["classes"][name], describe_class(getattr(ours, name)))


@pytest.mark.parametrize("module", MODULES)
def test_names_and_parameters_are_pyflinks(module: str) -> None:
    found = dict(module_differences(module))
    expected = {path for path in DELIBERATE if path.startswith(f"{module}.")}
    surprises = {path: what for path, what in found.items() if path not in expected}
    assert not surprises
    assert expected <= set(found), "these are no differences any more: take them off the list"


def test_the_package_exports_what_its_modules_define() -> None:
    theirs = set(PYFLINK["pyflink.datastream"]["all"])
    of_these_modules = {
        name for module in MODULES for name in PYFLINK[f"pyflink.{module}"].get("classes", {}) if name in theirs
    }
    package = importlib.import_module("beadline.datastream")
    assert len(of_these_modules) > 40
    assert of_these_modules <= set(package.__all__)


def test_the_common_package_exports_exactly_pyflinks_names() -> None:
    assert sorted(importlib.import_module("beadline.common").__all__) == PYFLINK["pyflink.common"]["all"]


@pytest.mark.parametrize(
    "module", [*(name for name in MODULES if "all" in PYFLINK[f"pyflink.{name}"]), "common", "datastream", "metrics"]
)
def test_all_lists_names_that_are_there(module: str) -> None:
    loaded = importlib.import_module(f"beadline.{module}")
    if module in COMMON:
        assert set(PYFLINK[f"pyflink.{module}"]["all"]) <= set(loaded.__all__)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert len(set(loaded.__all__)) == len(loaded.__all__)


def test_whatever_pyflink_has_can_be_imported_from_the_same_place() -> None:
    missing = [
        f"from {module} import {name} (of {origin})"
        for module, name, origin in recorded_names()
        if imported(module, name) is None and excused(module, name, origin) is None
    ]
    assert missing == []
    assert len(list(recorded_names())) > 700


def test_it_is_the_same_thing_in_each_place() -> None:
    """A class that is not the one of its own module would make isinstance() fail, and pickles disagree."""
    twins = [
        f"{module}.{name}"
        for module, name, origin in recorded_names()
        if origin != module
        and isinstance(found := imported(module, name), type)
        and isinstance(original := imported(origin, name), type)
        and found is not original
    ]
    assert twins == []


def test_each_reason_for_a_missing_name_is_needed() -> None:
    needed = {
        excused(module, name, origin) for module, name, origin in recorded_names() if imported(module, name) is None
    }
    assert set(MISSING_NAMES) - needed == set(), "these are there now: take them off the list"


@pytest.mark.parametrize("module", OLD_NAMES)
def test_names_of_1x_are_where_programs_look_for_them(module: str) -> None:
    assert [name for name in sorted(OLD_NAMES[module]) if imported(f"pyflink.{module}", name) is None] == []


def test_what_is_said_to_come_later_is_not_there() -> None:
    """Or the error of a misspelt import would call a connector missing that is there."""
    there = [
        name
        for name in sorted(pyflink_alias._NOT_YET)
        if imported(f"pyflink.{name.rpartition('.')[0]}", name.rpartition(".")[2]) is not None
        or importlib.util.find_spec(f"beadline.{name}") is not None
    ]
    assert there == []
    assert {f"pyflink.{name}" for name in pyflink_alias._NOT_YET} >= {
        name for name, reason in MISSING_NAMES.items() if reason == LATER
    }


def test_the_recorder_sees_a_changed_signature() -> None:
    class Before:
        def go(self, how: str, far: int = 3) -> None: ...

    class After:
        def go(self, how: str, far: int = 4) -> None: ...

    assert list(class_differences("X", describe_class(Before), describe_class(Before))) == []
    assert len(list(class_differences("X", describe_class(Before), describe_class(After)))) == 1
    described = describe_module(importlib.import_module("beadline.common.constants"))
    assert described["constants"]["MAX_LONG_VALUE"] == 2**63 - 1
