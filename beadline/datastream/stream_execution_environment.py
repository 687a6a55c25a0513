from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beadline.common import Configuration, JobClient, JobExecutionResult, WatermarkStrategy
from beadline.common.typeinfo import TypeInformation, Types
from beadline.connectors.cache import Cache
from beadline.connectors.collections import CollectionSource, SequenceSource
from beadline.connectors.file_source.text import TextFileSource
from beadline.connectors.source import as_source
from beadline.datastream.data_stream import DataStream
from beadline.datastream.environment import options, unexecuted
from beadline.datastream.environment.lending import lends
from beadline.datastream.environment.settings import EnvironmentSettings
from beadline.datastream.environment.typed_collections import typed_elements
from beadline.datastream.streams.cached import resolve_caches
from beadline.datastream.streams.source import SourceStream
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError
from beadline.graph.plan import Plan, execution_plan, flow_order, make_plan, without_sink
from beadline.graph.program import DEFAULT_JOB_NAME, this_program
from beadline.graph.specs import Edge, Forward, Node, SourceSpec, Spec
from beadline.master import definition, engines
from beadline.master.client.control import MasterControl
from beadline.master.client.presence import presence
from beadline.master.client.signals import guard, wait_for_end
from beadline.master.job import JobMaster
from beadline.master.reporting import telling
from beadline.master.reporting.guarantee import guarantee_of
from beadline.master.reporting.news import Listener, News, StepReport, Watcher
from beadline.master.shipping.dependencies import (
    Dependencies,
    FileToCache,
    PythonArchive,
    Requirements,
    local_path,
    python_file,
)
from beadline.master.snapshots.home import find_beginning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
else:
    __getattr__ = lends(
        __name__,
        "beadline.datastream.environment.settings",
        "beadline.datastream.functions",
        "beadline.datastream.connectors.base",
        "beadline.datastream.utils",
        "beadline.common",
        "beadline.common.io",
    )

__all__ = ["StreamExecutionEnvironment"]

_LOG = logging.getLogger("beadline")


