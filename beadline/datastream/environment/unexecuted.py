"""Programs that build a stream and never run it: what environments hold that no ``execute()`` has taken."""

from __future__ import annotations

_waiting: dict[int, tuple[str, str]] = {}

#: Whether this process has run anything.
executed = False


def note(environment: object, operator: str, made_at: str) -> None:
    """An operator was declared. The first one since the last ``execute()`` is told."""
    # By number, because an environment that was a function's own is gone when the program ends.
    _waiting.setdefault(id(environment), (operator, made_at))


def forget(environment: object) -> None:
    """What it holds was taken."""
    global executed
    executed = True
    _waiting.pop(id(environment), None)


def complaints() -> list[str]:
    """A sentence for each environment whose operators nobody has run."""
    found = []
    for operator, made_at in _waiting.values():
        place = f" ({made_at})" if made_at else ""
        found.append(
            f"the program has ended, and execute() was not called after operator '{operator}'{place} was made: no job "
            "has run it. Call env.execute() at the end"
        )
    return found
