"""Programs are scripts, or folders with a ``main.py`` and the modules that it imports."""

from __future__ import annotations

from pathlib import Path


def find_programs(folder: Path) -> dict[str, Path]:
    """The scripts by the names of their programs."""
    scripts = {script.stem: script for script in folder.glob("*.py")}
    return scripts | {script.parent.name: script for script in folder.glob("*/main.py")}
