"""What is known of a state beyond its name: enough to read it without the program that wrote it, and to compare a
snapshot with a program."""

from __future__ import annotations

from dataclasses import dataclass

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError

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


def describe(descriptor: StateDescriptor, kind: str, scope: str = KEYED, namespaced: bool = False) -> StateDescription:
    """What a snapshot says about a state that a descriptor declares."""
    info, map_key_type = descriptor.type_info, ""
    if isinstance(descriptor, ListStateDescriptor):
        info = descriptor.elem_type_info
    elif isinstance(descriptor, MapStateDescriptor):
        info, map_key_type = descriptor.value_type_info, text_of(descriptor.key_type_info)
    return StateDescription(
        descriptor.name,
        kind,
        text_of(info),
        map_key_type,
        scope,
        type(descriptor).__name__.removesuffix("Descriptor"),
        namespaced,
        None if descriptor.ttl_config is None else descriptor.ttl_config.ttl_ms,
    )


def text_of(info: TypeInformation | None) -> str:
    """The text of a declared type; a type of the user's own making has none, like one that was not declared."""
    try:
        return "" if info is None else type_to_text(info)
    except ConfigurationError:
        return ""
