"""Does a step fail because of the workers' Python? Spark's error shows it, so that good jobs pay nothing.

A session that the user made may run its workers with another Python than the driver's: ``PYSPARK_PYTHON`` is not set,
for example, and ``python3`` is the system's. Such a worker always fails before any code of Beadline runs in it.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from beadline.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from beadline.master.spark.engine import SparkEngine

_OURS = sys.version.partition(" ")[0]
_NEEDED = ("pyarrow", "pandas", "cloudpickle", "xxhash", "sortedcontainers", "yaml")
# What Beadline itself raised in a worker.
_SAID = re.compile(r"beadline\.errors\.EnvironmentSetupError: (.+)")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OTHER_VERSION = re.compile(r"\[PYTHON_VERSION_MISMATCH\].*?version: ([\d.]+)")
_NO_START = re.compile(
    r"Cannot run program|error=\d+, (?:No such file|Permission denied)|reading the port number from pyspark\.daemon"
)
_BROKEN = re.compile(r"SyntaxError|ImportError|ModuleNotFoundError|No module named|No such file|Permission denied")

# Run by the other Python, whatever version it is.
_LOOK = (
    "import sys, json\n"
    "missing = []\n"
    "for name in sys.argv[1].split(','):\n"
    "    try:\n"
    "        __import__(name)\n"
    "    except Exception:\n"
    "        missing.append(name)\n"
    "print(json.dumps([sys.executable, '%d.%d.%d' % sys.version_info[:3], missing]))\n"
)


def set_up_error(engine: SparkEngine, error: Exception) -> EnvironmentSetupError | None:
    """The error to end the job with if workers can't do any work; None if it is something else."""
    text = str(error)
    said = _SAID.search(text)
    if said is not None:
        return EnvironmentSetupError(said[1].strip())
    mismatch, module, no_start = _OTHER_VERSION.search(text), _NO_MODULE.search(text), _NO_START.search(text)
    if mismatch is None and module is None and no_start is None:
        return None
    path, found, missing = _look(engine, mismatch is None and no_start is None)
    other = mismatch is not None or bool(found and _minor(found) != _minor(_OURS))
    if no_start is not None and not other and not missing and _BROKEN.search(text) is None:
        return None  # the interpreter is fine: something killed it
    top = module[1].partition(".")[0] if module is not None else ""
    if top and top not in missing and top not in ("beadline", "pyspark", *_NEEDED):
        return EnvironmentSetupError(
            f"the workers can't import '{top}', which the program uses.\n"
            f"The workers' Python is {_named(path, found)}. Install the module there, send it along with "
            "env.add_python_file(), or set PYSPARK_PYTHON to a Python that has it before the session is made."
        )
    if other:
        problem = "it must be of the driver's minor version"
    elif missing or top:
        problem = f"it has no {', '.join(missing or [top])}"
    else:
        problem = "it can't be started, or can't run PySpark"
    return EnvironmentSetupError(
        f"the workers' Python is not fit for the job: {problem}.\n"
        f"  workers: {_named(path, found or (mismatch[1] if mismatch is not None else ''))}\n"
        f"  driver: {_named(sys.executable, _OURS)}\n"
        f"Set PYSPARK_PYTHON={sys.executable} before the Spark session is made (spark-submit: "
        "spark.pyspark.python)."
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _named(path: str, version: str) -> str:
    return f"{path} (Python {version})" if version else path


def _look(engine: SparkEngine, runs_tasks: bool) -> tuple[str, str, list[str]]:
    """The workers' interpreter, its version, and what it lacks; as much of it as can be found out."""
    path = str(engine.context.pythonExec)
    with contextlib.suppress(Exception):
        if engine.one_machine:
            return look_at(path)
        if runs_tasks:
            return _read(engine.run_each(_looker(_LOOK, ",".join(_NEEDED)), [0])[0])
    return path, "", []


def look_at(path: str) -> tuple[str, str, list[str]]:
    """An interpreter of this machine, its version, and which of the modules that workers need it lacks."""
    command = [path, "-c", _LOOK, ",".join(_NEEDED)]
    return _read(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def _read(said: str) -> tuple[str, str, list[str]]:
    path, version, missing = json.loads(said.splitlines()[-1])
    return path, version, missing


def _looker(code: str, names: str) -> Any:
    def look(_: Any) -> str:  # sent by value, because a worker may have no Beadline: it knows nothing of this module
        import subprocess
        import sys

        return subprocess.run([sys.executable, "-c", code, names], capture_output=True, text=True, check=True).stdout

    return look
