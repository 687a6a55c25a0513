"""Printed output in the form in which two runs of one program are compared."""

from __future__ import annotations

import re

# At a parallelism above 1 a line starts with the subtask's number, "3> value" or "name:3> value"; at 1 there is no
# number, "value" or "name> value". Which subtask prints a value is up to the scheduler and to how keys are hashed.
_SUBTASK = re.compile(r"^(?:(?P<name>[^\s:>]+):)?\d+> ")


def normalise_line(line: str) -> str:
    """One printed line without the number of the subtask that printed it."""
    match = _SUBTASK.match(line)
    if match is None:
        return line
    name = match["name"]
    return line[match.end() :] if name is None else f"{name}> {line[match.end() :]}"


def normalise(output: str) -> list[str]:
    """The printed lines as a sorted multiset: no subtask numbers, no empty lines, no order of arrival."""
    return sorted(normalise_line(line) for line in output.split("\n") if line)
