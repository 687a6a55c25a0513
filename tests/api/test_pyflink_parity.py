"""Every name and parameter of PyFlink's DataStream API is here too, except where a reason is given.

The inventories were recorded from PyFlink 2.3.0 with ``tests/tools/record_api.py``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.record_api import describe_class, parameters

HERE = Path(__file__).parent
PYFLINK = {
    module: entry
    for file in ("pyflink_datastream_api.json", "pyflink_metrics_api.json")
    for module, entry in json.loads((HERE / file).read_text())["modules"].items()
}
MODULES = [
    "datastream.async_data_stream",
    "datastream.async_retry_predicates",
    "datastream.async_retry_strategies",
    "datastream.checkpoint_config",
    "datastream.checkpoint_storage",
    "datastream.checkpointing_mode",
    "datastream.execution_mode",
    "datastream.externalized_checkpoint_retention",
    "datastream.functions",
    "datastream.output_tag",
    "datastream.slot_sharing_group",
    "datastream.state",
    "datastream.state_backend",
    "datastream.time_domain",
    "datastream.timerservice",
    "datastream.window",
    "metrics.metricbase",
]
# Base classes that PyFlink leaves out of __all__, though programs name or inherit from them.
BASES = {"Function", "KeyedStateStore", "State", "StateDescriptor", "AppendingState", "MergingState"}

DELIBERATE = {
    "datastream.checkpoint_config.CheckpointConfig.__init__": "views a Configuration, not a Java object",
    "datastream.slot_sharing_group.MemorySize.__init__": "without a Java object the size is required",
    "datastream.slot_sharing_group.SlotSharingGroup.__init__": "holds the values, not a Java object",
    "datastream.slot_sharing_group.SlotSharingGroup.Builder.__init__": "takes the name, not a Java builder",
    "datastream.window.ContinuousEventTimeTrigger.register_next_fire_timestamp": "an inner step of the trigger",
    "datastream.window.ContinuousProcessingTimeTrigger.register_next_fire_timestamp": "an inner step of the trigger",
}


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


@pytest.mark.parametrize("module", [*MODULES, "datastream", "metrics"])
def test_all_lists_names_that_are_there(module: str) -> None:
    loaded = importlib.import_module(f"beadline.{module}")
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert len(set(loaded.__all__)) == len(loaded.__all__)
