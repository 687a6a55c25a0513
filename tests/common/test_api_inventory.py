"""Every public name and signature of pyflink.common 2.3.0 is here, but for the differences listed below.

The inventory was recorded with ``python tests/tools/record_api.py pyflink.common`` on an installation of PyFlink.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.tools.record_api import describe_class, describe_module

INVENTORY: dict[str, Any] = json.loads((Path(__file__).parent / "pyflink_common_api.json").read_text())

# Constructors that take a Java object in PyFlink and plain data here; programs get the objects from factories.
OTHER_CONSTRUCTORS = {
    "CompletableFuture": ["self", "future", "py_class=None"],
    "ConfigOption": ["self", "key", "value_type", "default=None", "bits=64"],
    "ConfigOptions.OptionBuilder": ["self", "key"],
    "ConfigOptions.TypedConfigOptionBuilder": ["self", "key", "value_type", "bits=64"],
    "Configuration": ["self", "other=None"],
    "Duration": ["self", "nanos"],
    "Encoder": ["self", "encode"],
    "ExecutionConfig": ["self", "configuration=None"],
    "JobClient": ["self", "control"],
    "JobExecutionResult": ["self", "job_id", "runtime_ms", "accumulators=None"],
    "JobID": ["self", "hex_digits=None"],
    "RestartStrategies.FailureRateRestartStrategyConfiguration": [
        "self",
        "max_failure_rate",
        "failure_interval",
        "delay_between_attempts_interval",
    ],
    "RestartStrategies.FallbackRestartStrategyConfiguration": ["self"],
    "RestartStrategies.FixedDelayRestartStrategyConfiguration": [
        "self",
        "restart_attempts",
        "delay_between_attempts_interval",
    ],
    "RestartStrategies.NoRestartStrategyConfiguration": ["self"],
    "WatermarkStrategy": ["self", "kind", "out_of_orderness_ms=0"],
}

# Optional arguments that methods have here beyond PyFlink's, behind all of those.
MORE_ARGUMENTS = {
    "JobClient.stop_with_savepoint": ["format_type=None"],
    "JobClient.trigger_savepoint": ["format_type=None"],
}

# These take no arguments, or those of their base, and so have no constructor of their own.
NO_CONSTRUCTOR = {
    "ConfigOptions",
    "DateTypeInfo",
    "InstantTypeInfo",
    "PickledBytesTypeInfo",
    "RestartStrategyConfiguration",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TypeInformation",
}


def our_module(name: str) -> str:
    return name.replace("pyflink.", "beadline.", 1)


def recorded_classes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for module, entry in INVENTORY["modules"].items():
        for name, recorded in entry.get("classes", {}).items():
            yield module, name, recorded


def differences(name: str, recorded: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    found = []
    for method, expected in recorded["methods"].items():
        actual = ours["methods"].get(method)
        if method == "__init__":
            if name in NO_CONSTRUCTOR:
                continue
            expected = {**expected, "parameters": OTHER_CONSTRUCTORS.get(name, expected["parameters"])}
        more = MORE_ARGUMENTS.get(f"{name}.{method}", [])
        expected = {**expected, "parameters": [*expected["parameters"], *more]} if more else expected
        if actual != expected:
            found.append(f"{name}.{method}: PyFlink {expected}, here {actual}")
    for kind in ("members", "constants"):
        for key, value in recorded.get(kind, {}).items():
            if ours.get(kind, {}).get(key, "missing") != value:
                found.append(f"{name}.{key}: PyFlink {value}, here {ours.get(kind, {}).get(key, 'missing')}")
    for nested, entry in recorded.get("classes", {}).items():
        if nested not in ours.get("classes", {}):
            found.append(f"{name}.{nested} is missing")
        else:
            found.extend(differences(f"{name}.{nested}", entry, ours["classes"][nested]))
    return found


@pytest.mark.parametrize(("module", "name", "recorded"), [pytest.param(*c, id=c[1]) for c in recorded_classes()])
def test_a_class_has_the_methods_of_its_pyflink_namesake(module: str, name: str, recorded: dict[str, Any]) -> None:
    ours = getattr(import_module(our_module(module)), name)
    assert differences(name, recorded, describe_class(ours)) == []


@pytest.mark.parametrize("module", INVENTORY["modules"])
def test_a_module_offers_what_its_pyflink_namesake_does(module: str) -> None:
    recorded = INVENTORY["modules"][module]
    ours = import_module(our_module(module))
    assert [name for name in recorded.get("all", ()) if name not in ours.__all__] == []
    assert {key: getattr(ours, key) for key in recorded.get("constants", {})} == recorded.get("constants", {})


def test_the_package_exports_exactly_pyflinks_names() -> None:
    package = import_module("beadline.common")
    assert sorted(package.__all__) == INVENTORY["modules"]["pyflink.common"]["all"]
    assert all(hasattr(package, name) for name in package.__all__)


def test_the_inventory_is_complete() -> None:
    assert INVENTORY["skipped"] == {}
    assert len(list(recorded_classes())) > 45


def test_every_listed_difference_is_still_one() -> None:
    """A difference that went away must leave the lists, or they would hide the next one."""
    recorded = {name: entry for _, name, entry in recorded_classes()}
    for name, parameters in OTHER_CONSTRUCTORS.items():
        entry = recorded[name.partition(".")[0]]
        if "." in name:
            entry = entry["classes"][name.partition(".")[2]]
        assert entry["methods"]["__init__"]["parameters"] != parameters, name


def test_the_recorder_sees_a_changed_signature() -> None:
    class Before:
        def go(self, how: str, far: int = 3) -> None: ...

    class After:
        def go(self, how: str, far: int = 4) -> None: ...

    assert differences("X", describe_class(Before), describe_class(Before)) == []
    assert len(differences("X", describe_class(Before), describe_class(After))) == 1


def test_the_recorder_describes_a_module() -> None:
    described = describe_module(import_module("beadline.common.constants"))
    assert described["constants"]["MAX_LONG_VALUE"] == 2**63 - 1
