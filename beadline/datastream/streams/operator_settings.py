"""Operators as a program sets them up: their settings, the end of a stream, what functions and parallelisms must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from beadline.api.checkpointed import check_inherits
from beadline.api.function import Function
from beadline.common.without_java import WithoutJava
from beadline.datastream.slot_sharing_group import SlotSharingGroup
from beadline.errors import GraphError, TypeMismatchError
from beadline.graph.specs import Node

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


def check_function(func: Any, kind: type[Function]) -> None:
    if isinstance(func, type) and issubclass(func, Function):
        raise TypeMismatchError(
            f"a {kind.__name__} object is needed, got the class {func.__name__}: did you mean {func.__name__}()?"
        )
    if not isinstance(func, kind) and not callable(func):
        raise TypeMismatchError(
            f"The input must be a {kind.__name__} or a callable function, got {type(func).__name__}: {func!r}"
        )
    check_inherits(func)


def check_process_function(func: Any, kind: type[Function] | tuple[type[Function], ...], what: str) -> None:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(func, kinds):
        names = " or ".join(k.__name__ for k in kinds)
        got = f"the class {func.__name__}" if isinstance(func, type) else type(func).__name__
        raise TypeMismatchError(f"{what} takes a {names}, got {got}")
    check_inherits(func)


def checked_parallelism(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(f"'{where}': parallelism must be a positive int, got {value!r}")
    return value


class OperatorSettings(WithoutJava):
    """What streams and sinks share. Every setter returns the object that it was called on."""

    _env: StreamExecutionEnvironment

    def _node(self, what: str) -> Node:
        """The operator that a call such as ``what`` is about."""
        raise NotImplementedError

    def name(self, name: str) -> Self:
        self._node("name()").name = name
        return self

    def uid(self, uid: str) -> Self:
        """A name for the operator's state that survives changes of the program."""
        self._node("uid()").uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        self._node("set_uid_hash()").uid_hash = uid_hash
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        node = self._node("set_parallelism()")
        node.parallelism = checked_parallelism(parallelism, node.name)
        return self

    def disable_chaining(self) -> Self:
        self._node("disable_chaining()").never_chained = True
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        self._env._without_effect("slot_sharing_group", "Spark schedules the tasks")
        return self

    def set_description(self, description: str) -> Self:
        self._node("set_description()").description = description
        return self


class DataStreamSink(OperatorSettings):
    """Names and sets up the operator at the end of a stream."""

    def __init__(self, env: StreamExecutionEnvironment, node: Node) -> None:
        self._env = env
        self._sink = node

    def __repr__(self) -> str:
        return f"<DataStreamSink '{self._sink.name}'>"

    def _node(self, what: str) -> Node:
        return self._sink


# -- streams that are no operator: setting one raises, and says where to set it

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
