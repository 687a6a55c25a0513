"""How a job runs, as plain values."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from beadline.checkpoint.restart import NoRestart, RestartStrategy
from beadline.checkpoint.settings import CheckpointSettings
from beadline.master.clocks import Clock
from beadline.master.poison import PoisonSettings
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.upkeep.pacing import Limits
from beadline.state.backend_settings import BackendSettings


@dataclass
class JobSettings:
    """How a job runs.

    :ivar clock: what time it is, in milliseconds since 1970; it may jump
    :ivar monotonic: how much time has passed, in milliseconds since whenever; for all that waits or expires
    """

    batch: bool = False
    limits: Limits = field(default_factory=Limits)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    restart: RestartStrategy = field(default_factory=NoRestart)
    poison: PoisonSettings = field(default_factory=PoisonSettings)
    backend: BackendSettings = field(default_factory=BackendSettings)
    dependencies: Dependencies = field(default_factory=Dependencies)
    clock: Clock = lambda: int(time.time() * 1000)
    monotonic: Clock = lambda: int(time.monotonic() * 1000)