class StreamExecutionEnvironment(EnvironmentSettings):
    """Builds programs and runs them on Spark.

    It uses the active SparkSession if there is one, and makes a local one otherwise. Nothing is started before
    ``execute``.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self._pending: list[Node] = []
        self._numbers = 0
        self._watchers: list[Watcher] = []
        self._dependencies = Dependencies()
        self._jars: list[str] = []
        self._caches: list[Cache] = []

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment with the given settings, and those of the command line."""
        return StreamExecutionEnvironment(configuration)

    def __repr__(self) -> str:
        return f"<StreamExecutionEnvironment, parallelism {self.get_parallelism()}, {len(self._pending)} operators>"

    # -- dependencies

    def add_python_file(self, file_path: str) -> None:
        """Ship a module, a folder or an archive of modules (``.zip``, ``.whl``, ``.egg``) to the workers and put it on
        their path. The last one added is found first.

        A folder is itself put on the path. If it is a package, it can be imported by its name too.
        """
        self._dependencies.python_files.insert(0, python_file(file_path))

    def set_python_executable(self, python_exec: str) -> None:
        """The Python of the workers; must be called before the Spark session exists."""
        self._configuration.set_string(options.PYTHON_EXECUTABLE, python_exec)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Install the packages of a requirements file for the workers: once, on this machine, and ship them.

        :param requirements_cache_dir: a folder with the packages' files, as ``pip download`` makes it. With it, no
            package index is asked.
        """
        self._dependencies.requirements = Requirements.checked(requirements_file_path, requirements_cache_dir)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Ship an archive and unpack it for the workers. Functions find its contents as ``target_dir/...`` in their
        working directory.

        :param target_dir: by default the archive's file name
        """
        self._dependencies.archives.append(PythonArchive.checked(archive_path, target_dir))

    def add_jars(self, *jars_path: str) -> None:
        """Accepted, and not needed: connectors are written in Python here."""
        self._jars.extend(jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accepted, and not needed: connectors are written in Python here."""
        self._jars.extend(classpaths)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Ship a file or folder to the workers. Functions find it with
        ``runtime_context.get_distributed_cache().get_file(name)``."""
        path = local_path(file_path, "register_cached_file()")
        self._dependencies.cached_files.append(FileToCache(path, name, executable))

    # -- sources

    def from_collection(self, collection: list[Any], type_info: TypeInformation | None = None) -> DataStream:
        """The elements of a list, in order, from a source of parallelism one."""
        output = type_info if type_info is not None else Types.PICKLED_BYTE_ARRAY()
        lenient = self._configuration.get_boolean(options.LENIENT_TYPES, False)
        elements = typed_elements(collection, type_info, lenient)
        spec = SourceSpec(CollectionSource(elements), typed=True)
        node = self._add_node("Collection Source", spec, output, [])
        node.single = True
        return self._stream(node)

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        return self.from_collection(list(elements), type_info)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """The numbers from ``start`` to ``end``, both included."""
        spec = SourceSpec(SequenceSource(start, end), typed=True)
        return self._stream(self._add_node("Sequence Source", spec, Types.LONG(), []))

    def from_source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Read from a connector's source, or from a reader of PySpark's streaming data source API.

        A source with parts, such as the partitions of Kafka, has a watermark generator for each of them.
        """
        return self._source_stream(source, watermark_strategy, source_name, type_info)

    def _source_stream(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None,
        call: str = "from_source",
    ) -> DataStream:
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeMismatchError(
                f"{call}(…, source_name={source_name!r}) needs a WatermarkStrategy as watermark_strategy, got "
                f"{watermark_strategy!r}. For a program without event time that is WatermarkStrategy.no_watermarks()."
            )
        made = as_source(source, call)
        own_type = getattr(source, "_produced_type", None)
        produced = type_info or own_type or Types.PICKLED_BYTE_ARRAY()
        spec = SourceSpec(made, typed=produced == own_type and getattr(source, "_keeps_its_type", True))
        node = self._add_node(source_name, spec, produced, [])
        node.single = made.single
        stream = self._stream(node)
        if watermark_strategy.kind == "none":
            if watermark_strategy.alignment is not None:
                raise ConfigurationError(
                    f"source '{source_name}': with_watermark_alignment({watermark_strategy.alignment.group!r}, …) "
                    "compares watermarks, and this strategy makes none. Start from for_monotonous_timestamps(), "
                    "for_bounded_out_of_orderness() or for_generator()."
                )
            if watermark_strategy.timestamp_assigner is None:
                return stream
        timed = stream._with_event_time(watermark_strategy, at_source=True)
        # Settings that the program makes on the stream belong to the source.
        return SourceStream(self, timed, node)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """The lines of a file or folder (PyFlink 1.x)."""
        spec = SourceSpec(TextFileSource([file_path], charset_name), typed=True)
        return self._stream(self._add_node("Text File Source", spec, Types.STRING(), []))

    def from_dataframe(self, df: DataFrame, type_info: TypeInformation | None = None) -> DataStream:
        """The rows of a Spark DataFrame, materialised once."""
        from beadline.datastream.environment.dataframes import from_dataframe

        return from_dataframe(self, df, type_info)

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        """Read from a connector of PyFlink 1.x, or from whatever ``from_source`` takes; event time begins later, with
        ``assign_timestamps_and_watermarks``."""
        return self._source_stream(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info, "add_source")

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Read with an input format, such as ``AvroInputFormat(path, schema)``."""
        make = getattr(input_format, "_make_source", None)
        if make is None:
            raise UnsupportedFeatureError(
                f"create_input() takes an AvroInputFormat, got {input_format!r}. For others use from_source()"
            )
        own_type = input_format.get_produced_type()
        produced = type_info or own_type
        spec = SourceSpec(make(), typed=produced == own_type)
        return self._stream(self._add_node("Custom File Source", spec, produced, []))

    # -- execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait for its end.

        Ctrl-C and SIGTERM end the job. If its checkpoints are in files, it takes a last one to resume from, keeps it
        whatever their retention, and the program exits with 0.
        """
        try:
            return wait_for_end(self._start(job_name))
        except Exception as error:
            raise telling.bare(error)  # noqa: B904 (it is the same error)

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Start the program and go on."""
        return JobClient(self._start(job_name))

    def get_execution_plan(self) -> str:
        """The program so far as JSON, in the shape that Flink's plan visualizer reads."""
        plan = self._plan(None)
        described = {node.id: node.description for node in flow_order(self._pending) if node.description is not None}
        settings = options.job_settings(self._configuration, self._is_batch())
        return execution_plan(plan, described, guarantee=str(guarantee_of(plan, settings)))

    def close(self) -> None:
        """Forget what was declared and not run, and delete what was cached. The Spark session stays."""
        unexecuted.forget(self)
        self._pending.clear()
        for cache in self._caches:
            cache.clear()

    def add_step_listener(self, listener: Listener) -> None:
        """Hear of every sealed step: records, time, keys, size of state."""

        def steps_only(event: News) -> None:
            if isinstance(event, StepReport):
                listener(event)

        self._watchers.append(steps_only)

    def add_event_listener(self, watcher: Watcher) -> None:
        """Hear of all that happens to the job: sealed steps, phases of checkpoints, failures, restarts, its status.

        It is called in the job's own thread, which waits for it. :mod:`beadline.master.reporting.news` has the events.
        """
        self._watchers.append(watcher)

    # -- inside

    def _start(self, job_name: str | None, collected: Callable[[str, list[Any]], None] | None = None) -> MasterControl:
        telling.install()
        plan = self._plan(job_name)
        self._pending.clear()
        executable = self._configuration.get_string(options.PYTHON_EXECUTABLE, None)
        for text in [*options.without_effect(self._configuration), *self._notes.values(), *without_sink(plan)]:
            _LOG.warning("%s", text)
        jars = [*self._jars, *options.jars(self._configuration)]
        if jars:
            named = ", ".join(dict.fromkeys(os.path.basename(jar) for jar in jars))
            _LOG.info("connectors are written in Python here and need no jars; these are not used: %s", named)
        dependencies = self._all_dependencies()
        _check_executable(executable, dependencies)
        settings = options.job_settings(self._configuration, self._is_batch(), dependencies)
        engine = self._engine()
        definition.reached(plan, settings)
        # Before Spark is started, so that errors come at once.
        beginning = find_beginning(settings.checkpoints, plan.job_name, plan.program)
        if executable is not None and engine == engines.LOCAL:
            _LOG.warning("set_python_executable(%r) has no effect: the local engine runs functions here", executable)
        elif executable is not None:
            os.environ["PYSPARK_PYTHON"] = executable
        watchers = list(self._watchers)
        master = JobMaster(plan, engines.make_engine(engine), settings, collected, watchers, beginning, presence.leave)
        guard.take_over()
        presence.enter(master, engine)
        master.start()
        return MasterControl(master)

    def _engine(self) -> str:
        return engines.chosen(self._configuration.get_string(options.ENGINE, None))

    def _all_dependencies(self) -> Dependencies:
        own = self._dependencies
        found = Dependencies(
            [*own.python_files, *options.python_files(self._configuration)],
            [*own.archives, *options.python_archives(self._configuration)],
            own.requirements or options.python_requirements(self._configuration),
            list(own.cached_files),
        )
        found.check()
        return found

    def _plan(self, job_name: str | None) -> Plan:
        unexecuted.forget(self)
        name = job_name or self._configuration.get_string(options.JOB_NAME, None) or DEFAULT_JOB_NAME
        max_parallelism = self._configuration.get_integer(options.MAX_PARALLELISM, -1)
        plan = make_plan(
            name,
            resolve_caches(self._pending, self._next_number, self._is_batch()),
            self.get_parallelism(),
            max_parallelism if max_parallelism > 0 else None,
            self.is_chaining_enabled(),
            options.job_parameters(self._configuration, self._config),
            not self._configuration.get_boolean(options.AUTO_UIDS, True),
            self._configuration.get_boolean(options.STRICT_TYPES, False),
        )
        return replace(plan, program=this_program(plan))

    def _add_node(
        self, name: str, spec: Spec, output_type: TypeInformation, edges: list[Edge], parallelism: int | None = None
    ) -> Node:
        made_at = telling.place_in_program()
        node = Node(self._next_number(), name, spec, output_type, edges, parallelism, made_at=made_at)
        self._pending.append(node)
        unexecuted.note(self, name, made_at)
        return node

    def _stream(self, node: Node) -> DataStream:
        return DataStream(self, [Edge(node, Forward())], node.output_type)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers


def _check_executable(executable: str | None, dependencies: Dependencies) -> None:
    for archive in dependencies.archives:
        if executable is not None and executable.startswith(archive.target + "/"):
            raise UnsupportedFeatureError(
                f"set_python_executable({executable!r}): the workers' Python can't come from an archive of the job, "
                "which is unpacked only after they have started. Use spark-submit --archives "
                f"{archive.path}#environment --conf spark.pyspark.python=environment/bin/python"
            )
