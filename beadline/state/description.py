"""What is known of a state beyond its name: enough to read it without the program that wrote it, and to compare a
snapshot with a program."""

from __future__ import annotations

from dataclasses import dataclass

KEYED = "keyed"
OPERATOR = "operator"


@dataclass(frozen=True)
class StateDescription:
    """A state that an operator declared.

    Types are written as :mod:`beadline.common.type_description` does it; empty where the program declared none.

    :ivar scope: by key, or of the whole subtask
    :ivar kind: how it is kept: the kind of its table for keyed state, the mode for operator state
    :ivar type: of a value, of an element of a list, of a value of a map
    :ivar map_key_type: of the keys of a map
    :ivar descriptor: what the program calls it: ValueState, ReducingState, …
    :ivar namespaced: it belongs to windows
    :ivar ttl_ms: how long an entry lives; entries then begin with a time
    """

    name: str
    kind: str
    type: str = ""
    map_key_type: str = ""
    scope: str = KEYED
    descriptor: str = ""
    namespaced: bool = False
    ttl_ms: int | None = None
