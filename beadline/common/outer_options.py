"""Options from outside the program: of the command line, and of files.

``beadline run -p 4 -D key=value job.py`` starts the script in its own process, so one dictionary from Flink's option
keys to their text is enough. An environment reads it when it is made; settings in the script come later, and win.

These files are read, and a later one wins over an earlier one:

1. ``config.yaml`` in the folder that ``BEADLINE_CONF_DIR`` names: as Flink's, for all jobs of an installation. With
   only a ``flink-conf.yaml`` there, that one, as older versions of Flink have it.
2. ``beadline.yaml`` in the same folder.
3. ``beadline.yaml`` next to the script; without one there, in the current directory.

All are YAML, nested or with dotted keys, with today's or older names of options. What a program or the command line
sets wins over them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beadline.common.configuration import known_keys
from beadline.common.option_texts import format_list
from beadline.errors import ConfigurationError

FOLDER_VARIABLE = "BEADLINE_CONF_DIR"
FILE_NAME = "config.yaml"
OLD_FILE_NAME = "flink-conf.yaml"
OWN_FILE_NAME = "beadline.yaml"
PARALLELISM_KEY = "parallelism.default"
"""The option that ``-p`` stands for."""

PROGRAM = "program"

_overrides: dict[str, str] = {}


def set_overrides(options: Mapping[str, str]) -> None:
    """Replace the options that this process was given on its command line."""
    global _overrides
    _overrides = dict(options)


def get_overrides() -> dict[str, str]:
    return dict(_overrides)


@dataclass(frozen=True)
class OptionFile:
    """A file with options, by dotted key."""

    path: str
    options: dict[str, str] = field(default_factory=dict)


def option_files(project: str | None = None) -> list[OptionFile]:
    """The files that hold for this process, the weakest first.

    :param project: the folder of the script; None for that of the running one
    """
    paths = []
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        in_folder = [os.path.join(folder, name) for name in (FILE_NAME, OLD_FILE_NAME, OWN_FILE_NAME)]
        found = [path for path in in_folder if os.path.exists(path)]
        if not found:
            raise ConfigurationError(
                f"{FOLDER_VARIABLE} is set to {folder}, but neither {FILE_NAME} nor {OWN_FILE_NAME} is there: it "
                "can't be read. Write one of them, or unset the variable."
            )
        paths += found if in_folder[0] not in found else [path for path in found if path != in_folder[1]]
    own = _of_project(project)
    if own is not None and not any(os.path.samefile(own, path) for path in paths):
        paths.append(own)
    return [OptionFile(path, _read(path)) for path in paths]


def read_config_file(project: str | None = None) -> dict[str, str]:
    """The options of all files, by dotted key: those of later files win, whichever name of an option they use."""
    merged: dict[str, str] = {}
    for file in option_files(project):
        for key, value in file.options.items():
            for name in known_keys(key):
                merged.pop(name, None)
            merged[key] = value
    return merged


def origins(options: Mapping[str, str]) -> dict[str, str]:
    """Where each of these options of a job was set: ``command line``, the path of a file, or ``program``."""
    places = [("command line", _overrides), *((file.path, file.options) for file in reversed(option_files()))]

    def origin(key: str, value: str) -> str:
        for place, given in places:
            found = [given[name] for name in known_keys(key) if name in given]
            if found:
                return place if found[0] == value else PROGRAM
        return PROGRAM

    return {key: origin(key, value) for key, value in options.items()}


def _of_project(folder: str | None) -> str | None:
    if folder is None:
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        folder = os.path.dirname(os.path.abspath(script)) if script else os.curdir
    for place in (folder, os.curdir):
        path = os.path.join(place, OWN_FILE_NAME)
        if os.path.isfile(path):
            return os.path.abspath(path)
    return None


def _read(path: str) -> dict[str, str]:
    import yaml  # only where there is a file

    try:
        with open(path, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold options as key: value, not a {type(content).__name__}")
    options: dict[str, str] = {}
    for key, value in _flat("", content):
        for name in known_keys(key):
            if options.get(name, value) != value:
                what = f"{key} twice" if name == key else f"{name} and {key}, which are one option"
                raise ConfigurationError(f"{path} sets {what}: to {options[name]!r} and to {value!r}. Keep one.")
        options[key] = value
    return options


def _flat(prefix: str, content: dict[Any, Any]) -> list[tuple[str, str]]:
    options: list[tuple[str, str]] = []
    for key, value in content.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict):
            options += _flat(name, value)
        elif isinstance(value, list):
            options.append((name, format_list(value)))
        elif value is not None:
            options.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return options
