"""Windows, their assigners and triggers, where PyFlink has them, with the names that it imports there."""

from beadline.api.function import ReduceFunction as ReduceFunction
from beadline.api.metrics import MetricGroup as MetricGroup
from beadline.api.output_tag import OutputTag as OutputTag
from beadline.api.runtime_context import RuntimeContext as RuntimeContext
from beadline.api.state import ReducingState as ReducingState
from beadline.api.state import State as State
from beadline.api.state_descriptors import ReducingStateDescriptor as ReducingStateDescriptor
from beadline.api.state_descriptors import StateDescriptor as StateDescriptor
from beadline.api.state_descriptors import ValueStateDescriptor as ValueStateDescriptor
from beadline.api.window_functions import IN as IN
from beadline.api.window_functions import KEY as KEY
from beadline.api.window_functions import OUT as OUT
from beadline.api.windows.assigner import W2 as W2
from beadline.api.windows.assigner import MergingWindowAssigner, SessionWindowTimeGapExtractor, WindowAssigner
from beadline.api.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from beadline.api.windows.trigger import T as T
from beadline.api.windows.trigger import Trigger, TriggerResult
from beadline.api.windows.trigger import W as W
from beadline.api.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from beadline.api.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
)
from beadline.common.constants import MAX_LONG_VALUE as MAX_LONG_VALUE
from beadline.common.constants import MIN_LONG_VALUE as MIN_LONG_VALUE
from beadline.common.serializer import TypeSerializer as TypeSerializer
from beadline.common.time import Time as Time
from beadline.common.typeinfo import Types as Types

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]
