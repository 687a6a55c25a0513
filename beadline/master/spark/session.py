"""The only module that talks to Spark: sessions, shipping, and the one job that a step is."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from beadline.errors import EngineLostError, EnvironmentSetupError
from beadline.graph.plan import Plan
from beadline.master.spark import class_archive
from beadline.master.spark.liveness import Engine, nothing_to_say
from beadline.master.telling import is_machinery, verbose
from beadline.runtime.entry import LevelCall, farewell, merge_in_worker
from beadline.runtime.exporting import Export, Exported, export_in_worker
from beadline.runtime.messages import MergeRequest, MergeResult, StepHeader, TaskAck
from beadline.runtime.migrate import Migrated, MigrationRequest, migrate_in_worker
from beadline.runtime.rows import ACK, DRIVER, SPARK_SCHEMA
from beadline.runtime.surroundings import Packed, Surroundings, call_on_each

_COLUMNS = ("dest", "target", "channel", "seq", "kind", "payload")
# Above this, what a step's tasks need to know is broadcast instead of riding in the closure.
_CLOSURE_LIMIT = 48 << 10
_OLDEST_JAVA = 17
_SURROUNDINGS = "BEADLINE_SURROUNDINGS"

# The JVM shares its cores with the Python workers, who do the work: it moves bytes and plans steps. Its optimising
# compiler, a collector that runs beside, and compressing what only crosses a local disk cost more than they give.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
_OWN_SESSION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.shuffle.compress": "false",
}

_STEP_SESSION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": "false",
    # With it, steps and the tasks beside them have Python workers of two kinds. Those beside them then start with the
    # first merge: for more than a second all tasks wait, and their libraries are in memory twice.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}


def check_java() -> None:
    """One sentence if Java is missing or too old."""
    home, java = os.environ.get("JAVA_HOME"), class_archive.java_command()
    advice = f"Install a JDK or JRE {_OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise EnvironmentSetupError(f"Spark needs Java, and {where}. {advice} or set JAVA_HOME.")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is not None and int(found.group(1)) < _OLDEST_JAVA:
        raise EnvironmentSetupError(
            f"Spark needs Java {_OLDEST_JAVA} or newer, but {java} is Java {found.group(1)}. {advice}."
        )


def find_session(java_options: str | None = None) -> SparkSession:
    """The active session if there is one, else a quiet, loopback-only ``local[*]`` one.

    :param java_options: more of these; by default those that make it start faster, if that was prepared
    """
    if os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_CONNECT_MODE_ENABLED"):
        raise EnvironmentSetupError(
            "Beadline needs a classic Spark session: Spark Connect gives no access to the "
            "SparkContext. Unset SPARK_REMOTE."
        )
    _quiet_py4j()
    active = SparkSession.getActiveSession()
    if active is not None:
        if not hasattr(active, "_jsparkSession"):
            raise EnvironmentSetupError(
                "Beadline needs a classic Spark session; the active one is a Spark Connect session."
            )
        return active
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("beadline").master(os.environ.get("BEADLINE_MASTER", "local[*]"))
    # A task that fails is run again, or its error reaches the driver; Java's account of it would bury that.
    level = "ERROR" if verbose() else "OFF"
    for key, value in {**_OWN_SESSION, "spark.log.level": level}.items():
        builder = builder.config(key, value)
    more = class_archive.options() if java_options is None else java_options
    builder = builder.config("spark.driver.extraJavaOptions", f"{_JAVA_OPTIONS} {more}".strip())
    with waiting_for("Spark starts"), _quiet_start():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel(level)
    return session


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """On a terminal, say what takes some seconds; the line goes when it is over."""
    terminal = sys.stderr.isatty()
    if terminal:
        sys.stderr.write(f"{what} …")
        sys.stderr.flush()
    try:
        yield
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _quiet_py4j() -> None:
    """A program that logs at INFO did not ask for each connection of the bridge to Spark's JVM that opens or closes.

    One that has set the level of py4j's logger did, or does so later: its level stays.
    """
    logger = logging.getLogger("py4j")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


_GREETINGS = (
    "Setting Spark log level to",
    "WARNING: Using incubator modules",
    "WARNING: package sun.security.action",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "To adjust logging level use",
)


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Start the JVM with its standard error on a pipe that drops Spark's greetings, and what its workers say of sockets
    that were closed because their task was given up.

    Everything else goes on to this process's standard error, for as long as the JVM lives: what user code writes in the
    workers comes that way too.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    threading.Thread(target=_pass_on, args=(reader, os.dup(saved)), name="spark-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _pass_on(source: int, target: int) -> None:
    with open(source, "rb") as lines:
        for line in without_noise(lines):
            if not nothing_to_say.is_set():
                os.write(target, line)


def without_noise(lines: Iterable[bytes]) -> Iterator[bytes]:
    """What a user wants to see of the standard error of Spark and its workers.

    A traceback is held back until it is whole. It is dropped if all frames are Spark's and Python's own, and it ends
    in a broken connection.
    """
    held: list[bytes] = []
    for line in lines:
        text = line.decode(errors="replace")
        if held:
            if text.startswith(" "):
                held.append(line)
                continue
            closed = text.startswith(_CLOSED) and all(_is_sparks(frame) for frame in held)
            if not closed:
                yield from (*held, line)
            held = []
        elif verbose():
            yield line
        elif text.startswith("Traceback (most recent call last)"):
            held.append(line)
        elif not text.startswith(_GREETINGS) and "NativeCodeLoader: Unable to load" not in text:
            yield line
    yield from held


_CLOSED = ("BrokenPipeError", "ConnectionResetError", "ConnectionAbortedError", "EOFError")


def _is_sparks(line: bytes) -> bool:
    return not line.startswith(b'  File "') or is_machinery(line.split(b'"')[1].decode(errors="replace"))


# What a context's Python functions are to find in their environment is one dictionary for all threads.
_environment = threading.Lock()
_added: set[tuple[str, str]] = set()


class Cluster:
    """A Spark session as the job master uses it.

    If the session is lost, what has a result raises :class:`~beadline.errors.EngineLostError`, and what only ends
    something does nothing: it has ended.

    :ivar surroundings: of the workers that run its tasks
    """

    def __init__(self, session: SparkSession) -> None:
        self.user_session = session
        self.context: SparkContext = session.sparkContext
        self.engine = Engine(self.context)
        self.surroundings = Surroundings()
        with self.engine.watched():
            self.session = session.newSession()
            for key, value in _STEP_SESSION.items():
                self.session.conf.set(key, value)
        nothing_to_say.clear()

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process, so that placement can't matter."""
        return re.fullmatch(r"local(\[.*\])?", str(self.context.master)) is not None

    @property
    def one_machine(self) -> bool:
        return str(self.context.master).startswith("local")

    @property
    def slots(self) -> int:
        with self.engine.watched():
            return max(1, self.context.defaultParallelism)

    def warnings(self) -> list[str]:
        """Settings of a session that was not made here and that Beadline minds."""
        conf = self.context.getConf()
        found = []
        if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
            found.append(
                "spark.dynamicAllocation.enabled=true: Spark takes idle executors away, and their "
                "cached state with them"
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
        """Put an archive on every worker's path, once a session."""
        self._add_once(path, self.context.addPyFile)

    def add_archive(self, path: Path) -> str:
        """Have an archive unpacked on every machine, once a session; the name that workers find it by."""
        self._add_once(str(path), self.context.addArchive)
        return path.name

    def _add_once(self, path: str, add: Callable[[str], None]) -> None:
        key = str(self.context.applicationId), os.path.basename(path)
        if key not in _added:
            with self.engine.watched():
                add(path)
            _added.add(key)

    @contextlib.contextmanager
    def own_workers(self) -> Iterator[None]:
        """Functions that are handed to Spark in this block run in workers of these surroundings only.

        Spark pools workers by their environment. In those of other surroundings, other modules of the same names may
        have been imported.
        """
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
        with self.engine.watched():
            return self.context.broadcast(data)

    def anchors(self, widths: Iterable[int]) -> dict[int, DataFrame]:
        """One tiny persisted row a subtask. Joined with the exchanged chunks it fixes the executor of a subtask."""
        if self.is_local:
            return {}
        made = {}
        with self.engine.watched():
            for width in set(widths):
                ids = self.session.range(0, width, 1, width).select(f.col("id").cast("int").alias("dest"))
                anchor = ids.repartitionById(width, f.col("dest")).persist()
                anchor.count()
                made[width] = anchor
        return made

    def in_group(self, group: str, description: str) -> None:
        """Name the Spark jobs of the calling thread.

        Their tasks are interrupted when the job is given up: one that asks for a shuffle that is already cleaned up
        gets no answer, and would hold its slot for two minutes.
        """
        with self.engine.watched():
            self.context.setJobGroup(group, description, interruptOnCancel=True)

    def cancel(self, group: str) -> None:
        with self._unless_lost():
            self.context.cancelJobGroup(group)

    def wait_until_quiet(self, group: str, timeout: float = 60.0) -> None:
        """No task of the group may be active before its work is done again: a task outlives the driver's exception."""
        with self._unless_lost():
            self._wait_until_quiet(group, timeout)

    def _wait_until_quiet(self, group: str, timeout: float) -> None:
        tracker = self.context.statusTracker()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            active = 0
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    stage_info = tracker.getStageInfo(stage)
                    active += stage_info.numActiveTasks if stage_info is not None else 0
            if active == 0:
                return
            time.sleep(0.05)

    def run_each(self, function: Callable[[Any], Any], items: list[Any], width: int | None = None) -> list[Any]:
        """Call a function on items in tasks; it may be called twice for an item."""
        if not items:
            return []
        with self.engine.watched():
            slices = min(len(items), width or self.slots)
            pickled = [cloudpickle.dumps(item, 5) for item in items]
            with self.own_workers():
                packed = Packed(self.surroundings, cloudpickle.dumps(function, 5))
                calls = self.context.parallelize(pickled, slices).mapPartitions(partial(call_on_each, packed))
                calls.id()  # which hands it to Spark
            return calls.collect()

    def say_farewell(self, live: tuple[str, ...]) -> None:
        """Let workers close and drop runs that have ended; those that no task reaches do it with their next step."""
        if self.engine.ask() is not None:
            return
        with contextlib.suppress(Exception):
            slots = self.slots
            ids = self.session.range(0, slots, 1, slots)
            self.map_in_arrow(ids, partial(farewell, live), "id long").toArrow()

    @contextlib.contextmanager
    def _unless_lost(self) -> Iterator[None]:
        with contextlib.suppress(EngineLostError), self.engine.watched():
            yield


class StepSubmitter:
    """Runs steps of one plan: one Spark job a step, one shuffle a cut."""

    def __init__(self, cluster: Cluster, plan: Plan, shipment: Any, group: str) -> None:
        self._cluster = cluster
        self._plan = plan
        self._shipment = shipment
        self.group = group
        self._widths = [plan.width(level) for level in range(len(plan.levels))]
        self._anchors = cluster.anchors(self._widths[1:])

    def run(self, header: StepHeader, inputs: list[tuple[int, int, bytes]]) -> list[TaskAck]:
        """Run one step and give the acknowledgements of its tasks.

        The DataFrame is built anew for every step and every try: a second action on the same one replays old shuffle
        files.
        """
        with self._cluster.engine.watched():
            return self._run(header, inputs)

    def _run(self, header: StepHeader, inputs: list[tuple[int, int, bytes]]) -> list[TaskAck]:
        packed = pickle.dumps(inputs, 5)
        large = self._cluster.broadcast(packed) if len(packed) > _CLOSURE_LIMIT else None
        self._cluster.in_group(self.group, f"{self._plan.job_name}: step {header.step}")
        try:
            table = self._dataframe(header, packed if large is None else large).toArrow()
        finally:
            if large is not None and self._cluster.engine.loss is None:
                large.destroy()
        return _acks(table)

    def _dataframe(self, header: StepHeader, inputs: Any) -> DataFrame:
        first = self._widths[0]
        call = LevelCall(header, 0, first, self._shipment, inputs)
        ids = self._cluster.session.range(0, first, 1, first)
        df = self._cluster.map_in_arrow(ids, _function(call), SPARK_SCHEMA)
        for level, width in enumerate(self._widths[1:], start=1):
            df = df.repartitionById(width, f.col("dest"))
            anchor = self._anchors.get(width)
            if anchor is not None:
                # A left join: rows that only pass through may be for a subtask beyond this level's width.
                df = df.join(anchor.hint("shuffle_hash"), "dest", "left").select(*_COLUMNS)
            df = df.sortWithinPartitions("seq", "channel")
            call = LevelCall(header, level, width, self._shipment)
            df = self._cluster.map_in_arrow(df, _function(call), SPARK_SCHEMA)
        return df

    def merger(self, header: StepHeader) -> Callable[[MergeRequest], MergeResult]:
        """What merges runs of state in a worker."""
        return partial(merge_in_worker, header, self._shipment)

    def migrate(self, header: StepHeader, requests: list[MigrationRequest]) -> list[Migrated]:
        """Rewrite state of changed types, before the first step."""
        self._cluster.in_group(self.group, f"{self._plan.job_name}: migrate state")
        return self._cluster.run_each(partial(migrate_in_worker, header, self._shipment), requests)

    def exporter(self, header: StepHeader) -> Callable[[tuple[Export, ...]], list[Exported]]:
        """What writes a share of a savepoint in a worker."""
        return partial(export_in_worker, header, self._shipment)

    def close(self) -> None:
        if self._cluster.engine.ask() is not None:
            return
        with contextlib.suppress(Exception):
            for anchor in self._anchors.values():
                anchor.unpersist()
            self._shipment.destroy()


def _function(call: LevelCall) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return call(batches)

    return level


def _acks(table: pa.Table) -> list[TaskAck]:
    acks = []
    for target, kind, payload in zip(
        table.column("target").to_pylist(),
        table.column("kind").to_pylist(),
        table.column("payload").to_pylist(),
        strict=True,
    ):
        if target == DRIVER and kind == ACK:
            acks.append(pickle.loads(payload))
    return acks


def active_parallelism(local: int | None = None) -> int:
    """The slots of the active session, or the cores of this machine if there is none.

    :param local: what to say instead if tasks run in this machine's one process, or nobody knows yet
    """
    active = SparkSession.getActiveSession()
    if active is not None and hasattr(active, "_jsparkSession") and (local is None or not Cluster(active).is_local):
        return max(1, active.sparkContext.defaultParallelism)
    return local or os.cpu_count() or 1
