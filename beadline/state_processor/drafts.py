"""An operator of a savepoint in the making: what it was, and what is to change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, SnapshotError
from beadline.common.type_description import readable, type_to_text
from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError
from beadline.state.access.backend import TIMERS
from beadline.state.description import KEYED, OPERATOR, StateDescription
from beadline.state.key_groups import key_group_range
from beadline.state.segments.version import KeyedStateHandle, root_version
from beadline.state_processor.catalog import states_of

_SHAPES = {"list": (ArrayType, "an array, its elements"), "map": (MapType, "a map")}


@dataclass(frozen=True)
class StateInput:
    """A state and the DataFrame it is made of.

    The columns of keyed state: key, perhaps window, value, perhaps the time of the last write. Of operator state:
    elements, or keys and values.
    """

    state: StateDescription
    df: DataFrame


@dataclass(frozen=True)
class TimersInput:
    """Timers: key, perhaps window, domain, timestamp."""

    df: DataFrame
    windowed: bool


class OperatorDraft:
    """One operator.

    :ivar base: as it was, or a new one without state
    :ivar tables: keyed states that are new or replaced, by name
    :ivar lists: operator states that are new or replaced, by name
    """

    def __init__(self, base: OperatorSnapshot) -> None:
        self.base = base
        self.uid = base.uid
        self.max_parallelism = base.max_parallelism
        self.tables: dict[str, StateInput] = {}
        self.timers: TimersInput | None = None
        self.lists: dict[str, StateInput] = {}
        self.key_type = base.key_type
        self._removed: set[tuple[str, str]] = set()

    @property
    def parallelism(self) -> int:
        return min(self.base.parallelism, self.max_parallelism)

    def take_key_type(self, info: TypeInformation | None) -> None:
        """All keyed state of an operator has the same keys."""
        if info is None:
            return
        text = type_to_text(info)
        if self.key_type and text != self.key_type:
            raise ConfigurationError(
                f"the keys of operator '{self.uid}' are of type {readable(self.key_type)}, and key_type= says "
                f"{readable(text)}: all keyed state of an operator has the same keys"
            )
        self.key_type = text

    # -- states

    def description(self, scope: str, name: str) -> StateDescription | None:
        return next((s for s in self.descriptions() if (s.scope, s.name) == (scope, name)), None)

    def descriptions(self) -> Iterator[StateDescription]:
        """The states that it is going to have."""
        for state in states_of(self.base):
            replaced = self.tables if state.scope == KEYED else self.lists
            timers = self.timers is not None and state.name in TIMERS
            if state.name not in replaced and not timers and (state.scope, state.name) not in self._removed:
                yield state
        yield from (made.state for made in self.tables.values())
        yield from (made.state for made in self.lists.values())
        if self.timers is not None:
            for name, descriptor in TIMERS.items():
                yield StateDescription(name, "timer", descriptor=descriptor, namespaced=self.timers.windowed)

    def remove(self, name: str) -> None:
        found = [state for state in self.descriptions() if state.name == name]
        if not found:
            known = ", ".join(f"'{state.name}'" for state in self.descriptions()) or "none"
            raise SnapshotError(f"operator '{self.uid}' has no state named '{name}'; there is {known}")
        self._removed.update((state.scope, name) for state in found)
        self.tables.pop(name, None)
        self.lists.pop(name, None)

    @property
    def left_out(self) -> frozenset[str]:
        """Tables of keyed state that are not taken over."""
        gone = {name for scope, name in self._removed if scope == KEYED}
        return frozenset({*gone, *self.tables, *(TIMERS if self.timers is not None else ())})

    @property
    def rewrites_keys(self) -> bool:
        """Whether keyed state is rebuilt, instead of taken over as it is."""
        moved = self.max_parallelism != self.base.max_parallelism and any(self.base.keyed)
        return moved or bool(self.left_out)

    def left_out_lists(self) -> frozenset[str]:
        """Operator states that are not taken over."""
        return frozenset({*(name for scope, name in self._removed if scope == OPERATOR), *self.lists})

    # -- the operator that it becomes

    def shell(self) -> OperatorSnapshot:
        """The operator without the state that is rebuilt."""
        base, parallelism = self.base, self.parallelism
        made = replace(
            base,
            uid=self.uid,
            parallelism=parallelism,
            max_parallelism=self.max_parallelism,
            state_descriptions=tuple(self.descriptions()),
            key_type=self.key_type,
        )
        if parallelism != base.parallelism:
            made = replace(made, locals=(), next_timers=())
        if not self.rewrites_keys:
            return made
        origin = f"state-processor-{uuid.uuid4().hex}"
        groups = (key_group_range(subtask, parallelism, self.max_parallelism) for subtask in range(parallelism))
        handles = tuple(KeyedStateHandle(root_version(origin, self.uid, own)) for own in groups)
        return replace(made, keyed=handles, next_timers=(None,) * parallelism)


# -- checks of DataFrames, before any task runs


def check_columns(df: DataFrame, columns: list[str], owner: str) -> None:
    """The columns must be there."""
    if not isinstance(df, DataFrame):
        raise ConfigurationError(f"{owner} is made of a Spark DataFrame, got {type(df).__name__}")
    if df.isStreaming:
        raise ConfigurationError(f"{owner} is made of a bounded DataFrame, got a stream")
    missing = [name for name in columns if name not in df.columns]
    if missing:
        raise ConfigurationError(
            f"{owner}: the DataFrame has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, df.columns)) or 'none'}"
        )


def check_shape(df: DataFrame, value: str, kind: str, owner: str) -> None:
    """Lists come as arrays and maps as maps, one row for each key."""
    if kind not in _SHAPES:
        return
    wanted, what = _SHAPES[kind]
    found = df.schema[value].dataType
    if not isinstance(found, wanted):
        raise ConfigurationError(
            f"{owner} is a {kind} state: column '{value}' holds {what} of one key, and here it "
            f"is {found.simpleString()}"
        )
