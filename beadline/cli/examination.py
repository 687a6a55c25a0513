"""What ``beadline doctor`` looks at. Each check gives one finding, or several; none raises."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

import beadline
from beadline.common.configuration import Configuration
from beadline.errors import BeadlineError
from beadline.master import engines

OK, WARNING, PROBLEM = "ok", "warning", "problem"

_PYTHONS = ((3, 11), (3, 13))
_LIBRARIES = (
    "pyspark",
    "pyarrow",
    "pandas",
    "cloudpickle",
    "xxhash",
    "sortedcontainers",
    "typer",
    "rich",
    "fastapi",
    "uvicorn",
)
_EXTRAS = {"rocksdict": "rocksdb", "confluent-kafka": "kafka", "psycopg": "postgres", "duckdb": "sql"}
_LITTLE_SPACE = 1 << 30
_SKEW_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
# Earlier than the first release: such a clock was never set.
_EARLIEST = 1_735_689_600


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``advice`` says what to do, if something is to be done."""

    what: str
    status: str
    found: str
    advice: str = ""


def examine(configuration: Configuration, engine: str) -> list[Finding]:
    """All that a job on this engine needs, with these options."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _libraries,
        lambda: _java(engine),
        lambda: _spark(engine),
        lambda: _workers(configuration, engine),
        lambda: _options(configuration),
        lambda: _ports(configuration),
        lambda: _directories(configuration),
        _state_directory,
        _space,
        _clock,
        _jobs,
    ]
    findings = []
    for check in checks:
        try:
            findings += list(check())
        except Exception as error:
            findings.append(Finding("doctor", WARNING, f"a check failed: {error!r}", "Please report this."))
    return findings


# -- what runs the job


def _python() -> Iterator[Finding]:
    found = f"{platform.python_version()} ({sys.executable}), Beadline {beadline.__version__}"
    lowest, highest = _PYTHONS
    if lowest <= sys.version_info[:2] <= highest:
        yield Finding("Python", OK, found)
    else:
        wanted = f"{lowest[0]}.{lowest[1]} to {highest[0]}.{highest[1]}"
        yield Finding("Python", PROBLEM, found, f"Install Beadline with a Python from {wanted}.")


def _libraries() -> Iterator[Finding]:
    """Those that are needed, in the versions that the package asks for."""
    wanted = _wanted()
    fit, bad = [], []
    for name in _LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            bad.append(f"{name} is not installed")
            continue
        if _fits(version, wanted.get(name, "")):
            fit.append(f"{name} {version}")
        else:
            bad.append(f"{name} is {version}, and {wanted[name]} is needed")
    if fit:
        yield Finding("packages", OK, ", ".join(fit))
    if bad:
        yield Finding("packages", PROBLEM, "; ".join(bad), f"Run: {sys.executable} -m pip install --upgrade beadline")
    there = [name for name in _EXTRAS if _is_installed(name)]
    missing = [f"{name} (beadline[{extra}])" for name, extra in _EXTRAS.items() if name not in there]
    if missing:
        yield Finding("extras", OK, f"{', '.join(there) or 'none'}; not installed: {', '.join(missing)}")


def _wanted() -> dict[str, str]:
    """The versions that the package asks for, by name."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        lines = [line for line in metadata.requires("beadline") or [] if "extra ==" not in line]
        found = [re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)", line) for line in lines]
        return {match[1].lower(): match[2].strip() for match in found if match is not None}
    return {}


def _fits(version: str, wanted: str) -> bool:
    """Whether a version lies in a range such as ``>=4.3,<4.4``."""
    mine = _numbers(version)
    limits = [(match[1], _numbers(match[2])) for match in re.finditer(r"(>=|<)\s*([\d.]+)", wanted)]
    return all(mine >= limit if sign == ">=" else mine < limit for sign, limit in limits)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4])


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _java(engine: str) -> Iterator[Finding]:
    """Spark needs it, the local engine does not."""
    bad = PROBLEM if engine in engines.ON_SPARK else OK
    spared = " or use --engine local, which needs no Java" if engine in engines.ON_SPARK else ""
    try:
        from beadline.master.spark.class_archive import java_command
        from beadline.master.spark.session import check_java, java_version
    except ImportError as error:
        yield Finding("Java", bad, f"can't be checked without PySpark: {error}")
        return
    try:
        check_java()
    except BeadlineError as error:
        said, _, advice = str(error).partition(" Install")
        unneeded = "" if engine in engines.ON_SPARK else ", which the local engine does not need"
        more = f"Install{advice.rstrip('.')},{spared}." if engine in engines.ON_SPARK else ""
        yield Finding("Java", bad, said.rstrip(".") + unneeded, more)
        return
    yield Finding("Java", OK, f"{java_version(java_command() or 'java')} ({java_command()})")


