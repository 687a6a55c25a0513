"""Streams that are no operator have no settings of an operator: setting one raises, and says where to set it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from beadline.errors import GraphError

_SETTINGS = {
    "set_parallelism": "Set parallelism",
    "name": "Set name",
    "get_name": "Get name",
    "uid": "Set uid",
    "set_uid_hash": "Set uid hash",
    "set_max_parallelism": "Set max parallelism",
    "force_non_parallel": "Set force non-parallel",
    "set_buffer_timeout": "Set buffer timeout",
    "start_new_chain": "Start new chain",
    "disable_chaining": "Disable chaining",
    "slot_sharing_group": "Setting slot sharing group",
}


def refuse_settings(cls: type, instead: str, **more: str) -> None:
    """Make the methods for settings of an operator raise, and the methods named in ``more``.

    :param instead: what to do instead
    """
    for name, what in {**_SETTINGS, **more}.items():
        setattr(cls, name, _refusal(f"{what} for {cls.__name__} is not supported; {instead}"))


def _refusal(text: str) -> Callable[..., NoReturn]:
    def refused(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise GraphError(text)

    return refused
