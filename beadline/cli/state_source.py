"""Where ``beadline state`` gets its answers: from a running job over REST, or from a checkpoint or savepoint itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from beadline.cli.client import RunningJob, find_job
from beadline.cli.output import CommandError
from beadline.errors import BeadlineError, SerializationError, VersionError
from beadline.runtime.worker.garbage import no_collection

if TYPE_CHECKING:
    from beadline.state_processor.catalog import Catalog

_STATE = "/beadline/state"
# For how long a view is asked for, and how often again while it is read.
_KEEP_SECONDS = 120.0
_AGAIN_SECONDS = 40.0


class Source(Protocol):
    """Answers as :mod:`beadline.web.state` documents them."""

    def overview(self, operator: str | None = None, exact: bool | None = None) -> dict[str, Any]: ...

    def key(self, operator: str, key: str, state: str | None) -> dict[str, Any]: ...

    def largest(self, operator: str, n: int, state: str | None) -> dict[str, Any]: ...

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        """The snapshot, whose files stay until the end of the block."""
        ...


def source_of(where: str, address: str | None = None) -> Source:
    """A path, or a running job: by its id, the beginning of that, or its name."""
    if address is None and ("/" in where or os.path.exists(where)):
        from beadline.state_processor.catalog import Catalog

        return SnapshotSource(Catalog(newest_in(where)))
    try:
        return JobSource(find_job(where, address))
    except CommandError as error:
        raise CommandError(f"{error}\nTo look into a checkpoint or savepoint, give its path.", error.code) from None


def newest_in(path: str) -> str:
    """A checkpoint or savepoint; of a job's folder its newest checkpoint."""
    from beadline.checkpoint.contents.metadata import METADATA
    from beadline.checkpoint.directory.lookup import canonical, list_job
    from beadline.state.segments.files import is_folder, join, size_of

    folder = canonical(path)
    if is_folder(folder) and size_of(join(folder, METADATA)) is None:
        listed = next((found for found in list_job(folder) if found.snapshot is not None), None)
        if listed is not None:
            return listed.pointer
    return path


class SnapshotSource:
    """A checkpoint, a savepoint or a view, read by this process."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def overview(self, operator: str | None = None, exact: bool | None = None) -> dict[str, Any]:
        from beadline.state_processor.local.overview import overview

        with no_collection():  # it would walk through all entries again and again, and took most of the time
            return {"job_id": self._catalog.snapshot.job_id, **overview(self._catalog, operator, exact)}

    def key(self, operator: str, key: str, state: str | None) -> dict[str, Any]:
        from beadline.state_processor.local.lookup import look_up

        found, states = self._catalog.keyed_operator(operator, state), self._catalog.states(operator)
        return {**self._about, **look_up(found, states, key, int(time.time() * 1000), state)}

    def largest(self, operator: str, n: int, state: str | None) -> dict[str, Any]:
        from beadline.state_processor.local.largest import largest

        with no_collection():
            return {**self._about, **largest(self._catalog.keyed_operator(operator, state), n, state)}

    @property
    def _about(self) -> dict[str, Any]:
        return {"job_id": self._catalog.snapshot.job_id, "step": self._catalog.snapshot.step}

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        yield self._catalog


class JobSource:
    """A running job, asked over REST."""

    def __init__(self, job: RunningJob) -> None:
        self._job = job

    def overview(self, operator: str | None = None, exact: bool | None = None) -> dict[str, Any]:
        if exact:
            answer = self._read_here(lambda source: source.overview(operator, exact))
            if answer is not None:
                return answer
        return self._get("", operator=operator, exact=None if exact is None else str(exact).lower())

    def key(self, operator: str, key: str, state: str | None) -> dict[str, Any]:
        return self._get("/key", operator=operator, key=key, state=state)

    def largest(self, operator: str, n: int, state: str | None) -> dict[str, Any]:
        answer = self._read_here(lambda source: source.largest(operator, n, state))
        return answer or self._get("/largest", operator=operator, n=str(n), state=state)

    def _read_here(self, read: Callable[[Source], dict[str, Any]]) -> dict[str, Any] | None:
        """What takes long is read in this process, and takes nothing from the job. None if that can't be: its files are
        elsewhere, or its keys are of classes that only the job knows."""
        try:
            with self.opened() as catalog:
                return read(SnapshotSource(catalog))
        except (CommandError, SerializationError) as error:
            if isinstance(error, CommandError) and not isinstance(error.__cause__, VersionError):
                raise
            return None

    def _get(self, path: str, **query: str | None) -> dict[str, Any]:
        given = {name: value for name, value in query.items() if value is not None}
        answer: dict[str, Any] = self._job.get(f"{_STATE}{path}", **given)
        return answer

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        """The last sealed step. The driver keeps its files while the block goes on."""
        from beadline.state_processor.catalog import Catalog
        from beadline.web import view as view_text

        answer = self._view(keep_seconds=_KEEP_SECONDS)
        name = f"job {self._job.job_id}"
        snapshot = view_text.from_text(answer["metadata"])
        done = threading.Event()
        threading.Thread(target=self._keep, args=(answer["view"], done), daemon=True).start()
        try:
            yield Catalog(name, snapshot)
        except VersionError as error:
            raise CommandError(
                f"{error}\nThe files of {name} must be readable from here. If the job has just failed, ended or gone "
                "back to a checkpoint, try again"
            ) from error
        finally:
            done.set()
            with suppress(BeadlineError):  # the job may have ended meanwhile
                self._view(view=answer["view"], keep_seconds=0)

    def _keep(self, view: str, done: threading.Event) -> None:
        while not done.wait(_AGAIN_SECONDS):
            try:
                self._view(view=view, keep_seconds=_KEEP_SECONDS)
            except BeadlineError:
                return  # reading will tell

    def _view(self, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._job.post(f"{_STATE}/view", body)
        return answer
