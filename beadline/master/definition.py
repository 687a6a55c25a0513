"""What a job is: what is to run, where, and how. It stays the same over all its executions."""

from __future__ import annotations

from dataclasses import dataclass

from beadline.checkpoint.coordinator.coordinator import CheckpointCoordinator
from beadline.connectors.source import StepSource
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec
from beadline.master.engine import Engine
from beadline.master.settings import JobSettings
from beadline.master.snapshots.home import Home
from beadline.master.upgrade.compatibility import Acceptance


@dataclass(frozen=True)
class Job:
    """What is to run, where, and how.

    :ivar acceptance: how the program fits the snapshots that it starts from
    """

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

    def coordinator(self) -> CheckpointCoordinator:
        """Decides about its checkpoints."""
        settings = self.settings
        return CheckpointCoordinator(
            settings.checkpoints,
            next_id=self.home.next_id,
            completed=self.home.recovery_points(),
            wall=lambda at: settings.clock() - settings.monotonic() + at,
        )

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
