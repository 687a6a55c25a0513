"""Options for all jobs of an installation: ``config.yaml`` in the folder that ``BEADLINE_CONF_DIR`` names.

The file is as Flink's: YAML, nested or with dotted keys. What a program or the command line sets wins over it.
"""

from __future__ import annotations

import os
from typing import Any

import yaml

from beadline.common.structured import format_list
from beadline.errors import ConfigurationError

FOLDER_VARIABLE = "BEADLINE_CONF_DIR"
FILE_NAME = "config.yaml"


def read_config_file() -> dict[str, str]:
    """The options of the file, by dotted key; none if the variable is not set."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return {}
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
