"""Values of options that stand elsewhere: ``${env:NAME}`` is a variable of the environment, ``${file:/path}`` a file.

So a secret need not stand on a command line, which every user of the machine can read, nor in a file of options. An
option keeps the reference as its value, and that is what is shown of it. It is looked up each time the value is read.
"""

from __future__ import annotations

import os
import re

from beadline.errors import ConfigurationError

_REFERENCE = re.compile(r"\$\{(env|file):([^{}]+)\}")


def resolved(key: str, text: str) -> str:
    """The value of an option with what its references stand for."""
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda found: _looked_up(key, found[1], found[2].strip()), text)


def _looked_up(key: str, kind: str, name: str) -> str:
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise ConfigurationError(
                f"The option {key} is to be the variable {name} of the environment, which is not set. Set it for the "
                "process that runs the program."
            )
        return value
    try:
        with open(os.path.expanduser(name), encoding="utf-8") as file:
            return file.read().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The option {key} is to be the content of the file {name}, which can't be read: {error}. The process that "
            "runs the program reads it."
        ) from error
