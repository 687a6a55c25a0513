"""State, its descriptors and its time to live, where PyFlink has them."""

from beadline.api.state import IN as IN
from beadline.api.state import OUT as OUT
from beadline.api.state import (
    AggregatingState,
    AppendingState,
    BroadcastState,
    ListState,
    MapState,
    MergingState,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    ReducingState,
    State,
    ValueState,
)
from beadline.api.state import K as K
from beadline.api.state import T as T
from beadline.api.state import V as V
from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from beadline.api.state_ttl import StateTtlConfig
from beadline.common.time import Duration as Duration
from beadline.common.time import Time as Time
from beadline.common.typeinfo import TypeInformation as TypeInformation
from beadline.common.typeinfo import Types as Types

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
