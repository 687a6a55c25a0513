"""Whether Spark is still there. This module alone uses private parts of PySpark for that.

PySpark has no call that says whether the JVM lives and the SparkContext runs. What is read here instead, all of it
private: the gateway's process, the context's Java object, and the server for accumulators, which complains aloud when
the JVM goes.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from beadline.errors import EngineLostError

_LOG = logging.getLogger("beadline")

# A process that dies closes its connections a moment before its exit code can be read.
_MOMENT = 1.0
_STOPPED = "the SparkContext was stopped, perhaps by the program itself with spark.stop()"

#: Set from when an engine is lost until there is another one. What the JVM logs meanwhile tells, in stack traces, how
#: tasks end that were cut off.
nothing_to_say = threading.Event()


class Liveness:
    """The JVM and the SparkContext of one job. Once lost, they stay so: a new session is another engine."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._process: subprocess.Popen[bytes] | None = getattr(getattr(context, "_gateway", None), "proc", None)
        self._loss: str | None = None
        _keep_quiet(context)

    @property
    def loss(self) -> str | None:
        """What happened to it, as far as this process can tell without asking the JVM."""
        if self._loss is None:
            self._lose(self._stopped_here() or self._gone())
        return self._loss

    def ask(self) -> str | None:
        """What happened to it, if it does not answer or says that it was stopped."""
        if self.loss is None:
            self._lose(self._stopped_there())
        return self._loss

    def _lose(self, loss: str | None) -> None:
        if loss is not None:
            nothing_to_say.set()
            self._loss = loss

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """An error in here is the loss of the engine, if the engine is lost."""
        if self.loss is not None:
            raise EngineLostError(self.loss)
        try:
            yield
        except EngineLostError:
            raise
        except Exception as error:
            if self.ask() is None:
                raise
            _LOG.debug("the engine is lost", exc_info=True)
            raise EngineLostError(self._loss) from error

    def _stopped_here(self) -> str | None:
        return _STOPPED if getattr(self._context, "_jsc", None) is None else None

    def _gone(self) -> str | None:
        code = self._process.poll() if self._process is not None else None
        if self._process is None or code is None:
            return None
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"the JVM (process {self._process.pid}) is gone: {how}"

    def _stopped_there(self) -> str | None:
        try:
            return _STOPPED if self._context._jsc.sc().isStopped() else None
        except Py4JJavaError:
            return None  # it answers
        except Exception:
            nothing_to_say.set()
        deadline = time.monotonic() + _MOMENT
        while self.loss is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.loss or "the JVM does not answer"


def _keep_quiet(context: SparkContext) -> None:
    """When the JVM goes, py4j and PySpark print a traceback for each connection, which whoever called gets as well."""
    root = logging.getLogger()
    if not any(isinstance(each, _BrokenConnections) for each in root.filters):
        root.addFilter(_BrokenConnections())
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is not None and not isinstance(server.handle_error, _QuietEnd):
        server.handle_error = _QuietEnd(server.handle_error)


class _BrokenConnections(logging.Filter):
    """py4j logs these with the root logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.module == "java_gateway" and record.msg == "Exception while sending command.")


class _QuietEnd:
    """Drops the accumulator server's error that means that the JVM has closed its end."""

    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise

    def __call__(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            self._otherwise(request, client_address)