def _spark(engine: str) -> Iterator[Finding]:
    remote = os.environ.get("SPARK_REMOTE")
    if remote and engine in engines.ON_SPARK:
        yield Finding(
            "Spark",
            PROBLEM,
            f"SPARK_REMOTE is {remote}: Spark Connect",
            "Unset SPARK_REMOTE: Beadline needs a classic session.",
        )
        return
    if not _is_installed("pyspark"):
        return  # told with the packages
    version = metadata.version("pyspark")
    home = os.environ.get("SPARK_HOME")
    jars = os.path.join(home, "jars") if home else ""
    core = [name for name in os.listdir(jars) if name.startswith("spark-core_")] if os.path.isdir(jars) else []
    if home and not core:
        yield Finding(
            "Spark",
            PROBLEM,
            f"SPARK_HOME is {home}, which has no Spark in it",
            "Unset SPARK_HOME to use PySpark's own.",
        )
    elif home and not any(f"-{'.'.join(version.split('.')[:2])}." in name for name in core):
        yield Finding(
            "Spark",
            PROBLEM,
            f"SPARK_HOME is {home} with {core[0]}, and PySpark is {version}",
            "Unset SPARK_HOME, or install the same versions.",
        )
    else:
        where = home or "PySpark's own"
        yield Finding("Spark", OK, f"{version} ({where}), master {os.environ.get('BEADLINE_MASTER', 'local[*]')}")


def _workers(configuration: Configuration, engine: str) -> Iterator[Finding]:
    """The Python of Spark's workers must be fit for the driver's code."""
    if engine not in engines.ON_SPARK:
        yield Finding("workers' Python", OK, "functions run in the program's own Python, on the local engine")
        return
    option = configuration.get_string("python.executable", None)
    variable = os.environ.get("PYSPARK_PYTHON")
    path = option or variable or sys.executable
    origin = "python.executable" if option else "PYSPARK_PYTHON" if variable else ""
    named = f"{path} (set by {origin})" if origin else path
    advice = f"Set {origin or 'PYSPARK_PYTHON'} to {sys.executable}, or leave it out."
    from beadline.master.spark.worker_python import look_at

    try:
        _, version, missing = look_at(path)
    except Exception as error:
        told = "there is no such program" if isinstance(error, FileNotFoundError) else f"it can't be run: {error}"
        yield Finding("workers' Python", PROBLEM, f"{named}: {told}", advice)
        return
    if version.split(".")[:2] != platform.python_version().split(".")[:2]:
        told = f"{named} is Python {version}; it must be of the driver's minor version, {platform.python_version()}"
        yield Finding("workers' Python", PROBLEM, told, advice)
    elif missing:
        yield Finding(
            "workers' Python", PROBLEM, f"{named} has no {', '.join(missing)}", f"Install them there. Or: {advice}"
        )
    else:
        yield Finding("workers' Python", OK, f"{version} ({named})")


# -- what it is told


def _options(configuration: Configuration) -> Iterator[Finding]:
    """Options of files and of the command line are right."""
    from beadline.common.outer_options import option_files
    from beadline.datastream.environment import options

    files = ", ".join(file.path for file in option_files(".")) or "no file"
    try:
        options.runtime_mode(configuration)
        idle = options.without_effect(configuration)
        options.job_settings(configuration, batch=False)
    except BeadlineError as error:
        yield Finding("options", PROBLEM, str(error), f"Set it right; read from: {files}.")
        return
    status = WARNING if idle else OK
    yield Finding("options", status, "; ".join([f"{len(configuration.key_set())} set ({files})", *idle]))


def _ports(configuration: Configuration) -> Iterator[Finding]:
    from beadline.master.client.rest_settings import RestSettings

    settings = RestSettings.from_configuration(configuration)
    if not settings.enabled:
        yield Finding(
            "port", WARNING, "beadline.rest.enabled is false", "Jobs can't be listed, asked or stopped from outside."
        )
        return
    tried = list(settings.candidates())
    for port in tried:
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe,
        ):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, port))
            yield Finding("port", OK, f"{settings.host}:{port or 'any free one'} can be listened on")
            return
    if tried == [0]:
        advice = "Is the loopback interface up? Look at rest.bind-address."
        yield Finding("port", PROBLEM, f"no port of {settings.host} can be listened on", advice)
    else:
        told = f"{settings.host}:{settings.ports_text()} can't be listened on: taken, or not allowed"
        yield Finding(
            "port", WARNING, told, "A job takes any free port then. Choose another rest.port, or leave it out."
        )


