"""Spark sessions: the active one, or a quiet one of our own; and which of Spark's messages reach the terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from beadline.errors import EnvironmentSetupError
from beadline.master.reporting import telling
from beadline.master.reporting.telling import is_machinery, verbose
from beadline.master.spark import class_archive
from beadline.master.spark.liveness import nothing_to_say

_OLDEST_JAVA = 17

# The JVM shares its cores with the Python workers, which do the work: it moves bytes and plans steps. Its optimising
# compiler, a concurrent collector, and compressing what only crosses a local disk cost more than they give.
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

# ``spark-submit`` has started the JVM before the program, and tells it where that listens. The options of the command
# line are there already: whoever names a master here would overrule --master without a word.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def check_java() -> None:
    """One sentence if Java is missing or too old."""
    home, java = os.environ.get("JAVA_HOME"), class_archive.java_command()
    advice = f"Install a JDK or JRE {_OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise EnvironmentSetupError(f"Spark needs Java, and {where}. {advice} or set JAVA_HOME.")
    found = re.match(r"(?:1\.)?(\d+)", java_version(java))
    if found is not None and int(found.group(1)) < _OLDEST_JAVA:
        raise EnvironmentSetupError(
            f"Spark needs Java {_OLDEST_JAVA} or newer, but {java} is Java {found.group(1)}. {advice}."
        )


def java_version(java: str) -> str:
    """What a Java says of itself; empty if it does not."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found.group(1) if found is not None else ""


def find_session(java_options: str | None = None, spare_slots: bool = False) -> SparkSession:
    """The active session if there is one; under ``spark-submit`` one with the options that were given to it; else a
    quiet, loopback-only ``local[*]`` one with these Java options. ``spare_slots``: a new one has more slots than cores,
    because resident workers hold one per core; work on Spark is still cut for the cores."""
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
    if os.environ.get(_SUBMITTED):
        return SparkSession.builder.getOrCreate()
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    master, options = os.environ.get("BEADLINE_MASTER"), dict(_OWN_SESSION)
    if master is None and spare_slots:
        cores = os.cpu_count() or 1
        master, options["spark.default.parallelism"] = f"local[{2 * cores + 2}]", str(cores)
    builder = SparkSession.builder.appName("beadline").master(master or "local[*]")
    # A task that fails is run again, or its error reaches the driver; Java's stack trace would bury that.
    level = "ERROR" if verbose() else "OFF"
    for key, value in {**options, "spark.log.level": level}.items():
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
    One that has set the level of py4j's logger did, or does so later: its level stays. So did whoever wants to see
    everything."""
    logger = logging.getLogger("py4j")
    if logger.level == logging.NOTSET and not verbose():
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
    that were closed because their task was given up. Everything else goes on to this process's standard error, for as
    long as the JVM lives: what user code writes in the workers comes that way too."""
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
                with telling.around_writes(line.endswith(b"\n")):
                    os.write(target, line)


def without_noise(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The part of the standard error of Spark and its workers that a user wants to see. A traceback is held back until
    it is whole. It is dropped if all frames are Spark's and Python's own, and it ends in a broken connection."""
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


def active_slots(but_local: bool = False) -> int | None:
    """The slots of the active session, if there is one; ``but_local``: unless it is this process."""
    active = SparkSession.getActiveSession()
    if active is None or not hasattr(active, "_jsparkSession") or (but_local and is_local(active)):
        return None
    return max(1, active.sparkContext.defaultParallelism)


def is_local(session: SparkSession) -> bool:
    """Whether driver and executors are one process."""
    return re.fullmatch(r"local(\[.*\])?", str(session.sparkContext.master)) is not None


def on_one_machine(session: SparkSession) -> bool:
    """Whether the executors are on the driver's machine."""
    return str(session.sparkContext.master).startswith("local")
