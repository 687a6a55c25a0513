"""The engine whose steps run in resident workers. All else (merges, savepoints, publishing) is done by Spark jobs on
the slots that are left."""

from __future__ import annotations

import contextlib
import math
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from beadline.errors import EngineLostError, EnvironmentSetupError
from beadline.graph.plan import Plan
from beadline.master.engines.engine import Deployment, Descriptor
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.shipping.shipment import make_shipment
from beadline.master.spark.engine import SparkEngine
from beadline.master.spark.resident.entrance import Entrance
from beadline.master.spark.resident.gang import Gang
from beadline.master.spark.resident.slots import Slots
from beadline.master.spark.shipping import ship_modules
from beadline.runtime.gang.join import join
from beadline.runtime.gang.messages import Invitation
from beadline.runtime.messages import StepHeader, TaskAck

_INSTEAD = "Set beadline.engine: spark, which runs each step as a Spark job"
# Spark encrypts between machines where one of these is true, and expects others to.
_ENCRYPTION = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")


class ResidentEngine(SparkEngine):
    """Steps run in workers that one Spark job holds."""

    keep_alive = math.inf  # workers are in a task all the time

    def __init__(self, session: SparkSession) -> None:
        check_settings(dict(session.sparkContext.getConf().getAll()), str(session.sparkContext.master))
        super().__init__(session)
        self._deployments: dict[str, ResidentDeployment] = {}

    def all_slots(self) -> int:
        """How many tasks Spark has room for, busy or not. Its own check before a barrier stage counts the same way."""
        with self._liveness.watched():
            scala = self.context._jsc.sc()
            return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))

    def deploy(self, plan: Plan, dependencies: Dependencies, group: str) -> ResidentDeployment:
        ship_modules(self, dependencies)
        made = ResidentDeployment(self, plan, self.broadcast(make_shipment(plan, self.surroundings)), group)
        self._deployments[group] = made
        return made

    def ended(self, group: str) -> None:
        """The job of this group has ended."""
        self._deployments.pop(group, None)

    def cancel(self, group: str) -> None:
        deployment = self._deployments.get(group)
        if deployment is not None:
            deployment.cancel()
        super().cancel(group)

    def wait_until_quiet(self, group: str, timeout: float = 60.0) -> None:
        deployment = self._deployments.get(group)
        if deployment is not None:
            deployment.wait_until_quiet(timeout)
        super().wait_until_quiet(group, timeout)

    def let_go(self, group: str) -> None:
        """End a Spark job, and wait until it is over."""
        super().cancel(group)
        super().wait_until_quiet(group)


class ResidentDeployment(Deployment):
    """A plan whose steps run in a gang. The first gang starts at once, and later ones when a step finds none."""

    def __init__(self, engine: ResidentEngine, plan: Plan, shipment: Any, group: str) -> None:
        super().__init__(group, shipment)
        self._engine = engine
        self._job_name = plan.job_name
        self._id = uuid.uuid4().hex
        conf = engine.context.getConf()
        host = None if engine.one_machine else str(conf.get("spark.driver.host", "127.0.0.1"))
        self._slots = Slots(engine, max(plan.width(level) for level in range(len(plan.levels))))
        self._number = 0
        self._idle = threading.Condition()
        self._busy = False
        self._cancelled = False
        self._gang: Gang | None = None
        bind = str(conf.get("spark.driver.bindAddress", host or ""))
        try:
            self._entrance = Entrance(host, bind, self._objection, self._admit)
        except BaseException:
            self._slots.release()
            raise
        self._start_gang()

    def __repr__(self) -> str:
        return f"<ResidentDeployment of {self._job_name!r}: {self._gang!r}>"

    # -- gangs

    def _start_gang(self) -> Gang:
        self._number += 1
        invitation = Invitation(
            self._entrance.address, self._entrance.token, self._number, self._id, self._engine.one_machine
        )
        group = f"{self.group}-gang-{self._number}"
        hold, let_go = partial(self._hold, invitation, group), partial(self._engine.let_go, group)
        gang = self._gang = Gang(self._number, self._slots.size, hold, let_go)
        gang.start()
        return gang

    def _hold(self, invitation: Invitation, group: str) -> None:
        """The Spark job of a gang. Barrier mode gives it all of its slots at once, or none."""
        engine, size = self._engine, self._slots.size
        with engine.watched():
            # Not interrupted: when one worker dies, the others end their tasks by themselves and keep what they know.
            engine.in_group(group, f"{self._job_name}: resident workers", interrupt=False)
            with engine.own_workers():
                workers = engine.context.parallelize(range(size), size).barrier()
                tasks = workers.mapPartitions(self._member(invitation))
                tasks.id()  # which hands it to Spark
            tasks.collect()

    def _member(self, invitation: Invitation) -> Any:
        """What Spark calls in each worker."""
        return partial(join, invitation, self._shipment)

    def _objection(self, who: dict[str, Any]) -> str | None:
        gang = self._gang
        if gang is None or who.get("gang") != self._number:
            return f"gang {who.get('gang')} is over: this is gang {self._number}"
        return gang.objection()

    def _admit(self, who: dict[str, Any], connection: Any) -> None:
        gang = self._gang
        if gang is None or gang.number != who["gang"]:
            connection.close()
        else:
            gang.admit(who, connection)

    def _present_gang(self) -> Gang:
        gang = self._gang
        assert gang is not None
        gang.check()
        if gang.is_over:
            gang.wait_until_gone()
            gang = self._start_gang()
        return gang

    # -- steps

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        with self._running(), self._engine.watched():
            gang = self._present_gang()
            gang.begin()
            if self._cancelled:
                gang.cancel()
            return gang.run_step(header, inputs)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        with self._idle:
            self._busy, self._cancelled = True, False
        try:
            yield
        finally:
            with self._idle:
                self._busy = False
                self._idle.notify_all()

    def cancel(self) -> None:
        """The step that runs is not wanted. Without one, the gang is left alone."""
        with self._idle:
            if not self._busy:
                return
            self._cancelled = True
            gang = self._gang
        if gang is not None:
            gang.cancel()

    def wait_until_quiet(self, timeout: float) -> None:
        with self._idle:
            self._idle.wait_for(lambda: not self._busy, timeout)
            gang = self._gang
        if gang is not None:
            gang.wait_until_gone()  # if it is over

    # -- the end

    def end(self, live: tuple[str, ...]) -> None:
        self._engine.ended(self.group)
        self._entrance.close()
        try:
            gang = self._gang
            if self._engine.ask() is not None:
                if gang is not None:
                    gang.drop()
                return
            self.cancel()
            with contextlib.suppress(EngineLostError), self._engine.watched():
                self.wait_until_quiet(60.0)
                if gang is not None:
                    gang.leave(live)
                with contextlib.suppress(Exception):  # it is garbage in any case
                    self._shipment.destroy()
        finally:
            self._slots.release()


def check_settings(conf: dict[str, str], master: str) -> None:
    """Raise if Spark would refuse the workers, or if they would not keep what Spark promises."""
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        raise EnvironmentSetupError(
            "resident workers are not possible with spark.dynamicAllocation.enabled=true: Spark refuses barrier stages "
            f"then (SPARK-24942). {_INSTEAD}, or switch dynamic allocation off."
        )
    asked = [name for name in _ENCRYPTION if conf.get(name, "false").lower() == "true"]
    if asked and not master.startswith("local"):
        raise EnvironmentSetupError(
            f"resident workers send rows to each other without encryption, but {asked[0]}=true asks for it between "
            f"machines. {_INSTEAD}."
        )
