"""Options from outside the program: of the command line, and of a file for all jobs of an installation.

``beadline run -p 4 -D key=value job.py`` starts the script in its own process, so one dictionary from Flink's option
keys to their text is enough. An environment reads it when it is made; settings in the script come later, and win.

The file is ``config.yaml`` in the folder that ``BEADLINE_CONF_DIR`` names. It is as Flink's: YAML, nested or with
dotted keys. What a program or the command line sets wins over it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from beadline.common.option_texts import format_list
from beadline.errors import ConfigurationError

FOLDER_VARIABLE = "BEADLINE_CONF_DIR"
FILE_NAME = "config.yaml"
PARALLELISM_KEY = "parallelism.default"
"""The option that ``-p`` stands for."""

_overrides: dict[str, str] = {}


def set_overrides(options: Mapping[str, str]) -> None:
    """Replace the options that this process was given on its command line."""
    global _overrides
    _overrides = dict(options)


def get_overrides() -> dict[str, str]:
    return dict(_overrides)


def read_config_file() -> dict[str, str]:
    """The options of the file, by dotted key; none if the variable is not set."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return {}
    import yaml  # only where there is a file

    path = os.path.join(folder, FILE_NAME)
    try:
        with open(path, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except OSError as error:
        raise ConfigurationError(f"{FOLDER_VARIABLE} is set to {folder}, but {path} can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold options as key: value, not a {type(content).__name__}")
    return dict(_flat("", content, path))


def _flat(prefix: str, content: dict[Any, Any], path: str) -> list[tuple[str, str]]:
    options: list[tuple[str, str]] = []
    for key, value in content.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict):
            options += _flat(name, value, path)
        elif isinstance(value, list):
            options.append((name, format_list(value)))
        elif value is not None:
            options.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return options
