"""Options given on the command line, which an environment made later in the same process takes over.

``beadline run -p 4 -D key=value job.py`` starts the script in its own process, so one dictionary from Flink's option
keys to their text is enough. The environment reads it when it is made; settings in the script come later, and win.
"""

from __future__ import annotations

from collections.abc import Mapping

PARALLELISM_KEY = "parallelism.default"
"""The option that ``-p`` stands for."""

OVERRIDES: dict[str, str] = {}
"""The options of this process, by key. Change them with :func:`set_overrides`."""


def set_overrides(options: Mapping[str, str]) -> None:
    """Replace the options of this process by *options*."""
    replacement = dict(options)
    OVERRIDES.clear()
    OVERRIDES.update(replacement)


def get_overrides() -> dict[str, str]:
    """The options of this process, as a copy."""
    return dict(OVERRIDES)
