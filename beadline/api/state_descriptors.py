"""Descriptors: the name, the type and the lifetime of a piece of state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beadline.api.function import AggregateFunction, CallableReduceFunction, ReduceFunction
from beadline.api.state_ttl import StateTtlConfig
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import ConfigurationError, TypeMismatchError


@dataclass(frozen=True)
class StateMigration:
    """How values of an old type become values of a descriptor's type."""

    old_type: TypeInformation
    function: Callable[[Any], Any]


class StateDescriptor:
    """Base of all descriptors. The name identifies the state within its operator, also across restarts.

    :ivar type_info: the type that is stored: for list and map state the whole list or map
    """

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not isinstance(name, str):
            raise TypeMismatchError(
                f"The name of a {type(self).__name__} must be a str, not {type(name).__name__}: {name!r}."
            )
        if not name:
            raise ConfigurationError(f"A {type(self).__name__} needs a name that is not empty.")
        self.name = name
        self.type_info = self._checked_type("type", type_info)
        self._ttl_config: StateTtlConfig | None = None
        self._migrations: tuple[StateMigration, ...] = ()

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets entries expire; call it before you get the state in ``open``."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeMismatchError(
                f"State {self.name!r}: enable_time_to_live takes a StateTtlConfig, "
                f"not {type(ttl_config).__name__}: {ttl_config!r}. Make one with "
                f"StateTtlConfig.new_builder(Time.hours(1)).build()."
            )
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """How entries expire, ``None`` if they are kept until they are cleared."""
        return self._ttl_config if self._ttl_config is not None and self._ttl_config.is_enabled() else None

    def migrate_from(self, old_type: TypeInformation, function: Callable[[Any], Any]) -> None:
        """Says how to convert state that a snapshot holds with another type, if Beadline can't convert it by itself.

        When the job starts from a snapshot in which the state has the type ``old_type``, ``function`` is called once
        for each value in it (each element of a list, each value of a map) and gives the value of the new type. Call
        this before you get the state in ``open``; call it once for each old type.

        :param old_type: the type the state was declared with; ``Types.PICKLED_BYTE_ARRAY()`` if it was not. For a
            class that has changed since, a copy of the old class or a row with its fields
        :param function: runs in the workers. It is not called for None in a map, which stays None
        """
        if not callable(function):
            raise TypeMismatchError(
                f"State {self.name!r}: migrate_from takes a function of the old value, "
                f"not {type(function).__name__}: {function!r}."
            )
        self._migrations += (StateMigration(self._checked_type("old type", old_type), function),)

    @property
    def migrations(self) -> tuple[StateMigration, ...]:
        return self._migrations

    def _checked_type(self, what: str, type_info: Any) -> TypeInformation:
        if isinstance(type_info, TypeInformation):
            return type_info
        name = getattr(self, "name", "?")
        hint = "Use a member of Types, for example Types.STRING() or Types.PICKLED_BYTE_ARRAY()."
        if callable(type_info) and hasattr(Types, getattr(type_info, "__name__", "")):
            hint = f"Types.{type_info.__name__} is missing its parentheses."
        raise TypeMismatchError(
            f"State {name!r}: the {what} of a {type(self).__name__} must be a TypeInformation, "
            f"not {type(type_info).__name__}: {type_info!r}. {hint}"
        )

    def __repr__(self) -> str:
        ttl = "" if self.ttl_config is None else f", ttl={self.ttl_config.ttl_ms} ms"
        return f"{type(self).__name__}({self.name!r}, {self.type_info}{ttl})"


class ValueStateDescriptor(StateDescriptor):
    """Describes one value per key: ``runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))``."""

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a list per key."""

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        self.name = name
        self.elem_type_info = self._checked_type("element type", elem_type_info)
        super().__init__(name, Types.LIST(elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes a map per key, or a broadcast state."""

    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.name = name
        self.key_type_info = self._checked_type("key type", key_type_info)
        self.value_type_info = self._checked_type("value type", value_type_info)
        super().__init__(name, Types.MAP(key_type_info, value_type_info))


class ReducingStateDescriptor(StateDescriptor):
    """Describes one value per key that added elements are folded into.

    :param reduce_function: a :class:`ReduceFunction`, or any callable of two values such as ``max``
    """

    def __init__(
        self, name: str, reduce_function: ReduceFunction | Callable[[Any, Any], Any], type_info: TypeInformation
    ) -> None:
        super().__init__(name, type_info)
        self._reduce_function = _as_reduce_function(name, reduce_function)

    def get_reduce_function(self) -> ReduceFunction:
        """The function that folds an element into the value; a plain callable comes back wrapped."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes one accumulator per key.

    :param state_type_info: the type of the accumulator, not of the elements or the result
    """

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeMismatchError(
                f"State {name!r}: the aggregate function must be an instance of AggregateFunction, "
                f"not {_described(agg_function)}."
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        return self._agg_function


def _as_reduce_function(name: str, function: Any) -> ReduceFunction:
    if isinstance(function, ReduceFunction):
        return function
    # A class is callable too, but calling ReduceFunction's subclass with two values would only fail at the first merge.
    if callable(function) and not (isinstance(function, type) and issubclass(function, ReduceFunction)):
        return CallableReduceFunction(function)
    raise TypeMismatchError(
        f"State {name!r}: the reduce function must be an instance of ReduceFunction or a callable of two values, "
        f"not {_described(function)}."
    )


def _described(function: Any) -> str:
    if isinstance(function, type):
        return f"the class {function.__name__} itself; write {function.__name__}()"
    return f"{type(function).__name__}: {function!r}"
