"""What a job is: what is to run, where, and how. It stays the same over all its executions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from beadline.checkpoint.coordinator.coordinator import CheckpointCoordinator
from beadline.checkpoint.coordinator.parts import CompletedCheckpoint
from beadline.checkpoint.restart import NoRestart, RestartStrategy
from beadline.checkpoint.settings import CheckpointSettings, Key
from beadline.connectors.sink_settings import SinkSettings
from beadline.connectors.source import StepSource
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan
from beadline.graph.specs import SinkSpec, SourceSpec
from beadline.master.client.rest_settings import RestSettings
from beadline.master.engines.engine import Engine
from beadline.master.failures import PoisonSettings
from beadline.master.reporting.chronicle import Chronicle
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.snapshots.home import Home
from beadline.master.upgrade.compatibility import Acceptance
from beadline.master.upkeep.pacing import Limits
from beadline.state.backend_settings import BackendSettings

Clock = Callable[[], int]

_stops = False

_LOG = logging.getLogger("beadline")


@dataclass
class JobSettings:
    """How a job runs.

    :ivar options: what the user has set, by key, for people to look at; with passwords and all
    :ivar clock: what time it is, in milliseconds since 1970; it may jump
    :ivar monotonic: how much time has passed, in milliseconds since whenever; for all that waits or expires
    """

    batch: bool = False
    limits: Limits = field(default_factory=Limits)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    restart: RestartStrategy = field(default_factory=NoRestart)
    poison: PoisonSettings = field(default_factory=PoisonSettings)
    backend: BackendSettings = field(default_factory=BackendSettings)
    sinks: SinkSettings = field(default_factory=SinkSettings)
    dependencies: Dependencies = field(default_factory=Dependencies)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)
    rest: RestSettings = field(default_factory=RestSettings)
    clock: Clock = lambda: int(time.time() * 1000)
    monotonic: Clock = lambda: int(time.monotonic() * 1000)


@dataclass(frozen=True)
class Job:
    """What is to run, where, and how; ``acceptance`` is how the program fits the snapshots that it starts from."""

    plan: Plan
    engine: Engine
    settings: JobSettings
    home: Home
    acceptance: Acceptance

    @property
    def group(self) -> str:
        """Names its tasks."""
        return f"beadline-{self.home.job_id}"

    @property
    def exactly_once(self) -> bool:
        return self.settings.checkpoints.enabled and self.settings.checkpoints.exactly_once

    def coordinator(self, chronicle: Chronicle) -> CheckpointCoordinator:
        """Decides about its checkpoints, and remembers those of earlier drivers."""
        settings = self.settings
        completed = [CompletedCheckpoint(s.snapshot.checkpoint_id, s.snapshot.step) for s in self.home.completed]
        made = CheckpointCoordinator(
            settings.checkpoints,
            next_id=self.home.next_id,
            completed=completed,
            wall=lambda at: settings.clock() - settings.monotonic() + at,
            earlier=chronicle.still_there(each.id for each in completed),
        )
        made.statistics.count(*chronicle.counts)
        return made

    def prepared_sources(self) -> dict[int, StepSource]:
        """Its sources, by node, ready to be read."""
        sources = {}
        for node in self.plan.nodes.values():
            if isinstance(node.spec, SourceSpec):
                source: StepSource = node.spec.source
                source.prepare(self.settings.batch)
                if self.settings.batch and not source.bounded:
                    raise ConfigurationError(
                        f"source '{node.name}' never ends, which batch mode does not allow; use "
                        "RuntimeExecutionMode.STREAMING"
                    )
                sources[node.id] = source
        if not sources:
            raise ConfigurationError("the program has no source")
        return sources

    def check_sinks(self) -> None:
        """A sink that was told to deliver exactly once can't do that in a job that never ends and takes no checkpoints.
        A job that ends may do without them: as in Flink, all its output is committed by its end."""
        nodes = self.plan.nodes.values()
        ends = all(node.spec.source.bounded for node in nodes if isinstance(node.spec, SourceSpec))
        if ends or self.settings.batch or self.settings.checkpoints.enabled:
            return
        for node in nodes:
            if isinstance(node.spec, SinkSpec) and node.spec.sink.needs_checkpoints:
                raise ConfigurationError(
                    f"sink '{node.name}' is to deliver EXACTLY_ONCE, which it does with checkpoints, and this job "
                    "never ends and takes none. Turn them on: env.enable_checkpointing(10_000), or "
                    f"{Key.INTERVAL}: 10 s. Or choose DeliveryGuarantee.AT_LEAST_ONCE"
                )
            if isinstance(node.spec, SinkSpec) and (told := node.spec.sink.without_checkpoints()):
                _LOG.warning(
                    "sink '%s' publishes with checkpoints, and this job never ends and takes none: %s. Turn them on: "
                    "env.enable_checkpointing(10_000), or %s: 10 s",
                    node.name,
                    told,
                    Key.INTERVAL,
                )


class ProcessingTime:
    """The processing time of steps: the wall clock, but it never goes back. Timers, windows and times to live rely on
    that: a merge drops entries that have expired, and no later step may find that they have not. If the wall clock is
    set back, processing time goes on from where it is at the pace of the monotonic clock, until the wall clock has
    caught up. It does not stand still meanwhile: a timer that is due in a second would then fire an hour later. If the
    wall clock jumps ahead, processing time follows, and timers up to then fire."""

    def __init__(self, wall: Clock, monotonic: Clock) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._ahead = wall() - monotonic()

    def __call__(self) -> int:
        passed = self._monotonic()
        self._ahead = max(self._ahead, self._wall() - passed)
        return passed + self._ahead


class ProgramReached(BaseException):
    """A program has come to its ``execute()``. Not an ``Exception``: the program is not to handle it."""

    def __init__(self, plan: Plan, settings: JobSettings) -> None:
        super().__init__(plan.job_name)
        self.plan = plan
        self.settings = settings


def stop_at_execute(stops: bool = True) -> None:
    """From now on, ``execute()`` raises :class:`ProgramReached` instead of running the job."""
    global _stops
    _stops = stops


def reached(plan: Plan, settings: JobSettings) -> None:
    """A job is about to start."""
    if _stops:
        raise ProgramReached(plan, settings)
