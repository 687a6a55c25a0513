"""Runs a job's tasks on Spark: a step is one Spark job, and short tasks are jobs of their own."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from beadline.errors import BeadlineError, EngineLostError
from beadline.graph.plan import Plan
from beadline.master.engines.engine import Deployment, Descriptor, Engine
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.shipping.shipment import make_shipment
from beadline.master.spark.liveness import Liveness, nothing_to_say
from beadline.master.spark.session import is_local, on_one_machine
from beadline.master.spark.shipping import ship_modules
from beadline.master.spark.worker_python import set_up_error
from beadline.runtime.exchange.rows import ACK, DRIVER, SPARK_SCHEMA
from beadline.runtime.messages import StepHeader, TaskAck
from beadline.runtime.task.entry import LevelCall, farewell
from beadline.runtime.worker.surroundings import Packed, Surroundings, call_on_each
from beadline.state.disks import FREE_SPACE

_COLUMNS = ("dest", "target", "channel", "seq", "kind", "payload")
# Above this, what a step's tasks need to know is broadcast instead of riding in the closure.
_CLOSURE_LIMIT = 48 << 10
# In an error of the JVM's where a Python function has raised.
_RAISED = "org.apache.spark.api.python.PythonException"
_SURROUNDINGS = "BEADLINE_SURROUNDINGS"

_STEP_SESSION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": "false",
    # With it, steps and the tasks alongside them have two kinds of Python workers. The second kind then starts with the
    # first merge: for more than a second all tasks wait, and their libraries are in memory twice.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

# What a context's Python functions are to find in their environment is one dictionary for all threads.
_environment = threading.Lock()
_added: set[tuple[str, str]] = set()


class SparkEngine(Engine):
    """A Spark session that runs tasks, in workers of some surroundings."""

    keep_alive = 45.0  # Spark ends Python workers that idle for a minute

    def __init__(self, session: SparkSession) -> None:
        self.user_session = session
        self.context: SparkContext = session.sparkContext
        self._liveness = Liveness(self.context)
        self.surroundings = Surroundings()
        with self._liveness.watched():
            self.session = session.newSession()
            for key, value in _STEP_SESSION.items():
                self.session.conf.set(key, value)
            self._application = str(self.context.applicationId)
        nothing_to_say.clear()

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process, so that placement can't matter."""
        return is_local(self.user_session)

    @property
    def application(self) -> str:
        """As Spark's pages, YARN and Kubernetes name it."""
        return self._application

    @property
    def one_machine(self) -> bool:
        return on_one_machine(self.user_session)

    @property
    def slots(self) -> int:
        with self._liveness.watched():
            return max(1, self.context.defaultParallelism)

    @property
    def loss(self) -> str | None:
        return self._liveness.loss

    def ask(self) -> str | None:
        return self._liveness.ask()

    def explain(self, error: Exception) -> Exception | None:
        return set_up_error(self, error)

    def lost_work(self, error: Exception) -> bool:
        raised = isinstance(error, PythonException) or _RAISED in str(error)
        return not raised and not isinstance(error, BeadlineError)

    def advice(self, error: Exception) -> str:
        if "java.io.IOException: No space left on device" not in str(error):
            return ""
        folder = os.environ.get("SPARK_LOCAL_DIRS") or self.context.getConf().get("spark.local.dir", "/tmp")
        return (
            f". The full folder is Spark's own, spark.local.dir ({folder}), where it keeps what its tasks "
            f"exchange. {FREE_SPACE}"
        )

    def warnings(self) -> list[str]:
        """Warnings about settings of a session that Beadline did not make."""
        conf = self.context.getConf()
        found = []
        if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
            found.append(
                "spark.dynamicAllocation.enabled=true: Spark removes idle executors, and their "
                "cached state is lost with them"
            )
        if not self.is_local and conf.get("spark.shuffle.reduceLocality.enabled", "true") != "false":
            found.append(
                "spark.shuffle.reduceLocality.enabled is not false: subtasks may move between "
                "executors and reload their state"
            )
        if not self.one_machine:
            found.append(
                "keyed state lives in Python workers, outside of spark.executor.memory: "
                "give spark.executor.memoryOverhead room for (cores of an executor) x (its share of the state)"
            )
        return found

    def add_python_file(self, path: str) -> None:
        """Put an archive on every worker's path, once per session."""
        self._add_once(path, self.context.addPyFile)

    def add_archive(self, path: Path) -> str:
        """Have an archive unpacked on every machine, once per session; the name that workers find it by."""
        self._add_once(str(path), self.context.addArchive)
        return path.name

    def _add_once(self, path: str, add: Callable[[str], None]) -> None:
        key = self._application, os.path.basename(path)
        if key not in _added:
            with self._liveness.watched():
                add(path)
            _added.add(key)

    @contextlib.contextmanager
    def own_workers(self) -> Iterator[None]:
        """Functions that are handed to Spark in this block run in workers of these surroundings only. Spark pools
        workers by their environment: in those of other surroundings, other modules of the same names may have been
        imported."""
        with _environment:
            environment = self.context.environment
            before = environment.get(_SURROUNDINGS)
            environment[_SURROUNDINGS] = self.surroundings.name
            try:
                yield
            finally:
                if before is None:
                    del environment[_SURROUNDINGS]
                else:
                    environment[_SURROUNDINGS] = before

    def map_in_arrow(self, df: DataFrame, function: Callable[[Any], Any], schema: Any) -> DataFrame:
        with self.own_workers():
            return df.mapInArrow(function, schema)

    def broadcast(self, data: bytes | Packed) -> Any:
        with self._liveness.watched():
            return self.context.broadcast(data)

    def anchors(self, widths: Iterable[int]) -> dict[int, DataFrame]:
        """One tiny persisted row per subtask. Joined with the exchanged chunks it fixes the executor of a subtask."""
        if self.is_local:
            return {}
        made = {}
        with self._liveness.watched():
            for width in set(widths):
                ids = self.session.range(0, width, 1, width).select(f.col("id").cast("int").alias("dest"))
                anchor = ids.repartitionById(width, f.col("dest")).persist()
                anchor.count()
                made[width] = anchor
        return made

    def in_group(self, group: str, description: str, interrupt: bool = True) -> None:
        """Name the Spark jobs of the calling thread. Their tasks are interrupted when the job is given up: one that
        asks for a shuffle that is already cleaned up gets no answer, and would hold its slot for two minutes."""
        with self._liveness.watched():
            self.context.setJobGroup(group, description, interruptOnCancel=interrupt)

    def cancel(self, group: str) -> None:
        with contextlib.suppress(EngineLostError), self.watched():
            self.context.cancelJobGroup(group)

    def wait_until_quiet(self, group: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        with contextlib.suppress(EngineLostError), self.watched():
            while self._active_tasks(group) and time.monotonic() < deadline:
                time.sleep(0.05)

    def _active_tasks(self, group: str) -> int:
        tracker = self.context.statusTracker()
        jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
        stages = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    def deploy(self, plan: Plan, dependencies: Dependencies, group: str) -> Deployment:
        ship_modules(self, dependencies)
        return SparkDeployment(self, plan, self.broadcast(make_shipment(plan, self.surroundings)), group)

    def run_each(
        self,
        function: Callable[[Any], Any],
        items: list[Any],
        group: str = "",
        what: str = "",
        width: int | None = None,
    ) -> list[Any]:
        if not items:
            return []
        with self._liveness.watched():
            if group:
                self.in_group(group, what)
            slices = min(len(items), width or self.slots)
            pickled = [cloudpickle.dumps(item, 5) for item in items]
            with self.own_workers():
                packed = Packed(self.surroundings, cloudpickle.dumps(function, 5))
                calls = self.context.parallelize(pickled, slices).mapPartitions(partial(call_on_each, packed))
                calls.id()  # which hands it to Spark
            return calls.collect()

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """An error in here is the loss of the engine, if the engine is lost."""
        return self._liveness.watched()


class SparkDeployment(Deployment):
    """Runs steps of one plan: one Spark job per step, one shuffle per cut."""

    def __init__(self, engine: SparkEngine, plan: Plan, shipment: Any, group: str) -> None:
        super().__init__(group, shipment)
        self._engine = engine
        self._job_name = plan.job_name
        self._widths = [plan.width(level) for level in range(len(plan.levels))]
        self._anchors = engine.anchors(self._widths[1:])

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        """The DataFrame is built again for every try: a second action on the same one replays old shuffle files."""
        packed = pickle.dumps(inputs, 5)
        with self._engine.watched():
            large = self._engine.broadcast(packed) if len(packed) > _CLOSURE_LIMIT else None
            self._engine.in_group(self.group, f"{self._job_name}: step {header.step}")
            try:
                table = self._dataframe(header, packed if large is None else large).toArrow()
            finally:
                if large is not None and self._engine.loss is None:
                    large.destroy()
        return _acks(table)

    def _dataframe(self, header: StepHeader, inputs: Any) -> DataFrame:
        first = self._widths[0]
        call = LevelCall(header, 0, first, self._shipment, inputs)
        ids = self._engine.session.range(0, first, 1, first)
        df = self._engine.map_in_arrow(ids, _function(call), SPARK_SCHEMA)
        for level, width in enumerate(self._widths[1:], start=1):
            df = df.repartitionById(width, f.col("dest"))
            anchor = self._anchors.get(width)
            if anchor is not None:
                # A left join: rows that only pass through may be for a subtask beyond this level's width.
                df = df.join(anchor.hint("shuffle_hash"), "dest", "left").select(*_COLUMNS)
            df = df.sortWithinPartitions("seq", "channel")
            call = LevelCall(header, level, width, self._shipment)
            df = self._engine.map_in_arrow(df, _function(call), SPARK_SCHEMA)
        return df

    def end(self, live: tuple[str, ...]) -> None:
        if self._engine.ask() is not None:
            return
        with contextlib.suppress(Exception):
            for anchor in self._anchors.values():
                anchor.unpersist()
            self._shipment.destroy()
        with contextlib.suppress(Exception):  # workers that no task reaches do it with their next step
            slots = self._engine.slots
            ids = self._engine.session.range(0, slots, 1, slots)
            self._engine.map_in_arrow(ids, partial(farewell, live), "id long").toArrow()


def _function(call: LevelCall) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return call(batches)

    return level


def _acks(table: pa.Table) -> list[TaskAck]:
    columns = (table.column(name).to_pylist() for name in ("target", "kind", "payload"))
    rows = zip(*columns, strict=True)
    return [pickle.loads(payload) for target, kind, payload in rows if target == DRIVER and kind == ACK]
