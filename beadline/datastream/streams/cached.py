from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from beadline.api.output_tag import OutputTag
from beadline.common._types.base import same
from beadline.connectors.cache import Cache, CacheSink, CacheSource
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.operator_settings import refuse_settings
from beadline.errors import ConfigurationError, GraphError
from beadline.graph.plan import flow_order
from beadline.graph.specs import CacheSpec, Edge, Forward, FunctionSpec, Node, SinkSpec, SourceSpec
from beadline.master import engines

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


class CachedDataStream(DataStream):
    """A bounded stream that is computed once: the first job that uses it keeps its elements, later jobs of the same
    environment read them.

    Elements keep their timestamps and, within a subtask, their order. Watermarks are not kept: for a later job event
    time ends with the stream, as in batch mode.
    """

    def __init__(self, origin: DataStream) -> None:
        env = origin._env
        self._cache = Cache(lambda: _new_folder(env))
        env._caches.append(self._cache)
        before = origin._edges[0].source
        number = env._next_number()
        # Not among the operators that the environment runs: it is computed when something downstream is.
        node = Node(
            number,
            "Cache",
            CacheSpec(self._cache),
            origin._type,
            origin._input_edges(),
            before.parallelism,
            uid=f"cache-{number}",  # the program can't give it one
            single=before.single and len(origin._edges) == 1,
        )
        super().__init__(env, [Edge(node, Forward())], origin._type)

    def invalidate(self) -> None:
        """Delete what is kept. The next job that uses the stream computes it again."""
        self._cache.clear()

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        raise GraphError(
            f"a cached stream has no side output '{output_tag.tag_id}': call get_side_output() before cache()"
        )


refuse_settings(CachedDataStream, "call it on the stream before cache().")


def resolve_caches(nodes: Iterable[Node], next_number: Callable[[], int], batch: bool) -> list[Node]:
    """The program of one job: cached streams that are complete become sources, the others also get a sink.

    The user's graph stays as it is; another job may find a cache in another state.
    """
    nodes = list(nodes)
    ordered = flow_order(nodes)
    if not any(isinstance(node.spec, CacheSpec) for node in ordered):
        return nodes
    made: dict[int, Node] = {}
    wanted = {node.id for node in nodes}
    sinks: list[Node] = []
    for node in ordered:
        inputs = [replace(edge, source=made[edge.source.id]) for edge in node.inputs]
        made[node.id] = copy = replace(node, inputs=inputs)
        if not isinstance(node.spec, CacheSpec):
            continue
        frames = node.spec.cache.frames()
        if frames is not None:
            copy.spec, copy.inputs = SourceSpec(CacheSource(frames), typed=True), []
            copy.parallelism, copy.single = len(frames), False
        else:
            copy.spec = FunctionSpec("map", same, keyed=False)
            sinks.append(
                Node(
                    next_number(),
                    "Cache: Writer",
                    SinkSpec(CacheSink(node.spec.cache)),
                    node.output_type,
                    [Edge(copy, Forward())],
                    copy.parallelism,
                    uid=f"cache-{node.id}-writer",
                    single=copy.single,
                )
            )
    program = [made[number] for number in sorted(wanted)]
    used = {node.id for node in flow_order(program)}
    sinks = [sink for sink in sinks if sink.inputs[0].source.id in used]
    if not batch:
        _check_bounded(sinks)
    return program + sinks


def _check_bounded(sinks: list[Node]) -> None:
    for node in flow_order(sinks):
        if isinstance(node.spec, SourceSpec) and not node.spec.source.bounded:
            raise ConfigurationError(
                f"cache() keeps a whole stream, and the source '{node.name}' never ends: use a bounded source, or "
                "env.set_runtime_mode(RuntimeExecutionMode.BATCH) to read what is there now"
            )


def _new_folder(env: StreamExecutionEnvironment) -> str:
    one_machine = engines.on_one_machine(env._engine())
    return env._make_folder(one_machine, "cache()", "the elements", "beadline-cache-")