def _directories(configuration: Configuration) -> Iterator[Finding]:
    """Where checkpoints and savepoints go can be written, and its clock is this machine's."""
    named = {
        "checkpoints": configuration.get_string("execution.checkpointing.dir", None),
        "savepoints": configuration.get_string("execution.checkpointing.savepoint-dir", None),
    }
    for what, directory in named.items():
        if directory is not None:
            yield _directory(what, directory)
        elif what == "checkpoints":
            yield Finding(what, OK, "no directory is set (execution.checkpointing.dir): they don't outlive the driver")


def _directory(what: str, directory: str) -> Finding:
    from beadline.state.segments.files import delete_file, join, local_path, make_folder, write_file

    advice = f"Make {directory} writable for this user ({_user()}) on the driver and the workers, or choose another."
    local = local_path(directory)
    existed = local is None or os.path.exists(local)
    probe = join(local or directory, f".beadline-doctor-{os.getpid()}")
    try:
        make_folder(local or directory)
        write_file(probe, b"a test of beadline doctor; it can be deleted")
        skew = 0.0 if local is None else os.stat(probe).st_mtime - time.time()
        delete_file(probe)
        if not existed and local is not None:
            os.rmdir(local)
    except Exception as error:
        blocking = None if local is None else _file_on_the_way(local)
        if blocking is not None:
            advice = f"Move {blocking} away, or choose another directory."
        reason = f"{blocking} is a file" if blocking else getattr(error, "strerror", None) or str(error)
        return Finding(what, PROBLEM, f"{directory} can't be written: {reason}", advice)
    if abs(skew) > _SKEW_SECONDS:
        told = f"the clock of {directory} is {skew:+.0f} s off this machine's"
        return Finding(what, WARNING, told, "Let both follow the same time server (NTP).")
    shared = "" if local is None else "; workers on other machines must reach it by the same path"
    return Finding(what, OK, f"{directory} can be written{shared}")


def _file_on_the_way(path: str) -> str | None:
    """What stands where a folder of this path should be, if it is a file."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return None if os.path.isdir(path) or not os.path.exists(path) else path


# -- this machine


def _state_directory() -> Iterator[Finding]:
    from beadline.master.client import registry

    folder = registry.state_directory()
    try:
        registry.make_private(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            pass
    except OSError as error:
        advice = f"Make it writable for this user ({_user()}), or set {registry.VARIABLE} to another."
        yield Finding("state directory", PROBLEM, f"{folder} can't be written: {error.strerror}", advice)
        return
    yield Finding("state directory", OK, f"{folder}")


def _space() -> Iterator[Finding]:
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding(
            "disk", PROBLEM, f"{folder}: {error.strerror}", "Set SPARK_LOCAL_DIRS or TMPDIR to a folder that is there."
        )
        return
    if free < _LITTLE_SPACE:
        advice = "State of running jobs and Spark's shuffle lie there: free some space, or set SPARK_LOCAL_DIRS."
        yield Finding("disk", WARNING, f"{free >> 20:,} MB free in {folder}", advice)
    else:
        yield Finding("disk", OK, f"{free / (1 << 30):,.0f} GB free in {folder}")


def _clock() -> Iterator[Finding]:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < _EARLIEST:
        yield Finding("clock", PROBLEM, shown, "Set the clock: timers, windows and checkpoints go by it.")
    else:
        yield Finding("clock", OK, shown)


def _jobs() -> Iterator[Finding]:
    """Whether the jobs that run here can be asked."""
    from beadline.cli.client import Driver
    from beadline.cli.output import CommandError
    from beadline.master.client import registry

    entries = registry.entries()
    silent = []
    for entry in entries:
        try:
            Driver(entry.url, entry.token, _ANSWER_SECONDS).get("/jobs/overview")
        except CommandError as error:
            if entry.is_alive:
                silent.append(f"{entry.name} ({entry.job_id}, process {entry.pid}): {str(error).splitlines()[0]}")
    if silent:
        yield Finding("running jobs", WARNING, "; ".join(silent), "Is the process stopped, or does it hang?")
    else:
        yield Finding("running jobs", OK, f"{len(entries)}, all answer" if entries else "none")


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
