"""Running one step until it can be sealed. Spark may give up on a step, or its acknowledgements may disagree: then the
same step is run again from the sealed version, which is no restart."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable
from typing import Any

from beadline.errors import BeadlineError, JobExecutionError, StepError
from beadline.graph.plan import Plan
from beadline.master.spark.session import Cluster, StepSubmitter
from beadline.master.spark.worker_python import set_up_error
from beadline.master.telling import shortened
from beadline.master.upkeep import seal
from beadline.master.upkeep.handles import StateBook
from beadline.runtime.messages import StepHeader, TaskAck
from beadline.runtime.migrate import Migrated, MigrationRequest
from beadline.state.backend_settings import BackendSettings
from beadline.state.disks import FREE_SPACE, is_full
from beadline.state.files import RunFiles

_TRIES = 6
_WORKERS_DIE = (
    "A Python worker died each time: killed for want of memory, or by a crash in a library. Give workers more memory, "
    "run fewer at a time (-p), and look at what they wrote to standard error."
)

live_runs: dict[str, None] = {}


class Stepper:
    """Runs steps of one job in whatever thread calls it.

    :ivar sealed_at: the processing time of the last step that may be sealed; later steps are not before it
    """

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        submitter: StepSubmitter,
        files: RunFiles,
        inline_limit: int,
        codec: str | None,
        cancelled: Callable[[], bool],
        warn: Callable[[str], None],
        backend: BackendSettings,
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._submitter = submitter
        self.files = files
        self._inline_limit = inline_limit
        self._codec = codec
        self._cancelled = cancelled
        self._warn = warn
        self._backend = backend
        self.sealed_at = 0
        self._given_up = False

    def header(self, run: str, step: int, now: int, final: bool, **more: Any) -> StepHeader:
        live, root = tuple(live_runs), self.files.root
        more.update(codec=self._codec, backend=self._backend)
        return StepHeader(run, step, now, final, live, root, self._inline_limit, **more)

    def run(
        self, header: StepHeader, inputs: list[tuple[int, int, bytes]], book: StateBook
    ) -> tuple[list[TaskAck], int]:
        """The acknowledgements of a step that may be sealed, and how many tries it took."""
        for attempt in range(1, _TRIES + 1):
            try:
                acks = self._submitter.run(header, inputs)
                seal.check(self._plan, acks, book.handles, book.states)
                self.sealed_at = header.now
                return acks, attempt
            except JobExecutionError:
                raise
            except Exception as error:
                ends = set_up_error(self._cluster, error)
                if ends is not None:
                    raise ends from error
                if self._given_up or self._cancelled() or attempt == _TRIES or not _worth_another_try(error):
                    gave_up = _gave_up(header.step, error, attempt, self._cluster)
                    raise gave_up from (None if is_full(error) else error)
                self._warn(f"step {header.step} is run again (try {attempt} of {_TRIES}): {first_line(error)}")
                self.quiet()
        raise AssertionError("unreachable")

    def migrate(self, header: StepHeader, requests: list[MigrationRequest]) -> list[Migrated]:
        """Rewrite state of changed types. Like a step it changes nothing that counts, and may be run again."""
        for attempt in range(1, _TRIES + 1):
            try:
                return self._submitter.migrate(header, requests)
            except Exception as error:
                ends = set_up_error(self._cluster, error)
                if ends is not None:
                    raise ends from error
                if self._cancelled() or attempt == _TRIES or not _worth_another_try(error):
                    raise
                self._warn(f"migrating state is tried again (try {attempt} of {_TRIES}): {first_line(error)}")
                self.quiet()
        raise AssertionError("unreachable")

    def begin(self) -> None:
        """An attempt begins."""
        self._given_up = False

    def give_up(self) -> None:
        """Nobody wants the running step any more: it is not run again, and need not come to its end."""
        self._given_up = True
        self._cluster.cancel(self._submitter.group)

    def quiet(self) -> None:
        """No task of the job may be active before its work is done again."""
        self._cluster.cancel(self._submitter.group)
        self._cluster.wait_until_quiet(self._submitter.group)


def _gave_up(step: int, error: Exception, attempt: int, cluster: Cluster) -> BaseException:
    if isinstance(error, BeadlineError) and not isinstance(error, StepError):
        return error
    advice = ""
    if "java.io.IOException: No space left on device" in str(error):
        folder = os.environ.get("SPARK_LOCAL_DIRS") or cluster.context.getConf().get("spark.local.dir", "/tmp")
        advice = (
            f". It is Spark's own folder that is full, spark.local.dir ({folder}), where it keeps what its tasks "
            f"exchange. {FREE_SPACE}"
        )
    often = f"{attempt} times; the last time" if attempt > 1 else "once"
    made = JobExecutionError(
        f"step {step} failed {often}: {first_line(error)}{advice}",
        full_traceback="".join(traceback.format_exception(error)),
    )
    if "exited unexpectedly" in str(error):
        made.add_note(_WORKERS_DIE)
    return made


def _worth_another_try(error: Exception) -> bool:
    """What Spark or a check gave up on; errors of the program or the set-up itself come the same way every time."""
    if "beadline.errors.StorageError" in str(error):
        return False
    return isinstance(error, StepError) or not isinstance(error, BeadlineError)


def first_line(error: BaseException) -> str:
    """The telling line of an error: the last ``SomethingError: …`` of a traceback that came from a worker or the JVM,
    if there is one."""
    if isinstance(error, BeadlineError):
        return shortened(str(error).partition("\n")[0])
    lines = [re.sub("^(: |Caused by: )", "", line.strip()) for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b.*:", line)]
    told = raised[-1] if raised else lines[0] if lines else type(error).__name__
    return shortened(told.partition(" Consider setting 'spark.")[0])
